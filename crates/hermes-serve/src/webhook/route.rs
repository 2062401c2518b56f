//! Webhook routes: from config.yaml, and those added while the gateway runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use hermes_config::{Config, Env, write};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::StartError;

/// The secret that turns off the signature check.
pub(super) const NO_CHECK: &str = "INSECURE_NO_AUTH";

/// One route, in the shape of `webhook_subscriptions.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookRoute {
    /// The events it accepts; an empty list accepts all.
    #[serde(default)]
    pub events: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(default)]
    pub skills: Vec<String>,
    /// The destination: `log`, `github_comment` or a platform.
    #[serde(default = "to_log")]
    pub deliver: String,
    #[serde(default)]
    pub deliver_extra: Map<String, Value>,
    /// True when the prompt itself is delivered, without the agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deliver_only: bool,
    /// The script in `scripts/` of the home that filters and changes events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(default = "yes")]
    pub enabled: bool,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

fn to_log() -> String {
    "log".to_owned()
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl WebhookRoute {
    /// Tells whether the route accepts an event. Some senders use names other than the documented ones.
    pub(super) fn accepts_event(&self, event: &str, payload: &Value) -> bool {
        let kind = payload.get("object_kind").and_then(Value::as_str);
        let normal = event.to_lowercase().trim_end_matches(" hook").replace(' ', "_");
        self.events.is_empty()
            || self.events.iter().any(|one| one == event || *one == normal || Some(one.as_str()) == kind)
    }
}

/// Tells whether a name can be part of a URL.
pub fn is_valid_route_name(name: &str) -> bool {
    let mut chars = name.chars();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    chars.next().is_some_and(plain) && chars.all(|c| plain(c) || c == '_' || c == '-')
}

/// The settings of the webhook server.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    pub host: String,
    pub port: u16,
    pub secret: Option<String>,
    pub routes: BTreeMap<String, WebhookRoute>,
    pub max_per_minute: usize,
    pub max_body_bytes: usize,
    /// False when the server only passes requests on to chat platforms.
    pub takes_events: bool,
}

impl WebhookSettings {
    /// The default port, which existing senders expect.
    pub const PORT: u16 = 8644;

    /// Resolves the settings. Returns `None` when webhooks are not enabled.
    pub fn resolve(config: &Config, env: &Env) -> Option<Self> {
        let wanted = env.bool("WEBHOOK_ENABLED").unwrap_or(false) || config.flag("platforms.webhook.enabled");
        wanted.then(|| Self::read(config, env))
    }

    /// Resolves the settings of a server that only passes requests on to chat platforms.
    pub fn without_routes(config: &Config, env: &Env) -> Self {
        Self { routes: BTreeMap::new(), takes_events: false, ..Self::read(config, env) }
    }

    fn read(config: &Config, env: &Env) -> Self {
        let extra = config.get("platforms.webhook.extra").map(|value| value.to_json()).unwrap_or_default();
        let text = |key: &str| {
            extra.get(key).and_then(Value::as_str).map(str::to_owned).filter(|text| !text.is_empty())
        };
        let number = |key: &str| extra.get(key).and_then(Value::as_u64);
        let port = env.get("WEBHOOK_PORT").and_then(|port| port.trim().parse().ok());
        let port = port.or_else(|| number("port").and_then(|port| u16::try_from(port).ok()));
        let size = |value: u64| usize::try_from(value).ok();
        Self {
            takes_events: true,
            host: text("host").unwrap_or_else(|| "0.0.0.0".to_owned()),
            port: port.unwrap_or(Self::PORT),
            secret: env.get("WEBHOOK_SECRET").map(str::to_owned).or_else(|| text("secret")),
            routes: read_routes(extra.get("routes")),
            max_per_minute: number("rate_limit").and_then(size).unwrap_or(30),
            max_body_bytes: number("max_body_bytes").and_then(size).unwrap_or(1_048_576),
        }
    }

    /// Rejects routes without a secret, because anybody could use them.
    pub(super) fn check(&self) -> Result<(), StartError> {
        let open = |route: &&WebhookRoute| {
            let secret = route.secret.as_deref().or(self.secret.as_deref()).unwrap_or_default();
            secret.is_empty() || (secret == NO_CHECK && !self.is_loopback())
        };
        match self.routes.iter().find(|(_, route)| open(route)) {
            Some((name, _)) => Err(StartError::OpenRoute { route: name.clone() }),
            None => Ok(()),
        }
    }

    pub(super) fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

fn read_routes(value: Option<&Value>) -> BTreeMap<String, WebhookRoute> {
    let mut routes = BTreeMap::new();
    for (name, value) in value.and_then(Value::as_object).into_iter().flatten() {
        match serde_json::from_value::<WebhookRoute>(value.clone()) {
            Ok(route) => _ = routes.insert(name.clone(), route),
            Err(error) => {
                tracing::warn!(route = name, %error, "a webhook route cannot be read; it is left out");
            }
        }
    }
    routes
}

/// The routes in `webhook_subscriptions.json`, read again when the file has changed.
#[derive(Debug)]
pub struct WebhookSubscriptions {
    path: PathBuf,
    known: Mutex<(Option<SystemTime>, BTreeMap<String, WebhookRoute>)>,
}

impl WebhookSubscriptions {
    pub fn new(path: PathBuf) -> Self {
        Self { path, known: Mutex::default() }
    }

    pub fn find(&self, name: &str) -> Option<WebhookRoute> {
        self.with(|routes| routes.get(name).cloned())
    }

    pub fn all(&self) -> BTreeMap<String, WebhookRoute> {
        self.with(BTreeMap::clone)
    }

    /// Replaces the file's content.
    pub fn save(&self, routes: &BTreeMap<String, WebhookRoute>) -> hermes_config::Result<()> {
        let text = serde_json::to_string_pretty(routes).unwrap_or_default();
        write::replace(&self.path, text.as_bytes())
    }

    fn with<R>(&self, look: impl FnOnce(&BTreeMap<String, WebhookRoute>) -> R) -> R {
        let changed = fs::metadata(&self.path).and_then(|found| found.modified()).ok();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != changed || changed.is_none() {
            let text = fs::read_to_string(&self.path).unwrap_or_default();
            let value: Option<Value> = serde_json::from_str(&text).ok();
            *known = (changed, read_routes(value.as_ref()));
        }
        look(&known.1)
    }
}
