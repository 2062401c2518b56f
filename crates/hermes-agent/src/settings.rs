//! The settings of an agent: limits, request options, compression, reviews, folders.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::settings::CompressionSettings;
use hermes_types::{Message, ReasoningEffort, SpendingCap};

use crate::log::DeferredSessionLogs;

/// Limits one turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits {
    /// The most model calls of one turn.
    pub iterations: u32,
    pub time: Duration,
    pub cap: SpendingCap,
    pub unknown_price: UnknownPricePolicy,
}

/// Says what happens when there is a limit in dollars and the model's price is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownPricePolicy {
    /// Does nothing; used where no limit in dollars is set.
    #[default]
    Ignore,
    /// Warns the user once per conversation.
    Warn,
    /// Ends the turn.
    Refuse,
}

impl Default for TurnLimits {
    /// Returns the documented defaults of the configuration.
    fn default() -> Self {
        let count = hermes_config::keys::default_count;
        Self {
            iterations: u32::try_from(count("agent.max_turns")).unwrap_or(u32::MAX),
            time: Duration::from_secs(count("agent.turn_time_limit") as u64),
            cap: SpendingCap::default(),
            unknown_price: UnknownPricePolicy::Ignore,
        }
    }
}

/// The options every request of this agent carries; none of them is stored.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    pub max_tokens: Option<u64>,
    pub effort: Option<ReasoningEffort>,
    /// A text added to the system text of each call.
    pub ephemeral: Option<String>,
    /// Messages sent before the conversation's own.
    pub prefill: Vec<Message>,
}

/// Settings for shortening a long conversation.
#[derive(Debug, Clone, Copy)]
pub struct Compression {
    pub mode: CompressionMode,
    /// The share of the context window at which compression starts.
    pub threshold: f64,
    /// The share of the threshold that is kept word for word.
    pub target_ratio: f64,
    pub protect_first: usize,
    pub protect_last: usize,
}

/// Turns compression on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionMode {
    On,
    Off,
}

impl Default for Compression {
    fn default() -> Self {
        Self::from(CompressionSettings::default())
    }
}

impl From<CompressionSettings> for Compression {
    fn from(settings: CompressionSettings) -> Self {
        Self {
            mode: if settings.enabled { CompressionMode::On } else { CompressionMode::Off },
            threshold: settings.threshold,
            target_ratio: settings.target_ratio,
            protect_first: settings.protect_first_n,
            protect_last: settings.protect_last_n,
        }
    }
}

/// The intervals at which the agent reviews what it learned. Zero means never.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReviewIntervals {
    /// User turns without a memory entry between two reviews.
    pub memory_every: usize,
    /// Model calls without a skill change between two reviews.
    pub skills_every: usize,
    /// User turns a conversation needs to be reviewed when it ends.
    pub flush_after: usize,
}

/// The folders for files outside the database; without one, no such files are written.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "logs may hold agents")]
pub struct AgentFolders {
    /// The folder for full results whose short form is in the conversation.
    pub results: Option<PathBuf>,
    pub logs: SessionLogMode,
}

/// Says when session logs for other programs are written.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it may hold agents, and they hold ports")]
pub enum SessionLogMode {
    #[default]
    None,
    /// Writes the log at the end of each turn.
    Immediate(PathBuf),
    /// Records the changed session; the owner of [`DeferredSessionLogs`] writes the log later.
    Deferred(Arc<DeferredSessionLogs>),
}
