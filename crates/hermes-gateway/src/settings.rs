//! The gateway's configuration, read again whenever its files change.
//!
//! Precedence: environment, config.yaml, gateway.json, defaults. Malformed values are skipped, never fatal; files
//! that cannot be used at all change nothing while the gateway runs: the last valid settings stay in force.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hermes_config::auth::AuthFile;
use hermes_config::env::bridge::exported_variables;
use hermes_config::secrets::secret_values;
use hermes_config::settings::{
    DisplaySettings, ResetMode, SessionResetSettings, StreamingSettings, ToolProgress,
};
use hermes_config::yaml::YamlValue;
use hermes_config::{Config, Env, Home, ProgramSurface};
use hermes_types::{ChatKind, PlatformTrait, platform_facts, platform_has};
use serde_json::Value as Json;

use crate::session::{ConversationSharing, SessionIsolation};

/// Says how direct messages of unknown users are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownSenderPolicy {
    Pair,
    Ignore,
}

/// A user's own command, from `quick_commands`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuickCommand {
    Exec(String),
    Alias(String),
    /// An unsupported command, with its type.
    Unknown(String),
}

/// The settings of one reading of the files.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    pub config: Config,
    pub env: Env,
    pub display: DisplaySettings,
    pub streaming: StreamingSettings,
    pub isolation: SessionIsolation,
    pub reset_triggers: Vec<String>,
    /// The turns a new goal may take.
    pub goal_turns: u32,
    pub quick_commands: BTreeMap<String, QuickCommand>,
    /// The time a question waits for its answer.
    pub question_timeout: Duration,
    /// The time a question of the model that is not an approval waits.
    pub clarify_patience: Duration,
    /// The age from which a waiting message is reported and not processed.
    pub stale_after: Duration,
    /// The shortest and longest pause before a file is sent to a chat, to imitate a person.
    pub human_delay: Option<(Duration, Duration)>,
    default_reset: SessionResetSettings,
    reset_overrides: Json,
    unknown_senders: UnknownSenderPolicy,
}

impl GatewaySettings {
    pub fn read(home: &Home, shell: &Env, folder: &Path) -> Self {
        let env = shell.with_files(home, None);
        let config = Config::load(home, &env).with_legacy_gateway(home, &env);
        let env = env.with_variables(exported_variables(&config, &env, ProgramSurface::Gateway, folder));
        let legacy = read_json(&home.join("gateway.json"));
        let isolation = isolation(&config, &legacy);
        Self {
            display: DisplaySettings::resolve(&config, &env),
            streaming: StreamingSettings::from_config(&config),
            isolation,
            reset_triggers: config.list("reset_triggers"),
            goal_turns: goal_turns(&config),
            quick_commands: quick_commands(&config),
            question_timeout: question_timeout(&config, "approvals.timeout", Duration::from_mins(5)),
            clarify_patience: question_timeout(&config, "agent.clarify_timeout", Duration::from_hours(1)),
            stale_after: stale_after(&config),
            default_reset: default_reset(&config, &env, &legacy),
            reset_overrides: reset_overrides(&config, &legacy),
            unknown_senders: unknown_sender_policy(&config, &legacy),
            human_delay: human_delay(&env),
            config,
            env,
        }
    }

    /// Returns the reset policy of a chat: by platform, else by its kind, else the default.
    pub fn reset_policy(&self, platform: &str, kind: ChatKind) -> SessionResetSettings {
        let by = |table: &str, name: &str| self.reset_overrides.get(table).and_then(|table| table.get(name));
        let given = by("reset_by_platform", platform).or_else(|| by("reset_by_type", kind.as_str()));
        given.map_or_else(|| self.default_reset.clone(), |given| apply_overrides(&self.default_reset, given))
    }

    /// Returns the display settings of a platform.
    pub fn display_on(&self, platform: &str) -> DisplaySettings {
        display_on(&self.display, &self.config, platform)
    }

    /// Returns how direct messages of unknown users are answered on a platform.
    pub fn unknown_sender_policy(&self, platform: &str) -> UnknownSenderPolicy {
        let of = |dotted: String| self.config.non_empty_text(&dotted);
        of(format!("platforms.{platform}.extra.unauthorized_dm_behavior"))
            .or_else(|| of(format!("{platform}.unauthorized_dm_behavior")))
            .map_or_else(
                || {
                    if platform_has(platform, PlatformTrait::IgnoresUnknownUsers) {
                        UnknownSenderPolicy::Ignore
                    } else {
                        self.unknown_senders
                    }
                },
                |text| parse_unknown_sender_policy(&text),
            )
    }

    /// Returns the chat that receives a platform's unrequested messages.
    pub fn home_channel(&self, platform: &str) -> Option<String> {
        let upper = platform.to_uppercase();
        let own = platform_facts(platform).map(|facts| facts.home_variable);
        own.and_then(|name| self.env.get(name))
            .or_else(|| self.env.get(&format!("{upper}_HOME_CHANNEL")))
            .map(str::to_owned)
            .or_else(|| self.config.non_empty_text(&format!("platforms.{platform}.home_channel.chat_id")))
    }
}

fn question_timeout(config: &Config, key: &str, usual: Duration) -> Duration {
    let said = config.is_user_set(key).then(|| config.number(key)).flatten();
    said.filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(usual)
}

/// Returns the bounds of the pause before a file in a chat, or `None` when there is no pause.
fn human_delay(env: &Env) -> Option<(Duration, Duration)> {
    const SHORTEST: u64 = 800;
    const LONGEST: u64 = 2_500;
    let number = |name: &str| env.get(name).and_then(|text| text.trim().parse::<u64>().ok());
    let (least, most) = match env.get("HERMES_HUMAN_DELAY_MODE").map(str::trim) {
        Some("natural") => (SHORTEST, LONGEST),
        Some("custom") => (
            number("HERMES_HUMAN_DELAY_MIN_MS").unwrap_or(SHORTEST),
            number("HERMES_HUMAN_DELAY_MAX_MS").unwrap_or(LONGEST),
        ),
        _ => return None,
    };
    Some((Duration::from_millis(least), Duration::from_millis(most.max(least))))
}

/// Applies `display.platforms` for a platform to the display settings.
fn display_on(display: &DisplaySettings, config: &Config, platform: &str) -> DisplaySettings {
    let mut display = display.clone();
    let of = |key: &str| config.get(&format!("display.platforms.{platform}.{key}"));
    if let Some(progress) = of("tool_progress") {
        // YAML reads `off` as a boolean.
        display.tool_progress = match progress.as_str() {
            Some("off") => ToolProgress::Off,
            Some("new") => ToolProgress::New,
            Some("verbose") => ToolProgress::Verbose,
            None if progress == YamlValue::Bool(false) => ToolProgress::Off,
            _ => ToolProgress::All,
        };
    }
    if let Some(YamlValue::Bool(shown)) = of("show_reasoning") {
        display.show_reasoning = shown;
    }
    display
}

fn stale_after(config: &Config) -> Duration {
    let hours = config.number("gateway.stale_after_hours").filter(|hours| *hours > 0.0);
    hours
        .and_then(|hours| Duration::try_from_secs_f64(hours * 3600.0).ok())
        .unwrap_or(Duration::from_hours(24))
}

fn isolation(config: &Config, legacy: &Json) -> SessionIsolation {
    let flag = |key: &str| {
        let nested = format!("gateway.{key}");
        [key, nested.as_str()]
            .into_iter()
            .find(|key| config.is_user_set(key))
            .map(|key| config.flag(key))
            .or_else(|| legacy.get(key).and_then(Json::as_bool))
    };
    let sharing = |own: bool| if own { ConversationSharing::PerUser } else { ConversationSharing::Shared };
    let in_groups = flag("group_sessions_per_user").unwrap_or(true);
    let in_threads = flag("thread_sessions_per_user").unwrap_or(in_groups);
    SessionIsolation { in_groups: sharing(in_groups), in_threads: sharing(in_threads) }
}

fn unknown_sender_policy(config: &Config, legacy: &Json) -> UnknownSenderPolicy {
    if config.is_user_set("unauthorized_dm_behavior") {
        return parse_unknown_sender_policy(&config.text("unauthorized_dm_behavior"));
    }
    let legacy = legacy.get("unauthorized_dm_behavior").and_then(Json::as_str);
    legacy.map_or(UnknownSenderPolicy::Pair, parse_unknown_sender_policy)
}

fn parse_unknown_sender_policy(text: &str) -> UnknownSenderPolicy {
    if text.trim().eq_ignore_ascii_case("ignore") {
        UnknownSenderPolicy::Ignore
    } else {
        UnknownSenderPolicy::Pair
    }
}

/// Reads the user's own commands, by name.
pub fn quick_commands(config: &Config) -> BTreeMap<String, QuickCommand> {
    let mut commands = BTreeMap::new();
    for (name, value) in config.map("quick_commands").iter() {
        let YamlValue::Map(fields) = value else {
            tracing::warn!(command = name, "a quick command must be a mapping; it is left out");
            continue;
        };
        let text = |key: &str| fields.get(key).and_then(YamlValue::as_str).unwrap_or_default().to_owned();
        let command = match text("type").as_str() {
            "exec" => QuickCommand::Exec(text("command")),
            "alias" => QuickCommand::Alias(text("target")),
            other => QuickCommand::Unknown(other.to_owned()),
        };
        commands.insert(name.trim_start_matches('/').to_lowercase(), command);
    }
    commands
}

fn default_reset(config: &Config, env: &Env, legacy: &Json) -> SessionResetSettings {
    let policy = SessionResetSettings::resolve(config, env);
    let said = config.is_user_set("session_reset");
    match legacy.get("default_reset_policy") {
        Some(given) if !said => {
            let mut merged = apply_overrides(&policy, given);
            // The environment takes precedence over every file.
            if env.is_set("SESSION_RESET_HOUR") {
                merged.at_hour = policy.at_hour;
            }
            if env.is_set("SESSION_IDLE_MINUTES") {
                merged.idle_minutes = policy.idle_minutes;
            }
            merged
        }
        _ => policy,
    }
}

/// Returns the two tables of exceptions; config.yaml wins, in `session_reset`, at its top level or under
/// `gateway`.
fn reset_overrides(config: &Config, legacy: &Json) -> Json {
    let table = |key: &str, within: &str| {
        let given =
            config.get(within).or_else(|| config.get(key)).or_else(|| config.get(&format!("gateway.{key}")));
        given
            .map(|value| value.to_json())
            .filter(Json::is_object)
            .or_else(|| legacy.get(key).cloned())
            .unwrap_or(Json::Null)
    };
    serde_json::json!({
        "reset_by_platform": table("reset_by_platform", "session_reset.by_platform"),
        "reset_by_type": table("reset_by_type", "session_reset.by_type"),
    })
}

fn apply_overrides(policy: &SessionResetSettings, given: &Json) -> SessionResetSettings {
    let mut next = policy.clone();
    match given.get("mode").and_then(Json::as_str) {
        Some("both") => next.mode = ResetMode::Both,
        Some("daily") => next.mode = ResetMode::Daily,
        Some("idle") => next.mode = ResetMode::Idle,
        Some("none") => next.mode = ResetMode::None,
        _ => {}
    }
    let number = |key: &str| given.get(key).and_then(Json::as_u64);
    if let Some(hour) = number("at_hour").and_then(|hour| u8::try_from(hour).ok()).filter(|hour| *hour < 24) {
        next.at_hour = hour;
    }
    if let Some(minutes) = number("idle_minutes").filter(|minutes| *minutes > 0) {
        next.idle_minutes = minutes;
    }
    if let Some(notify) = given.get("notify").and_then(Json::as_bool) {
        next.notify = notify;
    }
    next
}

fn read_json(path: &Path) -> Json {
    let Ok(text) = fs::read_to_string(path) else { return Json::Null };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!(file = %path.display(), %error, "this file cannot be read; it is left out");
        Json::Null
    })
}

/// The settings in force. Clones share one reading; a changed file is read again at the next access.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    inner: Arc<SettingsFiles>,
}

#[derive(Debug)]
struct SettingsFiles {
    home: Home,
    shell: Env,
    folder: PathBuf,
    reading: Mutex<LoadedSettings>,
}

/// The latest reading.
#[derive(Debug)]
struct LoadedSettings {
    stamps: FileStamps,
    settings: Arc<GatewaySettings>,
    /// The reason why the files cannot be used as they are now.
    problem: Option<String>,
}

/// The modification time and size of each file.
type FileStamps = [Option<(SystemTime, u64)>; 3];

impl LiveSettings {
    pub fn new(home: Home, shell: Env, folder: PathBuf) -> Self {
        let read = GatewaySettings::read(&home, &shell, &folder);
        let problem = read.config.require_usable(&read.env).err().map(|error| error.to_string());
        let reading = LoadedSettings { stamps: stamps(&home), settings: Arc::new(read), problem };
        Self { inner: Arc::new(SettingsFiles { home, shell, folder, reading: Mutex::new(reading) }) }
    }

    pub fn home(&self) -> &Home {
        &self.inner.home
    }

    /// Returns why the files cannot be used as they are now; the settings read before stay in force.
    pub fn problem(&self) -> Option<String> {
        self.reload_if(|known, found| known != found).problem.clone()
    }

    pub fn current(&self) -> Arc<GatewaySettings> {
        self.reload_if(|known, found| known != found).settings.clone()
    }

    /// Reads the files again, changed or not.
    pub fn reload(&self) -> Arc<GatewaySettings> {
        self.reload_if(|_, _| true).settings.clone()
    }

    /// Reads the files if `wanted` says so; unusable files change nothing.
    fn reload_if(
        &self,
        wanted: impl FnOnce(&FileStamps, &FileStamps) -> bool,
    ) -> MutexGuard<'_, LoadedSettings> {
        let SettingsFiles { home, shell, folder, reading } = &*self.inner;
        let found = stamps(home);
        let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted(&reading.stamps, &found) {
            let read = GatewaySettings::read(home, shell, folder);
            // A new secret is redacted from now on, even if the rest cannot be used.
            let auth = AuthFile::new(home).read();
            hermes_guard::register_secrets(secret_values(&read.config, &read.env, &auth));
            reading.stamps = found;
            match read.config.require_usable(&read.env) {
                Ok(()) => {
                    reading.settings = Arc::new(read);
                    reading.problem = None;
                }
                Err(error) => {
                    tracing::error!("{error}. The settings read before stay in force");
                    reading.problem = Some(error.to_string());
                }
            }
        }
        reading
    }
}

fn stamps(home: &Home) -> FileStamps {
    let stamp = |path: PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    [stamp(home.config()), stamp(home.dotenv()), stamp(home.join("gateway.json"))]
}

/// Returns the number of turns a new goal may take.
pub fn goal_turns(config: &Config) -> u32 {
    u32::try_from(config.count("goals.max_turns")).unwrap_or(u32::MAX).max(1)
}
