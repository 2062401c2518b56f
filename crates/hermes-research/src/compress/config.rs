//! The settings of a compression, as its YAML file has them.

use std::time::Duration;

use hermes_config::yaml::{YamlValue, parse};

use crate::error::Error;

const NOTICE: &str = include_str!("notice.txt");

/// The roles of turns, in the order in which they usually begin.
const ROLES: [&str; 4] = ["system", "human", "gpt", "tool"];

/// Which turns are never replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedTurns {
    /// The roles whose first turn is kept.
    pub first: Vec<&'static str>,
    /// How many turns at the end are kept.
    pub last_turns: usize,
}

/// The model that summarizes, and how often it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct SummarySettings {
    pub model: String,
    pub base_url: String,
    /// The variable that holds the key.
    pub api_key_env: String,
    pub temperature: f32,
    /// The most requests for one summary.
    pub attempts: u32,
    /// The wait before the second request; it doubles with each further one.
    pub retry_delay: Duration,
}

/// The sentence that tells the model of a later run that something was summarized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeSettings {
    pub add: bool,
    pub text: String,
    /// What is added to the name of the output.
    pub suffix: String,
}

/// All settings.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectoryLimits {
    pub target_tokens: u64,
    pub summary_tokens: u64,
    pub protected: ProtectedTurns,
    pub summary: SummarySettings,
    pub notice: NoticeSettings,
    pub concurrent: usize,
    pub trajectory_timeout: Duration,
    pub metrics: bool,
    pub metrics_per_trajectory: bool,
    pub metrics_file: String,
    /// The tokenizer by which tokens are counted; without one they are estimated.
    pub tokenizer: Option<String>,
}

impl Default for TrajectoryLimits {
    fn default() -> Self {
        Self {
            target_tokens: 15_250,
            summary_tokens: 750,
            protected: ProtectedTurns { first: ROLES.to_vec(), last_turns: 4 },
            summary: SummarySettings {
                model: "google/gemini-3-flash-preview".to_owned(),
                base_url: "https://openrouter.ai/api/v1".to_owned(),
                api_key_env: "OPENROUTER_API_KEY".to_owned(),
                temperature: 0.3,
                attempts: 3,
                retry_delay: Duration::from_secs(2),
            },
            notice: NoticeSettings {
                add: true,
                text: NOTICE.trim_end_matches('\n').to_owned(),
                suffix: "_compressed".to_owned(),
            },
            concurrent: 50,
            trajectory_timeout: Duration::from_mins(5),
            metrics: true,
            metrics_per_trajectory: true,
            metrics_file: "compression_metrics.json".to_owned(),
            tokenizer: None,
        }
    }
}

impl TrajectoryLimits {
    /// Reads a file over the defaults. The error names the key that cannot be used.
    pub fn from_yaml(text: &str) -> Result<Self, Error> {
        let tree = parse(text).map_err(|error| Error::Unusable(error.to_string()))?;
        let read = Reader { tree };
        let usual = Self::default();
        let url = read.text("summarization.base_url")?.filter(|url| !url.is_empty());
        let seconds = |key: &str| -> Result<Option<Duration>, Error> {
            let wrong = || read.wrong(key, "a number of seconds");
            read.number(key)?.map(|n| Duration::try_from_secs_f64(n).map_err(|_| wrong())).transpose()
        };
        #[expect(clippy::cast_possible_truncation, reason = "a temperature has few digits")]
        let temperature = read.number("summarization.temperature")?.map(|value| value as f32);
        let count = |key: &str, usual: usize| -> Result<usize, Error> {
            let wrong = || read.wrong(key, "a whole number");
            read.count(key)?.map_or(Ok(usual), |n| usize::try_from(n).map_err(|_| wrong()))
        };
        let mut first = Vec::new();
        for role in ROLES {
            if read.flag(&format!("protected_turns.first_{role}"))?.unwrap_or(true) {
                first.push(role);
            }
        }
        Ok(Self {
            target_tokens: read.count("compression.target_max_tokens")?.unwrap_or(usual.target_tokens),
            summary_tokens: read.count("compression.summary_target_tokens")?.unwrap_or(usual.summary_tokens),
            protected: ProtectedTurns {
                first,
                last_turns: count("protected_turns.last_n_turns", usual.protected.last_turns)?,
            },
            summary: SummarySettings {
                model: read.text("summarization.model")?.unwrap_or(usual.summary.model),
                base_url: url.unwrap_or(usual.summary.base_url),
                api_key_env: read.text("summarization.api_key_env")?.unwrap_or(usual.summary.api_key_env),
                temperature: temperature.unwrap_or(usual.summary.temperature),
                attempts: u32::try_from(count("summarization.max_retries", 3)?).unwrap_or(u32::MAX).max(1),
                retry_delay: seconds("summarization.retry_delay")?.unwrap_or(usual.summary.retry_delay),
            },
            notice: NoticeSettings {
                add: read.flag("output.add_summary_notice")?.unwrap_or(true),
                text: read.text("output.summary_notice_text")?.unwrap_or(usual.notice.text),
                suffix: read.text("output.output_suffix")?.unwrap_or(usual.notice.suffix),
            },
            concurrent: count("processing.max_concurrent_requests", usual.concurrent)?.max(1),
            trajectory_timeout: seconds("processing.per_trajectory_timeout")?
                .unwrap_or(usual.trajectory_timeout),
            metrics: read.flag("metrics.enabled")?.unwrap_or(true),
            metrics_per_trajectory: read.flag("metrics.per_trajectory")?.unwrap_or(true),
            metrics_file: read.text("metrics.output_file")?.unwrap_or(usual.metrics_file),
            tokenizer: read.text("tokenizer.name")?.filter(|name| !name.is_empty()),
        })
    }
}

struct Reader {
    tree: YamlValue,
}

impl Reader {
    fn get(&self, key: &str) -> Option<&YamlValue> {
        self.tree.lookup(key).filter(|value| !value.is_null())
    }

    #[expect(clippy::unused_self, reason = "it belongs to the reading")]
    fn wrong(&self, key: &str, wanted: &str) -> Error {
        Error::Unusable(format!("{key} must be {wanted}"))
    }

    fn text(&self, key: &str) -> Result<Option<String>, Error> {
        let text =
            |value: &YamlValue| value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "a text"));
        self.get(key).map(text).transpose()
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        let flag = |value: &YamlValue| value.as_bool().ok_or_else(|| self.wrong(key, "true or false"));
        self.get(key).map(flag).transpose()
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        #[expect(clippy::cast_precision_loss, reason = "settings are small numbers")]
        let number = |value: &YamlValue| {
            let whole = value.as_int().map(|n| n as f64);
            whole.or_else(|| value.as_float()).ok_or_else(|| self.wrong(key, "a number"))
        };
        self.get(key).map(number).transpose()
    }

    fn count(&self, key: &str) -> Result<Option<u64>, Error> {
        let count = |value: &YamlValue| {
            let count = value.as_int().and_then(|n| u64::try_from(n).ok());
            count.ok_or_else(|| self.wrong(key, "a whole number"))
        };
        self.get(key).map(count).transpose()
    }
}
