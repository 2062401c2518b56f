//! Opens the chat platforms of the gateway with the user's settings, and implements [`ChannelHost`] for them.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_channels::{
    ChannelContext, ChannelHost, HelperError, HelperRequest, IncomingFile, MenuCommand, Options, PLATFORMS,
    Platform, RunningHelper, VariableKind, WebhookMounts, platform,
};
use hermes_config::settings::SecuritySettings;
use hermes_config::yaml::{KeyPath, YamlValue as Yaml};
use hermes_config::{Config, Env, Home, ManagedMode, set, write};
use hermes_gateway::process::{LockError, ScopedLock, StateFile, lock, lock_folder};
use hermes_gateway::{ChannelSupervisor, Delivery, GatewaySettings, LiveSettings, PlatformCatalog, slash};
use hermes_net::{HttpClient, PrivateAddresses};
use hermes_types::{
    Attachment, AttachmentKind, BoxFuture, ChannelCapabilities, ChannelError, Clock, Timestamp, random_hex,
};
use serde_json::Value;

use super::model::net_config;
use super::whatsapp_bridge::WhatsAppBridge;

/// How long a platform may take to answer when its settings are checked.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);

/// Collects the settings of a platform: its variables first, then config.yaml.
pub(crate) fn options(platform: &Platform, config: &Config, env: &Env) -> Options {
    let upper = platform.name.to_uppercase();
    let mut prefixes = vec![format!("{upper}_"), format!("HERMES_{upper}_")];
    prefixes.extend(platform.other_prefixes.iter().map(|prefix| (*prefix).to_owned()));
    let mut variables: BTreeMap<String, String> = env
        .iter()
        .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let block = format!("platforms.{}", platform.name);
    // `enabled: false` disables a token in the file, but not one in the environment.
    let off = config.is_user_set(&format!("{block}.enabled")) && !config.flag(&format!("{block}.enabled"));
    let secret = platform.variables.iter().find(|variable| {
        matches!(variable.kind, VariableKind::RequiredSecret)
            || variable.name.ends_with("_TOKEN") && matches!(variable.kind, VariableKind::SecretUnless(_))
    });
    if let Some(secret) = secret.filter(|_| !off) {
        fill(&mut variables, secret.name, config.non_empty_text(&format!("{block}.token")));
    }
    let quoting = config.non_empty_text(&format!("{block}.reply_to_mode"));
    fill(&mut variables, &format!("{upper}_REPLY_TO_MODE"), quoting);
    let mut extra = config.get(&format!("{block}.extra")).map_or(Value::Null, |extra| extra.to_json());
    let prefix = format!("{}.reply_prefix", platform.name);
    if config.is_user_set(&prefix) && extra.get("reply_prefix").is_none() {
        if !extra.is_object() {
            extra = Value::Object(serde_json::Map::new());
        }
        extra["reply_prefix"] = Value::String(config.text(&prefix));
    }
    let allowed = config.list(&format!("{block}.extra.allowed_users")).join(",");
    fill(&mut variables, &format!("{upper}_ALLOWED_USERS"), Some(allowed).filter(|list| !list.is_empty()));
    // `extra.client_id` of DingTalk is `DINGTALK_CLIENT_ID`.
    for (key, value) in extra.as_object().into_iter().flatten().filter(|_| !off) {
        fill(&mut variables, &format!("{upper}_{}", key.to_uppercase()), scalar_text(value));
    }
    Options::new(variables, extra)
}

fn fill(variables: &mut BTreeMap<String, String>, name: &str, value: Option<String>) {
    if let Some(value) = value {
        variables.entry(name.to_owned()).or_insert(value);
    }
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Tells whether a configured platform receives requests at the gateway's server.
pub(crate) fn use_shared_server(settings: &GatewaySettings) -> bool {
    PLATFORMS.iter().any(|platform| {
        let options = options(platform, &settings.config, &settings.env);
        platform.is_configured(&options) && (platform.uses_shared_server)(&options)
    })
}

/// The open platforms, and the locks that keep other gateways from using their accounts.
#[derive(Default)]
pub(crate) struct ChannelLocks {
    locks: Vec<ScopedLock>,
}

/// Opens every configured platform. A failure is reported and does not affect the others.
pub(crate) fn open(
    supervisor: &Arc<ChannelSupervisor>,
    live: &LiveSettings,
    clock: &Arc<dyn Clock>,
    mounts: &WebhookMounts,
    state: &Arc<StateFile>,
) -> ChannelLocks {
    let settings = live.current();
    let contexts = ContextSource::new(live, clock, mounts);
    let mut channels = ChannelLocks::default();
    for platform in PLATFORMS {
        let options = options(platform, &settings.config, &settings.env);
        if !platform.is_configured(&options) {
            continue;
        }
        match acquire_lock(platform, &options, clock.now(), &settings.env) {
            Ok(held) => channels.locks.extend(held),
            Err((code, reason)) => {
                supervisor.mark_failed(platform.name, &format!("{}_{code}", platform.name), reason, state);
                continue;
            }
        }
        match contexts.context().and_then(|context| (platform.open)(&options, context)) {
            Ok(channel) => supervisor.supervise(channel, state.clone()),
            Err(reason) => {
                let code = format!("{}_connect_error", platform.name);
                supervisor.mark_failed(platform.name, &code, reason, state);
            }
        }
    }
    channels
}

/// The platforms of this release, with the present configuration.
pub(crate) struct ConfiguredPlatforms {
    live: LiveSettings,
}

impl ConfiguredPlatforms {
    pub(crate) fn new(live: LiveSettings) -> Self {
        Self { live }
    }
}

impl PlatformCatalog for ConfiguredPlatforms {
    fn abilities(&self, name: &str) -> Option<ChannelCapabilities> {
        platform(name).map(|platform| platform.abilities)
    }

    /// Tells whether all required settings of a platform are present.
    fn is_set_up(&self, name: &str) -> bool {
        let settings = self.live.current();
        platform(name).is_some_and(|platform| {
            platform.is_configured(&options(platform, &settings.config, &settings.env))
        })
    }
}

/// Opens every configured platform for sending only.
pub(crate) fn connect(delivery: &Delivery, live: &LiveSettings, clock: &Arc<dyn Clock>) {
    let settings = live.current();
    let contexts = ContextSource::new(live, clock, &WebhookMounts::default());
    for platform in PLATFORMS {
        let options = options(platform, &settings.config, &settings.env);
        if !platform.is_configured(&options) {
            continue;
        }
        match contexts.context().and_then(|context| (platform.open)(&options, context)) {
            Ok(channel) => delivery.connect(channel),
            Err(reason) => tracing::warn!(platform = platform.name, reason, "nothing is sent there"),
        }
    }
}

/// Says what is wrong with the settings of a platform.
pub(crate) enum SettingsProblem {
    /// A value is not valid, or the platform does not take it.
    Invalid(String),
    /// The platform could not be asked.
    Unchecked(String),
}

/// Checks the settings of a platform: their forms, and the credentials with the platform itself, where it has a call that
/// changes nothing.
pub(crate) async fn check(
    platform: &Platform,
    options: &Options,
    live: &LiveSettings,
    clock: &Arc<dyn Clock>,
) -> Result<(), SettingsProblem> {
    let contexts = ContextSource::new(live, clock, &WebhookMounts::default());
    let channel = contexts.context().and_then(|context| (platform.open)(options, context));
    let channel = channel.map_err(SettingsProblem::Invalid)?;
    let checked = tokio::select! {
        checked = channel.check() => checked,
        () = clock.sleep(CHECK_TIMEOUT) => {
            return Err(SettingsProblem::Unchecked(format!("{} does not answer", platform.label())));
        }
    };
    checked.map_err(|error| match error {
        ChannelError::Retry { reason, .. } | ChannelError::DeliveryUnknown(reason) => {
            SettingsProblem::Unchecked(reason)
        }
        error => SettingsProblem::Invalid(error.to_string()),
    })
}

/// Acquires the lock that keeps other gateways on this machine from using the same account.
fn acquire_lock(
    platform: &Platform,
    options: &Options,
    now: Timestamp,
    env: &Env,
) -> Result<Option<ScopedLock>, (&'static str, String)> {
    let Some((scope, variable)) = platform.lock else { return Ok(None) };
    let (Some(identity), Some(folder)) = (options.text(variable), lock_folder(env)) else { return Ok(None) };
    match lock(&folder, scope, identity, now) {
        Ok(held) => Ok(Some(held)),
        Err(LockError::Held { pid }) => {
            let reason =
                format!("another gateway (PID {pid}) uses the same {variable}; stop it, or use another");
            Err(("token_lock", reason))
        }
        // If the lock folder is not writable, the platform is opened all the same.
        Err(LockError::Io(error)) => {
            tracing::warn!(%error, "no lock on {variable}");
            Ok(None)
        }
    }
}

/// Builds what channels are opened with. All of them share one HTTP client, whose TLS settings take memory.
struct ContextSource<'a> {
    live: &'a LiveSettings,
    clock: &'a Arc<dyn Clock>,
    mounts: WebhookMounts,
    client: OnceCell<Result<HttpClient, String>>,
}

impl<'a> ContextSource<'a> {
    fn new(live: &'a LiveSettings, clock: &'a Arc<dyn Clock>, mounts: &WebhookMounts) -> Self {
        Self { live, clock, mounts: mounts.clone(), client: OnceCell::new() }
    }

    fn context(&self) -> Result<ChannelContext, String> {
        let client = self.client.get_or_init(|| {
            let settings = self.live.current();
            let mut net = net_config(&settings.env, self.clock);
            if SecuritySettings::resolve(&settings.config, &settings.env).allow_private_urls {
                net.policy.private = PrivateAddresses::Allow;
            }
            HttpClient::new(net).map_err(|error| error.to_string())
        });
        Ok(ChannelContext {
            client: client.clone()?,
            clock: self.clock.clone(),
            host: Arc::new(HomeHost { live: self.live.clone(), clock: self.clock.clone() }),
            mounts: self.mounts.clone(),
            commands: menu(),
        })
    }
}

/// Returns the chat commands for platform menus.
fn menu() -> Arc<[MenuCommand]> {
    let commands = slash::COMMANDS.iter().filter(|command| command.is_for(slash::CommandSurface::Chat));
    let menu = commands.map(|command| MenuCommand {
        name: command.name.to_owned(),
        description: command.description.to_owned(),
        arguments: command.arguments.to_owned(),
    });
    menu.collect()
}

/// Gives channels access to the home.
struct HomeHost {
    live: LiveSettings,
    clock: Arc<dyn Clock>,
}

impl HomeHost {
    fn home(&self) -> &Home {
        self.live.home()
    }

    fn store(&self, file: IncomingFile<'_>) -> Result<Attachment, String> {
        let id = random_hex(12);
        let extension = safe_file_name(file.extension);
        let (folder, name) = match file.kind {
            AttachmentKind::Image => (self.home().images_cache(), format!("img_{id}{extension}")),
            AttachmentKind::Audio | AttachmentKind::Voice => {
                (self.home().audio_cache(), format!("audio_{id}{extension}"))
            }
            AttachmentKind::Video => (self.home().documents_cache(), format!("video_{id}{extension}")),
            AttachmentKind::Document => {
                let name = file.name.map(safe_file_name).filter(|name| !name.is_empty());
                let name = name.unwrap_or_else(|| format!("document{extension}"));
                (self.home().documents_cache(), format!("doc_{id}_{name}"))
            }
        };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let path = folder.join(name);
        write::replace(&path, file.bytes).map_err(|error| error.to_string())?;
        Ok(Attachment {
            kind: file.kind,
            path: path.to_string_lossy().into_owned(),
            name: file.name.map(str::to_owned),
            mime: file.mime.map(str::to_owned),
        })
    }
}

/// Returns the name with path separators and special characters replaced, since the sender chose it.
fn safe_file_name(name: &str) -> String {
    let kept: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ') { c } else { '_' })
        .collect();
    let kept: String = kept.chars().rev().take(100).collect::<Vec<_>>().into_iter().rev().collect();
    if kept.chars().all(|c| c == '.') { String::new() } else { kept }
}

impl ChannelHost for HomeHost {
    fn save_file<'a>(&'a self, file: IncomingFile<'a>) -> BoxFuture<'a, Result<Attachment, String>> {
        Box::pin(async move { tokio::task::block_in_place(|| self.store(file)) })
    }

    fn load_document(&self, name: &str) -> Option<Value> {
        let text = std::fs::read_to_string(self.home().join(name)).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn save_document(&self, name: &str, value: &Value) {
        if let Err(error) = write::replace(&self.home().join(name), value.to_string().as_bytes()) {
            tracing::warn!(%error, "what a channel wanted to remember was not written");
        }
    }

    fn private_folder(&self, platform: &str) -> Result<PathBuf, String> {
        self.home().platform_store(platform).map_err(|error| error.to_string())
    }

    fn setting(&self, platform: &str, key: &str) -> Option<Value> {
        let env = &self.live.current().env;
        let config = Config::load(self.home(), env).with_legacy_gateway(self.home(), env);
        config.get(&format!("platforms.{platform}.extra.{key}")).map(|value| value.to_json())
    }

    fn start_helper<'a>(
        &'a self,
        request: HelperRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn RunningHelper>, HelperError>> {
        Box::pin(async move {
            let settings = self.live.current();
            let bridge = WhatsAppBridge::new(self.home(), &settings.config, &settings.env, &self.clock);
            // A new release may have brought other packages.
            bridge.install().await?;
            bridge.start(request).await
        })
    }

    fn save_setting(&self, platform: &str, key: &str, value: &Value) -> Result<(), String> {
        let path = KeyPath::from_segments(["platforms", platform, "extra", key]);
        let management = ManagedMode::detect(self.home(), &self.live.current().env);
        set::set_value(self.home(), management, &path, &Yaml::from_json(value))
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn settings_of_a_platform_may_be_in_its_extra() {
        let env = Env::from_pairs([("DINGTALK_CLIENT_SECRET", "from the environment")]);
        let extra = "{client_id: a, client_secret: b, require_mention: true, words: [x]}";
        let read = |block: &str| {
            let text = format!("platforms: {{dingtalk: {{{block}extra: {extra}}}}}");
            let config = Config::from_text(Path::new("config.yaml"), &text, &env);
            options(platform("dingtalk").unwrap(), &config, &env)
        };
        let options = read("");
        assert_eq!(options.text("DINGTALK_CLIENT_ID"), Some("a"));
        assert_eq!(options.text("DINGTALK_CLIENT_SECRET"), Some("from the environment"));
        assert!(options.flag("DINGTALK_REQUIRE_MENTION", false));
        assert_eq!(options.text("DINGTALK_WORDS"), None);
        assert!(platform("dingtalk").unwrap().is_configured(&options));
        assert_eq!(read("enabled: false, ").text("DINGTALK_CLIENT_ID"), None);
    }

    #[test]
    fn a_name_is_only_a_name() {
        assert_eq!(safe_file_name("../../etc/passwd"), ".._.._etc_passwd");
        assert_eq!(safe_file_name(".."), "");
        assert_eq!(safe_file_name("größe 1.pdf"), "größe 1.pdf");
        assert_eq!(safe_file_name(&"a".repeat(300)).len(), 100);
        assert!(safe_file_name(&format!("{}.pdf", "a".repeat(300))).ends_with("aaa.pdf"));
    }
}
