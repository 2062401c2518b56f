//! The settings of an environment and of its model servers, from four layers: defaults, the environment's own, a file, flags.
//!
//! Maps are merged, everything else is replaced. Invariant: an unknown or unusable key is an error that names it.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::Error;

/// What happens to training while an evaluation runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EvaluationPriority {
    /// No training goes on.
    #[default]
    StopTrain,
    /// Only a share of the workers goes on.
    LimitTrain,
    None,
}

/// The settings of an environment: the keys below `env`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "one field per key")]
pub struct EnvironmentSettings {
    pub group_size: usize,
    pub max_num_workers: i64,
    pub max_num_workers_per_node: i64,
    pub max_eval_workers: usize,
    pub steps_per_eval: i64,
    pub max_token_length: u64,
    pub eval_handling: EvaluationPriority,
    pub eval_limit_ratio: f64,
    pub inference_weight: f64,
    pub batch_size: i64,
    pub tokenizer_name: String,
    pub rollout_server_url: String,
    pub total_steps: i64,
    pub max_batches_offpolicy: i64,
    pub use_wandb: bool,
    pub wandb_name: Option<String>,
    pub num_rollouts_to_keep: i64,
    pub num_rollouts_per_group_for_logging: i64,
    pub data_path_to_save_groups: Option<PathBuf>,
    pub data_dir_to_save_evals: Option<PathBuf>,
    pub min_items_sent_before_logging: u64,
    pub ensure_scores_are_not_same: bool,
    pub include_messages: bool,
    pub min_batch_allocation: Option<f64>,
    pub worker_timeout: f64,
    pub thinking_mode: bool,
    pub reasoning_effort: Option<String>,
    pub max_reasoning_tokens: Option<u64>,
    pub custom_thinking_prompt: Option<String>,
    pub enabled_toolsets: Option<Vec<String>>,
    pub disabled_toolsets: Option<Vec<String>>,
    pub distribution: Option<String>,
    pub max_agent_turns: usize,
    pub agent_temperature: f64,
    pub system_prompt: Option<String>,
    pub terminal_backend: Option<String>,
    pub terminal_timeout: Option<u64>,
    pub terminal_lifetime: Option<u64>,
    pub dataset_name: Option<String>,
    pub dataset_split: String,
    pub prompt_field: String,
    pub tool_pool_size: usize,
    pub tool_call_parser: String,
    pub extra_body: Option<Map<String, Value>>,
    pub default_result_size_chars: usize,
    pub turn_budget_chars: usize,
    pub preview_size_chars: usize,
    pub tool_result_overrides: Option<Map<String, Value>>,
    /// The context window of the model in tokens, where results are to be held in proportion to it.
    pub context_window: Option<usize>,
    /// The keys that only this environment knows.
    #[serde(flatten)]
    pub own: Map<String, Value>,
}

impl Default for EnvironmentSettings {
    fn default() -> Self {
        Self {
            group_size: 4,
            max_num_workers: -1,
            max_num_workers_per_node: 8,
            max_eval_workers: 16,
            steps_per_eval: 100,
            max_token_length: 2048,
            eval_handling: EvaluationPriority::StopTrain,
            eval_limit_ratio: 0.5,
            inference_weight: 1.0,
            batch_size: -1,
            tokenizer_name: "NousResearch/DeepHermes-3-Llama-3-3B-Preview".to_owned(),
            rollout_server_url: "http://localhost:8000".to_owned(),
            total_steps: 1000,
            max_batches_offpolicy: 3,
            use_wandb: true,
            wandb_name: None,
            num_rollouts_to_keep: 32,
            num_rollouts_per_group_for_logging: 1,
            data_path_to_save_groups: None,
            data_dir_to_save_evals: None,
            min_items_sent_before_logging: 2,
            ensure_scores_are_not_same: true,
            include_messages: false,
            min_batch_allocation: None,
            worker_timeout: 600.0,
            thinking_mode: false,
            reasoning_effort: None,
            max_reasoning_tokens: None,
            custom_thinking_prompt: None,
            enabled_toolsets: None,
            disabled_toolsets: None,
            distribution: None,
            max_agent_turns: 30,
            agent_temperature: 1.0,
            system_prompt: None,
            terminal_backend: None,
            terminal_timeout: None,
            terminal_lifetime: None,
            dataset_name: None,
            dataset_split: "train".to_owned(),
            prompt_field: "prompt".to_owned(),
            tool_pool_size: 128,
            tool_call_parser: "hermes".to_owned(),
            extra_body: None,
            default_result_size_chars: 100_000,
            turn_budget_chars: 200_000,
            preview_size_chars: 1_500,
            tool_result_overrides: None,
            context_window: None,
            own: Map::new(),
        }
    }
}

/// The kind of a model server, which decides how it is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerType {
    #[default]
    Openai,
    Trl,
    Vllm,
    Sglang,
}

impl ServerType {
    /// Tells whether the server takes and returns tokens.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang)
    }
}

/// The settings of a model server: the keys below `openai`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InferenceServerSettings {
    pub server_type: ServerType,
    pub base_url: String,
    pub api_key: String,
    pub model_name: String,
    pub tokenizer_name: String,
    pub timeout: f64,
    pub num_max_requests_at_once: usize,
    pub num_requests_for_eval: usize,
    pub n_kwarg_is_ignored: bool,
    pub health_check: bool,
    pub rolling_buffer_length: u64,
    pub max_n_completions: u64,
    pub weight: f64,
    /// The address of a proxy that keeps the tokens of conversations.
    pub proxy_url: Option<String>,
}

impl Default for InferenceServerSettings {
    fn default() -> Self {
        Self {
            server_type: ServerType::Openai,
            base_url: String::new(),
            api_key: String::new(),
            model_name: "default".to_owned(),
            tokenizer_name: "none".to_owned(),
            timeout: 1200.0,
            num_max_requests_at_once: 512,
            num_requests_for_eval: 64,
            n_kwarg_is_ignored: false,
            health_check: true,
            rolling_buffer_length: 1000,
            max_n_completions: 8,
            weight: 1.0,
            proxy_url: None,
        }
    }
}

/// A value as a flag gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagValue {
    /// The flag has no value: true.
    Bare,
    Text(String),
}

/// The ports of servers where none is configured.
const LOCAL_PORTS: std::ops::RangeInclusive<u16> = 9004..=9007;
/// The address of a server without one.
const OPENAI: &str = "https://api.openai.com/v1";

/// The layers of settings, the weakest first.
#[derive(Debug, Clone, Default)]
pub struct SettingLayers {
    /// What the environment and the mode ask for.
    pub defaults: Vec<Map<String, Value>>,
    /// What the file has: a map with `env`, `openai` and others.
    pub file: Value,
    pub env_flags: Vec<(String, FlagValue)>,
    pub server_flags: Vec<(String, FlagValue)>,
}

impl SettingLayers {
    /// Returns the settings of the environment. `own` are the keys that only this environment knows.
    pub fn environment(&self, own: &[String]) -> Result<EnvironmentSettings, Error> {
        let mut map = Map::new();
        for layer in &self.defaults {
            merge(&mut map, layer);
        }
        match self.file.get("env") {
            Some(Value::Object(layer)) => merge(&mut map, layer),
            None | Some(Value::Null) => {}
            Some(_) => return Err(Error::Unusable("`env` in the file must be a mapping".to_owned())),
        }
        let fits = |key: &str, value: &Value| {
            serde_json::from_value::<EnvironmentSettings>(one(key, value.clone())).is_ok()
        };
        apply_flags(&mut map, &self.env_flags, fits);
        let settings: EnvironmentSettings = read("env", &map)?;
        if let Some(unknown) = settings.own.keys().find(|key| !own.contains(key)) {
            return Err(Error::Unusable(format!("env.{unknown} is not a setting of this environment")));
        }
        settings.checked()
    }

    /// Returns the settings of the model servers.
    pub fn servers(&self) -> Result<Vec<InferenceServerSettings>, Error> {
        let listed = match self.file.get("openai") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items.clone(),
            Some(one) => vec![one.clone()],
        };
        if listed.len() > 1 && !self.server_flags.is_empty() {
            return Err(Error::Unusable(
                "--openai flags cannot be used with several servers in the file; set them there".to_owned(),
            ));
        }
        if listed.is_empty() && self.server_flags.is_empty() {
            let local = |port| InferenceServerSettings {
                base_url: format!("http://localhost:{port}/v1"),
                ..InferenceServerSettings::default()
            };
            return Ok(LOCAL_PORTS.map(local).collect());
        }
        let listed = if listed.is_empty() { vec![Value::Object(Map::new())] } else { listed };
        let mut servers = Vec::new();
        for item in listed {
            let Value::Object(mut map) = item else {
                return Err(Error::Unusable(
                    "`openai` in the file must be a mapping or a list of mappings".to_owned(),
                ));
            };
            let fits = |key: &str, value: &Value| {
                serde_json::from_value::<InferenceServerSettings>(one(key, value.clone())).is_ok()
            };
            apply_flags(&mut map, &self.server_flags, fits);
            let mut server: InferenceServerSettings = read("openai", &map)?;
            if server.base_url.is_empty() {
                OPENAI.clone_into(&mut server.base_url);
            }
            servers.push(server);
        }
        Ok(servers)
    }
}

impl EnvironmentSettings {
    fn checked(self) -> Result<Self, Error> {
        let wrong = |key: &str, why: &str| Err(Error::Unusable(format!("env.{key} {why}")));
        if self.group_size == 0 {
            return wrong("group_size", "must be at least 1");
        }
        if self.max_agent_turns == 0 {
            return wrong("max_agent_turns", "must be at least 1");
        }
        if self.tool_pool_size == 0 {
            return wrong("tool_pool_size", "must be at least 1");
        }
        if self.min_batch_allocation.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return wrong("min_batch_allocation", "must be between 0 and 1");
        }
        if self.max_reasoning_tokens.is_some_and(|tokens| !(1024..=32_000).contains(&tokens)) {
            return wrong("max_reasoning_tokens", "must be between 1024 and 32000");
        }
        Ok(self)
    }

    /// Returns a number that only this environment knows.
    pub(crate) fn own_number(&self, key: &str, usual: f64) -> f64 {
        self.own.get(key).and_then(Value::as_f64).unwrap_or(usual)
    }

    /// Returns a list that is written with commas, or as a list.
    pub(crate) fn own_list(&self, key: &str) -> Vec<String> {
        match self.own.get(key) {
            Some(Value::String(text)) => {
                text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
            }
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }
}

fn one(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

/// Merges a layer into another: maps member by member.
fn merge(into: &mut Map<String, Value>, layer: &Map<String, Value>) {
    for (key, value) in layer {
        match (into.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Applies flags. A text is what it looks like, unless the key wants a text.
fn apply_flags(
    map: &mut Map<String, Value>,
    flags: &[(String, FlagValue)],
    fits: impl Fn(&str, &Value) -> bool,
) {
    for (key, flag) in flags {
        let value = match flag {
            FlagValue::Bare => Value::Bool(true),
            FlagValue::Text(text) => {
                let looks = read_flag(text);
                if fits(key, &looks) { looks } else { Value::String(text.clone()) }
            }
        };
        merge(map, &Map::from_iter([(key.clone(), value)]));
    }
}

fn read_flag(text: &str) -> Value {
    match text {
        "None" | "null" => Value::Null,
        "True" | "true" => Value::Bool(true),
        "False" | "false" => Value::Bool(false),
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

/// Reads settings; the error names the key that does not fit.
fn read<T: DeserializeOwned>(section: &str, map: &Map<String, Value>) -> Result<T, Error> {
    serde_json::from_value(Value::Object(map.clone())).map_err(|error| {
        let wrong = map.iter().find_map(|(key, value)| {
            let problem = serde_json::from_value::<T>(one(key, value.clone())).err()?;
            Some(format!("{section}.{key}: {problem}"))
        });
        Error::Unusable(wrong.unwrap_or_else(|| format!("{section}: {error}")))
    })
}
