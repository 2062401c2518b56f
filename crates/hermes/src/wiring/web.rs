//! What the tools for the web, pictures and recordings need: services and keys, the policy for addresses, and a client
//! that is built on first use.

use std::sync::{Arc, OnceLock};

use hermes_browser::{
    BrowserOptions, BrowserPlace, BrowserPool, BrowserbaseOptions, CloudService, DialogPolicy, DialogRules,
    HostNameResolution, LocalBrowserOptions, RecordingOptions, WindowMode,
};
use hermes_config::settings::{
    BrowserBackend, BrowserDialogs, BrowserSettings, ImageSettings, SandboxNetwork, SecuritySettings,
    SpeechSettings, TerminalSettings, TranscriptionSettings, WebSettings,
};
use hermes_config::{ProgramSurface, user_home};
use hermes_exec::ProgramRunner;
use hermes_net::{HttpClient, PrivateAddresses};
use hermes_store::Store;
use hermes_tools::{
    BrowserAccess, FileTools, HomeAssistantAccess, ImageMaker, LazyHttpClient, PictureReader, Speaker,
    Transcriber, WebAccess, WebAddresses, WebsitePolicy,
};
use hermes_types::{Clock, Secret, SideModel};

use super::child_variables;
use super::model::net_config;
use super::program_runtime::ProgramConfig;
use crate::context::local_time;

/// Returns the web access of an agent. Reads no file and builds no client.
pub(crate) fn access(clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> WebAccess {
    let ProgramConfig { context, config } = from;
    let security = SecuritySettings::resolve(config, &context.env);
    WebAccess {
        settings: WebSettings::resolve(config, &context.env),
        http: lazy_client(&security, clock, from),
        policy: WebsitePolicy::new(&security, context.home.clone(), clock.clone()),
        clock: clock.clone(),
        cache: context.home.join("cache/web"),
        addresses: WebAddresses::default(),
    }
}

/// The APIs of services that rent browsers.
const BROWSERBASE_URL: &str = "https://api.browserbase.com";
const BROWSER_USE_URL: &str = "https://api.browser-use.com/api/v2";

/// Returns what the browser tools of an agent need. Starts no browser and builds no client.
pub(crate) fn browser_access(
    pool: &BrowserPool,
    reader: Option<PictureReader>,
    files: &FileTools,
    clock: &Arc<dyn Clock>,
    from: ProgramConfig<'_>,
) -> BrowserAccess {
    let ProgramConfig { context, config } = from;
    BrowserAccess {
        pool: pool.clone(),
        options: browser_options(clock, from),
        reader,
        clock: clock.clone(),
        cache: context.home.join("cache/web"),
        screenshots: context.home.screenshots_cache(),
        uploads: context.home.join("cache/uploads"),
        files: files.clone(),
        page_chars: WebSettings::resolve(config, &context.env).page_chars,
        found: OnceLock::new(),
    }
}

/// Returns how browsers are used.
pub(crate) fn browser_options(clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> BrowserOptions {
    let ProgramConfig { context, config } = from;
    let settings = BrowserSettings::resolve(config, &context.env);
    let mut security = SecuritySettings::resolve(config, &context.env);
    security.allow_private_urls |= settings.allow_private_urls;
    let http = lazy_client(&security, clock, from);
    // Tests put an emulator in the place of a service.
    let terminal = TerminalSettings::resolve(config, &context.env);
    // Commands reach this machine even without a network, and with it the proxy of the browser.
    let is_cut_off = terminal.sandbox_network == SandboxNetwork::Off && settings.proxy.is_none();
    let resolution =
        if settings.proxy.is_some() { HostNameResolution::Proxy } else { HostNameResolution::Here };
    BrowserOptions {
        place: match settings.backend {
            BrowserBackend::Local if is_cut_off => BrowserPlace::Nowhere(
                "with terminal.sandbox_network: off, commands would reach the network through the browser's proxy".to_owned(),
            ),
            BrowserBackend::Local => BrowserPlace::Local,
            BrowserBackend::Address(address) => BrowserPlace::Address(address),
            BrowserBackend::Browserbase(wanted) => {
                BrowserPlace::Cloud(CloudService::Browserbase(BrowserbaseOptions {
                    key: wanted.key,
                    project: wanted.project,
                    keep_alive: wanted.keep_alive,
                    proxies: wanted.proxies,
                    advanced_stealth: wanted.advanced_stealth,
                    timeout: wanted.timeout,
                    base: BROWSERBASE_URL.to_owned(),
                }))
            }
            BrowserBackend::BrowserUse(key) => {
                BrowserPlace::Cloud(CloudService::BrowserUse { key, base: BROWSER_USE_URL.to_owned() })
            }
            BrowserBackend::Unusable(reason) => BrowserPlace::Nowhere(reason),
        },
        local: LocalBrowserOptions {
            program: settings.program,
            window: if settings.headed { WindowMode::Visible } else { WindowMode::Headless },
            variables: child_variables(&context.env, &[]),
            temp: super::sandbox::temp_folder(context),
            proxy: settings.proxy,
        },
        http: Arc::new(move || http.get()),
        policy: WebsitePolicy::new(&security, context.home.clone(), clock.clone()).source(),
        network: None,
        resolution,
        dialogs: DialogRules {
            policy: match settings.dialogs {
                BrowserDialogs::Model => DialogPolicy::AskModel,
                BrowserDialogs::Accept => DialogPolicy::Accept,
                BrowserDialogs::Dismiss => DialogPolicy::Dismiss,
            },
            timeout: settings.dialog_timeout,
        },
        recordings: settings.records_sessions.then(|| RecordingOptions {
            folder: context.home.join("browser_recordings"),
            programs: ProgramRunner::new(child_variables(&context.env, &[]), clock.clone()),
            local_time,
        }),
        downloads: context.home.documents_cache(),
        command_timeout: settings.command_timeout,
        idle_timeout: settings.inactivity_timeout,
    }
}

/// Returns what describes pictures with a model.
pub(crate) fn picture_reader(
    side: SideModel,
    store: &Store,
    clock: &Arc<dyn Clock>,
    from: ProgramConfig<'_>,
) -> PictureReader {
    let ProgramConfig { context, config } = from;
    let security = SecuritySettings::resolve(config, &context.env);
    PictureReader {
        side,
        store: store.clone(),
        http: lazy_client(&security, clock, from),
        policy: WebsitePolicy::new(&security, context.home.clone(), clock.clone()),
        clock: clock.clone(),
        download_timeout: config.seconds("auxiliary.vision.download_timeout"),
    }
}

/// Returns what turns recordings into text, or what is wrong in its settings.
pub(crate) fn transcriber(clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> Result<Transcriber, String> {
    let ProgramConfig { context, config } = from;
    let security = SecuritySettings::resolve(config, &context.env);
    Ok(Transcriber {
        settings: TranscriptionSettings::resolve(config, &context.env)?,
        http: lazy_client(&security, clock, from),
        programs: ProgramRunner::new(child_variables(&context.env, &[]), clock.clone()),
        clock: clock.clone(),
        scratch: context.home.join("cache/speech"),
        models: context.home.join("cache/whisper"),
        model_hub: "https://huggingface.co".to_owned(),
        progress: Arc::new(|progress| tracing::info!("{progress}")),
    })
}

/// Returns what makes pictures.
pub(crate) fn image_maker(clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> ImageMaker {
    let ProgramConfig { context, config } = from;
    let security = SecuritySettings::resolve(config, &context.env);
    ImageMaker {
        settings: ImageSettings::resolve(config, &context.env),
        http: lazy_client(&security, clock, from),
        clock: clock.clone(),
        folder: context.home.images_cache(),
        fal_url: "https://queue.fal.run".to_owned(),
    }
}

/// Returns the access to Home Assistant, if there is a token.
pub(crate) fn home_assistant(clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> Option<HomeAssistantAccess> {
    let ProgramConfig { context, config } = from;
    let setting = |name: &str| context.env.get(name).map(str::trim).filter(|text| !text.is_empty());
    let url = setting("HASS_URL").unwrap_or("http://homeassistant.local:8123").to_owned();
    let security = SecuritySettings::resolve(config, &context.env);
    let http = lazy_client(&security, clock, from);
    setting("HASS_TOKEN").map(|token| HomeAssistantAccess {
        url,
        token: Secret::new(token),
        http,
        clock: clock.clone(),
    })
}

/// Returns what speaks texts. The terminal keeps its files in a folder of the user.
pub(crate) fn speaker(surface: ProgramSurface, clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> Speaker {
    let ProgramConfig { context, config } = from;
    let security = SecuritySettings::resolve(config, &context.env);
    let memos = || user_home(&context.env).ok().map(|home| home.join("voice-memos"));
    let own = if surface == ProgramSurface::Cli { memos() } else { None };
    Speaker {
        settings: SpeechSettings::resolve(config, &context.env),
        http: lazy_client(&security, clock, from),
        programs: ProgramRunner::new(child_variables(&context.env, &[]), clock.clone()),
        clock: clock.clone(),
        local_time,
        folder: own.unwrap_or_else(|| context.home.audio_cache()),
    }
}

pub(super) fn lazy_client(
    security: &SecuritySettings,
    clock: &Arc<dyn Clock>,
    from: ProgramConfig<'_>,
) -> LazyHttpClient {
    let mut net = net_config(&from.context.env, clock);
    if security.allow_private_urls {
        net.policy.private = PrivateAddresses::Allow;
    }
    LazyHttpClient::new(move || HttpClient::new(net.clone()).map_err(|error| error.to_string()))
}
