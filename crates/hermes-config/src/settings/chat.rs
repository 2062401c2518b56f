//! The settings for what people see and for what needs their approval.

use std::time::Duration;

use crate::keys::default_count;
use crate::{Config, Env, precedence};

/// The tool calls that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolProgress {
    Off,
    New,
    All,
    Verbose,
}

/// The display settings of the terminal program.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one field per key of the section")]
pub struct DisplaySettings {
    pub compact: bool,
    pub personality: Option<String>,
    pub resume_display: String,
    pub busy_input_mode: String,
    pub bell_on_complete: bool,
    pub show_reasoning: bool,
    /// Tells whether answers are streamed; on when the file does not set it.
    pub streaming: bool,
    pub show_cost: bool,
    pub skin: String,
    /// `auto`, `light` or `dark`.
    pub theme_mode: String,
    pub inline_diffs: bool,
    /// `auto`, `off`, `kitty`, `iterm` or `sixel`.
    pub pictures: String,
    pub tool_progress: ToolProgress,
    pub tool_progress_command: bool,
    pub background_process_notifications: String,
    /// `render`, `strip` or `raw`.
    pub final_response_markdown: String,
    /// The most columns of what a tool call is about; `None` for the built-in limits.
    pub tool_preview_length: Option<usize>,
    /// The format of the times beside messages, if they are shown.
    pub timestamps: Option<String>,
    pub recap: RecapSettings,
}

/// How much of a resumed session is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecapSettings {
    pub exchanges: usize,
    pub user_chars: usize,
    pub assistant_chars: usize,
    pub assistant_lines: usize,
}

impl DisplaySettings {
    pub fn resolve(config: &Config, env: &Env) -> Self {
        Self {
            compact: config.flag("display.compact"),
            personality: config.non_empty_text("display.personality"),
            resume_display: config.text("display.resume_display"),
            busy_input_mode: config.text("display.busy_input_mode"),
            bell_on_complete: config.flag("display.bell_on_complete"),
            show_reasoning: config.flag("display.show_reasoning"),
            streaming: config.flag("display.streaming"),
            show_cost: config.flag("display.show_cost"),
            skin: config.text("display.skin"),
            theme_mode: config.text("display.theme_mode"),
            inline_diffs: config.flag("display.inline_diffs"),
            pictures: config.text("display.pictures"),
            tool_progress: match precedence::tool_progress(config, env).as_str() {
                "off" => ToolProgress::Off,
                "new" => ToolProgress::New,
                "verbose" => ToolProgress::Verbose,
                _ => ToolProgress::All,
            },
            tool_progress_command: config.flag("display.tool_progress_command"),
            background_process_notifications: precedence::background_notifications(config, env),
            final_response_markdown: config.text("display.final_response_markdown"),
            tool_preview_length: Some(config.count("display.tool_preview_length")).filter(|most| *most > 0),
            timestamps: config.flag("display.timestamps").then(|| config.text("display.timestamp_format")),
            recap: RecapSettings {
                exchanges: config.count("display.resume_exchanges"),
                user_chars: config.count("display.resume_max_user_chars"),
                assistant_chars: config.count("display.resume_max_assistant_chars"),
                assistant_lines: config.count("display.resume_max_assistant_lines"),
            },
        }
    }
}

/// The way dangerous commands are approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalMode {
    Manual,
    Smart,
    Off,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub mode: ApprovalMode,
    pub timeout: Duration,
    /// The permanent approvals.
    pub allowlist: Vec<String>,
    pub deny: Vec<String>,
}

impl ApprovalSettings {
    pub fn from_config(config: &Config) -> Self {
        Self {
            mode: match config.text("approvals.mode").as_str() {
                "off" => ApprovalMode::Off,
                "smart" => ApprovalMode::Smart,
                _ => ApprovalMode::Manual,
            },
            timeout: config.seconds("approvals.timeout"),
            allowlist: config.list("command_allowlist"),
            deny: config.list("approvals.deny"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per key of the section")]
pub struct SecuritySettings {
    pub redact_secrets: bool,
    pub redact_pii: bool,
    pub tirith_enabled: bool,
    pub tirith_path: String,
    pub tirith_timeout: Duration,
    pub tirith_fail_open: bool,
    pub blocklist_enabled: bool,
    pub blocked_domains: Vec<String>,
    pub blocklist_files: Vec<String>,
    pub allow_private_urls: bool,
}

impl SecuritySettings {
    /// Resolves the settings. `TIRITH_*` override the file. The file's `redact_secrets` overrides
    /// `HERMES_REDACT_SECRETS`; resolve it once at start, so that nothing the model does later can switch it off.
    pub fn resolve(config: &Config, env: &Env) -> Self {
        let flag = |name: &str, dotted: &str| env.bool(name).unwrap_or_else(|| config.flag(dotted));
        let tirith_timeout = env.number("TIRITH_TIMEOUT").filter(|seconds| *seconds > 0.0);
        let from_file = config.is_user_set("security.redact_secrets");
        Self {
            redact_secrets: env
                .bool("HERMES_REDACT_SECRETS")
                .filter(|_| !from_file)
                .unwrap_or_else(|| config.flag("security.redact_secrets")),
            redact_pii: config.flag("privacy.redact_pii"),
            tirith_enabled: flag("TIRITH_ENABLED", "security.tirith_enabled"),
            tirith_path: env
                .get("TIRITH_BIN")
                .map_or_else(|| config.text("security.tirith_path"), str::to_owned),
            tirith_timeout: tirith_timeout
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .unwrap_or_else(|| config.seconds("security.tirith_timeout")),
            tirith_fail_open: flag("TIRITH_FAIL_OPEN", "security.tirith_fail_open"),
            blocklist_enabled: config.flag("security.website_blocklist.enabled"),
            blocked_domains: config.list("security.website_blocklist.domains"),
            blocklist_files: config.list("security.website_blocklist.shared_files"),
            allow_private_urls: flag("HERMES_ALLOW_PRIVATE_URLS", "security.allow_private_urls"),
        }
    }
}

/// The condition under which a chat starts a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetMode {
    Both,
    Daily,
    Idle,
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionResetSettings {
    pub mode: ResetMode,
    /// The hour of the day, 0 to 23.
    pub at_hour: u8,
    pub idle_minutes: u64,
    pub notify: bool,
    pub notify_exclude_platforms: Vec<String>,
}

impl SessionResetSettings {
    /// Resolves the settings of the gateway; variables override the file.
    pub fn resolve(config: &Config, env: &Env) -> Self {
        let hour = env.get("SESSION_RESET_HOUR").and_then(|text| text.trim().parse::<u8>().ok());
        let idle = env.get("SESSION_IDLE_MINUTES").and_then(|text| text.trim().parse::<u64>().ok());
        let in_day = |hour: &u8| *hour < 24;
        Self {
            mode: match config.text("session_reset.mode").as_str() {
                "daily" => ResetMode::Daily,
                "idle" => ResetMode::Idle,
                "none" => ResetMode::None,
                _ => ResetMode::Both,
            },
            at_hour: hour
                .filter(in_day)
                .or_else(|| u8::try_from(config.count("session_reset.at_hour")).ok().filter(in_day))
                .unwrap_or_else(|| u8::try_from(default_count("session_reset.at_hour")).unwrap_or_default()),
            idle_minutes: idle
                .or_else(|| u64::try_from(config.count("session_reset.idle_minutes")).ok())
                .filter(|minutes| *minutes > 0)
                .unwrap_or_else(|| default_count("session_reset.idle_minutes") as u64),
            notify: config.flag("session_reset.notify"),
            notify_exclude_platforms: config.list("session_reset.notify_exclude_platforms"),
        }
    }
}

/// The settings for showing answers in chats while they are written; independent of `display.streaming`.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamingSettings {
    pub enabled: bool,
    pub transport: String,
    pub edit_interval: Duration,
    pub buffer_threshold: usize,
    pub cursor: String,
}

impl StreamingSettings {
    pub fn from_config(config: &Config) -> Self {
        let is_span = |seconds: f64| Duration::try_from_secs_f64(seconds).is_ok();
        let seconds = config.number_where("streaming.edit_interval", is_span);
        Self {
            enabled: config.flag("streaming.enabled"),
            transport: config.text("streaming.transport"),
            edit_interval: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
            buffer_threshold: config.count("streaming.buffer_threshold"),
            cursor: config.text("streaming.cursor"),
        }
    }
}
