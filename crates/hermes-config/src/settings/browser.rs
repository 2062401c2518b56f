//! The settings for browsers.

use std::time::Duration;

use hermes_types::Secret;

use crate::{Config, Env};

/// Where the browser is.
#[derive(Debug, Clone)]
pub enum BrowserBackend {
    /// On this machine, started by Hermes.
    Local,
    /// At an address of the DevTools protocol.
    Address(String),
    Browserbase(BrowserbaseSettings),
    BrowserUse(Secret),
    /// Something is missing, which the text names.
    Unusable(String),
}

/// What a browser of Browserbase is asked for.
#[derive(Debug, Clone)]
pub struct BrowserbaseSettings {
    pub key: Secret,
    pub project: String,
    pub keep_alive: bool,
    pub proxies: bool,
    pub advanced_stealth: bool,
    /// The longest life of a session, in milliseconds.
    pub timeout: Option<u64>,
}

/// What answers the dialogs of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserDialogs {
    Model,
    Accept,
    Dismiss,
}

/// The `browser` section, with the variables of the services.
#[derive(Debug, Clone)]
pub struct BrowserSettings {
    pub backend: BrowserBackend,
    pub inactivity_timeout: Duration,
    pub command_timeout: Duration,
    pub headed: bool,
    /// The name or path of the browser to start; `None` for the first that is found.
    pub program: Option<String>,
    pub allow_private_urls: bool,
    pub dialogs: BrowserDialogs,
    /// The time after which a dialog without an answer is dismissed.
    pub dialog_timeout: Duration,
    pub records_sessions: bool,
    /// The proxy of the environment.
    pub proxy: Option<String>,
}

/// The least time for an action.
const LEAST_COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// The variables with a proxy, the first of which counts.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"];

impl BrowserSettings {
    pub fn resolve(config: &Config, env: &Env) -> Self {
        let set =
            |name: &str| env.get(name).map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned);
        let inactivity = set("BROWSER_INACTIVITY_TIMEOUT").and_then(|seconds| seconds.parse().ok());
        let engine = config.non_empty_text("browser.engine").filter(|name| name != "auto");
        Self {
            backend: backend(config, env, set("BROWSER_CDP_URL")),
            inactivity_timeout: inactivity
                .map_or_else(|| config.seconds("browser.inactivity_timeout"), Duration::from_secs),
            command_timeout: config.seconds("browser.command_timeout").max(LEAST_COMMAND_TIMEOUT),
            headed: config.flag("browser.headed"),
            program: engine,
            allow_private_urls: config.flag("browser.allow_private_urls"),
            dialogs: match config.non_empty_text("browser.dialog_policy").as_deref() {
                Some("auto_accept") => BrowserDialogs::Accept,
                Some("auto_dismiss") => BrowserDialogs::Dismiss,
                _ => BrowserDialogs::Model,
            },
            dialog_timeout: config.seconds("browser.dialog_timeout_s"),
            records_sessions: config.flag("browser.record_sessions"),
            proxy: PROXY_VARIABLES.iter().find_map(|name| set(name)),
        }
    }
}

fn backend(config: &Config, env: &Env, address: Option<String>) -> BrowserBackend {
    if let Some(address) = address.or_else(|| config.non_empty_text("browser.cdp_url")) {
        return BrowserBackend::Address(address);
    }
    let named = config.non_empty_text("browser.cloud_provider");
    match named.as_deref() {
        None => browserbase(env).unwrap_or(BrowserBackend::Local),
        Some("local" | "none") => BrowserBackend::Local,
        Some("browserbase") => browserbase(env).unwrap_or_else(|| {
            BrowserBackend::Unusable(
                "browser.cloud_provider is browserbase, but BROWSERBASE_API_KEY or BROWSERBASE_PROJECT_ID is not set"
                    .to_owned(),
            )
        }),
        Some("browser-use" | "browser_use") => match env.get("BROWSER_USE_API_KEY") {
            Some(key) => BrowserBackend::BrowserUse(Secret::new(key)),
            None => BrowserBackend::Unusable(
                "browser.cloud_provider is browser-use, but BROWSER_USE_API_KEY is not set".to_owned(),
            ),
        },
        Some(other) => BrowserBackend::Unusable(format!(
            "browser.cloud_provider: '{other}' is none of local, browserbase, browser-use"
        )),
    }
}

fn browserbase(env: &Env) -> Option<BrowserBackend> {
    let key = env.get("BROWSERBASE_API_KEY")?;
    let project = env.get("BROWSERBASE_PROJECT_ID")?;
    let flag = |name: &str, usual: bool| env.bool(name).unwrap_or(usual);
    Some(BrowserBackend::Browserbase(BrowserbaseSettings {
        key: Secret::new(key),
        project: project.to_owned(),
        keep_alive: flag("BROWSERBASE_KEEP_ALIVE", true),
        proxies: flag("BROWSERBASE_PROXIES", true),
        advanced_stealth: flag("BROWSERBASE_ADVANCED_STEALTH", false),
        timeout: env.get("BROWSERBASE_SESSION_TIMEOUT").and_then(|value| value.trim().parse().ok()),
    }))
}
