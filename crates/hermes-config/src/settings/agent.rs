//! The settings of the agent: limits, compression, memory, subagents, side tasks.

use std::time::Duration;

use crate::{Config, Env, keys};
use hermes_types::Secret;

/// The settings for when conversations are summarised and how much is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct CompressionSettings {
    pub enabled: bool,
    /// The fraction of the context window at which compression begins.
    pub threshold: f64,
    /// The fraction of the threshold kept verbatim at the end, 0.10 to 0.80.
    pub target_ratio: f64,
    pub protect_first_n: usize,
    pub protect_last_n: usize,
}

impl Default for CompressionSettings {
    /// Returns the documented defaults.
    fn default() -> Self {
        Self {
            enabled: keys::default_of("compression.enabled").and_then(|value| value.as_bool()) == Some(true),
            threshold: keys::default_number("compression.threshold"),
            target_ratio: keys::default_number("compression.target_ratio"),
            protect_first_n: keys::default_count("compression.protect_first_n"),
            protect_last_n: keys::default_count("compression.protect_last_n"),
        }
    }
}

impl CompressionSettings {
    /// Resolves each setting: a key in the file overrides `CONTEXT_COMPRESSION_*`, which overrides the default.
    pub fn resolve(config: &Config, env: &Env) -> Self {
        let from_file = |key: &str| config.is_user_set(&format!("compression.{key}"));
        let enabled = env.bool("CONTEXT_COMPRESSION_ENABLED").filter(|_| !from_file("enabled"));
        let threshold = env.number("CONTEXT_COMPRESSION_THRESHOLD").filter(|_| !from_file("threshold"));
        let in_range = |value: f64| value > 0.0 && value <= 1.0;
        Self {
            enabled: enabled.unwrap_or_else(|| config.flag("compression.enabled")),
            threshold: threshold
                .filter(|value| in_range(*value))
                .unwrap_or_else(|| config.number_where("compression.threshold", in_range)),
            target_ratio: config.number_where("compression.target_ratio", |_| true).clamp(0.10, 0.80),
            protect_first_n: config.count("compression.protect_first_n"),
            protect_last_n: config.count("compression.protect_last_n"),
        }
    }
}

/// The endpoint that turns texts into vectors, for recall.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingSettings {
    /// The address before `/embeddings`.
    pub base_url: String,
    pub model: String,
    pub dimensions: Option<usize>,
    /// How alike a statement must be to be recalled, from 0 to 1.
    pub min_similarity: f64,
}

impl EmbeddingSettings {
    /// Returns the settings if an address and a model are configured.
    fn from_config(config: &Config) -> Option<Self> {
        Some(Self {
            base_url: config.non_empty_text("memory.embeddings.base_url")?,
            model: config.non_empty_text("memory.embeddings.model")?,
            dimensions: Some(config.count("memory.embeddings.dimensions")).filter(|count| *count > 0),
            min_similarity: config
                .number_where("memory.embeddings.min_similarity", |value| (0.0..=1.0).contains(&value)),
        })
    }
}

/// The settings of the memory that is kept between sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct MemorySettings {
    pub memory_enabled: bool,
    pub user_profile_enabled: bool,
    pub memory_char_limit: usize,
    pub user_char_limit: usize,
    /// The interval in user turns; zero means off.
    pub nudge_interval: usize,
    pub flush_min_turns: usize,
    /// How long a turn waits for a memory service.
    pub recall_timeout: Duration,
    pub embeddings: Option<EmbeddingSettings>,
    /// Whether each change by the agent needs a person's approval.
    pub write_approval: bool,
}

impl MemorySettings {
    pub fn from_config(config: &Config) -> Self {
        Self {
            memory_enabled: config.flag("memory.memory_enabled"),
            user_profile_enabled: config.flag("memory.user_profile_enabled"),
            memory_char_limit: config.count("memory.memory_char_limit"),
            user_char_limit: config.count("memory.user_char_limit"),
            nudge_interval: config.count("memory.nudge_interval"),
            flush_min_turns: config.count("memory.flush_min_turns"),
            recall_timeout: config.seconds("memory.recall_timeout"),
            embeddings: EmbeddingSettings::from_config(config),
            write_approval: config.flag("memory.write_approval"),
        }
    }
}

/// The settings of subagents. Empty fields inherit the parent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationSettings {
    pub model: Option<String>,
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    pub max_iterations: usize,
}

impl DelegationSettings {
    pub fn from_config(config: &Config) -> Self {
        Self {
            model: config.non_empty_text("delegation.model"),
            provider: config.non_empty_text("delegation.provider"),
            base_url: config.non_empty_text("delegation.base_url"),
            api_key: config.non_empty_text("delegation.api_key").map(Secret::new),
            max_iterations: config.count("delegation.max_iterations"),
        }
    }
}

/// The settings of snapshots before file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointSettings {
    pub enabled: bool,
    pub max_snapshots: usize,
    /// The size in bytes above which files are left out.
    pub max_file_bytes: u64,
}

impl CheckpointSettings {
    pub fn from_config(config: &Config) -> Self {
        Self {
            enabled: config.flag("checkpoints.enabled"),
            max_snapshots: config.count("checkpoints.max_snapshots"),
            max_file_bytes: (config.count("checkpoints.max_file_size_mb") as u64).saturating_mul(1024 * 1024),
        }
    }
}

/// The spending caps in US dollars; `None` means no cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetSettings {
    pub per_turn_usd: Option<f64>,
    pub per_day_usd: Option<f64>,
    pub per_job_usd: Option<f64>,
}

impl BudgetSettings {
    pub fn from_config(config: &Config) -> Self {
        let cap = |key: &str| config.number(&format!("budget.{key}")).filter(|value| *value >= 0.0);
        Self {
            per_turn_usd: cap("per_turn_usd"),
            per_day_usd: cap("per_day_usd"),
            per_job_usd: cap("per_job_usd"),
        }
    }
}

/// The model settings of a side task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuxiliaryTaskSettings {
    pub provider: String,
    pub model: Option<String>,
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    pub timeout: Duration,
}

impl AuxiliaryTaskSettings {
    /// Resolves the variables `AUXILIARY_{TASK}_…` and `CONTEXT_{TASK}_…` first, then `auxiliary.{task}`; for
    /// compression also the older `compression.summary_…`.
    pub fn resolve(config: &Config, env: &Env, task: &str) -> Self {
        let upper = task.to_uppercase();
        let field = |name: &str| {
            let variable = name.to_uppercase();
            let from_env = [format!("AUXILIARY_{upper}_{variable}"), format!("CONTEXT_{upper}_{variable}")]
                .iter()
                .find_map(|name| env.get(name).map(str::to_owned));
            let said = |text: &String| !(name == "provider" && text == "auto");
            from_env
                .or_else(|| config.non_empty_text(&format!("auxiliary.{task}.{name}")).filter(said))
                .or_else(|| {
                    if task == "compression" {
                        config.non_empty_text(&format!("compression.summary_{name}"))
                    } else {
                        None
                    }
                })
                .filter(said)
        };
        let seconds = config
            .number(&format!("auxiliary.{task}.timeout"))
            .filter(|seconds| *seconds > 0.0)
            .unwrap_or(if task == "compression" { 120.0 } else { 30.0 });
        Self {
            provider: field("provider").unwrap_or_else(|| "auto".to_owned()),
            model: field("model"),
            base_url: field("base_url").map(|url| url.trim_end_matches('/').to_owned()),
            api_key: field("api_key").map(Secret::new),
            timeout: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(30)),
        }
    }
}
