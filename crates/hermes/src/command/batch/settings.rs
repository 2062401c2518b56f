//! What the flags of a run ask for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_agent::RequestOptions;
use hermes_config::Config;
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_guard::{Redaction, redact};
use hermes_model::provider::ProviderChoice;
use hermes_research::{
    BatchOptions, BatchShard, DISTRIBUTIONS, ReasoningFilter, ResumePolicy, RolloutSettings,
    ToolsetDistribution, find_distribution,
};
use hermes_store::Store;
use hermes_types::{Clock, Message, ReasoningEffort, Secret};

use crate::cli::{BatchAction, BatchArguments};
use crate::context::{ProgramContext, local_time};
use crate::wiring::agent_spec::RuntimeSpec;
use crate::wiring::model::{ModelSet, choose_models};
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::research::{ResearchAgentOptions, ResearchAgents, registered_tools};

/// The folder of runs, in the working directory.
const RUNS: &str = "data";
/// The model where none is configured.
const DEFAULT_MODEL: &str = "anthropic/claude-sonnet-4.6";
const EFFORTS: [&str; 8] = ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"];

/// Flags that were checked.
pub(super) struct BatchSettings {
    pub(super) dataset: PathBuf,
    pub(super) distribution: &'static ToolsetDistribution,
    pub(super) batch_size: usize,
    pub(super) run_name: String,
    shard: Option<BatchShard>,
    overlay: Vec<(KeyPath, YamlValue)>,
    max_cost: Option<f64>,
    request: RequestOptions,
    max_turns: usize,
}

impl BatchSettings {
    /// Checks the flags. The error is a line for the user.
    pub(super) fn read(arguments: &BatchArguments) -> Result<Self, String> {
        let missing = |flag: &str| format!("--{flag} is missing; `hermes batch --help` describes the flags");
        let needs_dataset = matches!(arguments.action, BatchAction::Run | BatchAction::Enqueue);
        let dataset = arguments.dataset_file.clone();
        let dataset =
            dataset.or_else(|| (!needs_dataset).then(PathBuf::new)).ok_or_else(|| missing("dataset-file"))?;
        let batch_size = arguments.batch_size.or_else(|| (!needs_dataset).then_some(1));
        let batch_size = batch_size.ok_or_else(|| missing("batch-size"))?;
        let run_name = arguments.run_name.clone().ok_or_else(|| missing("run-name"))?;
        for (flag, value) in [
            ("batch-size", batch_size),
            ("num-workers", arguments.num_workers),
            ("max-turns", arguments.max_turns),
            ("lease-seconds", arguments.lease_seconds as usize),
            ("max-samples", arguments.max_samples.unwrap_or(1)),
        ] {
            if value == 0 {
                return Err(format!("--{flag} must be at least 1"));
            }
        }
        if run_name.is_empty() || run_name.contains('/') || run_name.starts_with('.') {
            return Err(format!(
                "--run-name is `{run_name}`; it must be the name of a folder, without `/` and not hidden"
            ));
        }
        let distribution = find_distribution(&arguments.distribution).ok_or_else(|| {
            let names: Vec<&str> = DISTRIBUTIONS.iter().map(|distribution| distribution.name).collect();
            format!("--distribution is `{}`; it can be one of {}", arguments.distribution, names.join(", "))
        })?;
        let effort = match &arguments.reasoning_effort {
            _ if arguments.reasoning_disabled => Some(ReasoningEffort::None),
            None => None,
            Some(level) if EFFORTS.contains(&level.to_lowercase().as_str()) => ReasoningEffort::parse(level),
            Some(level) => {
                return Err(format!(
                    "--reasoning-effort is `{level}`; it can be one of {}",
                    EFFORTS.join(", ")
                ));
            }
        };
        let prefill =
            arguments.prefill_messages_file.as_deref().map(read_prefill).transpose()?.unwrap_or_default();
        let shard = arguments.shard.as_deref().map(str::parse).transpose()?;
        Ok(Self {
            dataset,
            distribution,
            batch_size,
            run_name,
            shard,
            overlay: overlay(arguments),
            max_cost: arguments.max_cost,
            request: RequestOptions {
                max_tokens: arguments.max_tokens,
                effort,
                ephemeral: arguments.ephemeral_system_prompt.clone(),
                prefill,
            },
            max_turns: arguments.max_turns,
        })
    }

    /// Returns the configuration with what the flags change.
    pub(super) fn config(&self, config: &Config, context: &ProgramContext) -> Config {
        let mut values = self.overlay.clone();
        // A price that is not known counts for nothing; the setting says whether such a model may be used.
        if let Some(dollars) = self.max_cost.filter(|_| !config.is_user_set("budget.per_turn_usd")) {
            values.extend(value("budget.per_turn_usd", YamlValue::Float(dollars)));
        }
        config.with_values(values, &context.env)
    }

    /// Chooses the models. The built-in model, which makes no training data, has to be asked for by name.
    pub(super) fn models(
        &self,
        arguments: &BatchArguments,
        context: &ProgramContext,
        config: &Config,
        clock: &Arc<dyn Clock>,
        store: &Store,
    ) -> Result<ModelSet> {
        let configured = config.is_user_set("model.default") || config.is_user_set("model.provider");
        let model = arguments.model.clone().or_else(|| (!configured).then(|| DEFAULT_MODEL.to_owned()));
        let choice = ProviderChoice {
            provider: arguments.provider.clone(),
            model,
            base_url: arguments.base_url.clone(),
            api_key: arguments.api_key.clone().map(Secret::new),
        };
        let from = ProgramConfig { context, config };
        let surface = RuntimeSpec::research().surface;
        let mut models = choose_models(&choice, from, surface, clock, store)?;
        let is_asked = choice.provider.as_deref() == Some("offline")
            || config.text("model.provider") == "offline" && choice.provider.is_none();
        if models.is_offline() && !is_asked {
            bail!(
                "no model is configured; run `hermes setup`, or give --model with --base-url and --api-key"
            );
        }
        if let Some(dollars) = self.max_cost {
            models.limit_run(dollars).context("--max-cost")?;
        }
        Ok(models)
    }

    pub(super) fn batch_options(&self, arguments: &BatchArguments, model: &str) -> Result<BatchOptions> {
        let here = std::env::current_dir().context("the working directory no longer exists")?;
        Ok(BatchOptions {
            run_name: self.run_name.clone(),
            folder: here.join(RUNS).join(&self.run_name),
            batch_size: self.batch_size,
            workers: arguments.num_workers,
            resume: if arguments.resume { ResumePolicy::ByContent } else { ResumePolicy::ByIndex },
            shard: self.shard,
            verbose: arguments.verbose,
            preview_chars: arguments.log_prefix_chars,
            model: model.to_owned(),
        })
    }

    pub(super) fn rollouts(&self, arguments: &BatchArguments, model: &str) -> RolloutSettings {
        RolloutSettings {
            run_name: self.run_name.clone(),
            model: model.to_owned(),
            registered_tools: registered_tools(),
            filter: if arguments.keep_without_reasoning {
                ReasoningFilter::Off
            } else {
                ReasoningFilter::Required
            },
            redact: arguments.redact.then_some(without_secrets as fn(&str) -> String),
            calendar: Arc::new(local_time),
        }
    }

    pub(super) fn agents(
        &self,
        context: &ProgramContext,
        config: &Config,
        models: ModelSet,
        clock: &Arc<dyn Clock>,
        store: &Store,
    ) -> Result<ResearchAgents> {
        let options =
            ResearchAgentOptions { max_turns: self.max_turns, request_options: self.request.clone() };
        ResearchAgents::open(ProgramConfig { context, config }, models, options, store, clock)
    }
}

fn without_secrets(text: &str) -> String {
    redact(text, Redaction::default()).into_owned()
}

/// Returns the settings that the flags replace, and those that make no sense for a run.
fn overlay(arguments: &BatchArguments) -> Vec<(KeyPath, YamlValue)> {
    let list = |text: &Option<String>| {
        let text = text.as_deref()?;
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        Some(YamlValue::Seq(items.map(|item| YamlValue::Str(item.to_owned())).collect()))
    };
    let sort = arguments.provider_sort.clone().map(YamlValue::Str);
    let wanted = [
        ("provider_routing.only", list(&arguments.providers_allowed)),
        ("provider_routing.ignore", list(&arguments.providers_ignored)),
        ("provider_routing.order", list(&arguments.providers_order)),
        ("provider_routing.sort", sort),
        ("checkpoints.enabled", Some(YamlValue::Bool(false))),
    ];
    wanted.into_iter().filter_map(|(key, setting)| value(key, setting?)).collect()
}

fn value(key: &str, value: YamlValue) -> Option<(KeyPath, YamlValue)> {
    Some((KeyPath::parse(key)?, value))
}

fn read_prefill(path: &Path) -> Result<Vec<Message>, String> {
    let unusable = |reason: String| format!("{} cannot be used as prefill: {reason}", path.display());
    let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| unusable(format!("an array of messages is needed; {error}")))
}
