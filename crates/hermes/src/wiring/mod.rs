//! Builds an agent from the configuration: its model, tools, prompt and settings.

pub(crate) mod agent_factory;
mod backends;
pub(crate) mod channels;
mod code;
mod command_runtime;
mod delegation;
pub(crate) mod hooks;
pub(crate) mod message_sender;
mod modal;
mod model;
mod programs;
pub(crate) mod sandbox;
pub(crate) mod skills;
pub(crate) mod temporary_delivery;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_agent::{
    Agent, AgentFolders, Compression, CompressionMode, ContextFiles, HintChange, PromptSource,
    RequestOptions, ReviewIntervals, SessionIdLine, SessionLogMode, ToolUseEnforcement, TurnLimits,
    UnknownPricePolicy,
};
use hermes_config::settings::{
    AgentSettings, BudgetSettings, CompressionSettings, MemorySettings, TerminalSettings,
};
use hermes_config::yaml::YamlValue;
use hermes_config::{Config, Env, ProgramSurface, expand_tilde, precedence, user_home};
use hermes_exec::{ProgramRunner, Variables};
use hermes_gateway::{LiveSettings, process};
use hermes_knowledge::{MemoryLimits, MemoryStore, SkillFilter, SkillSet, create_soul};
use hermes_model::provider::ProviderChoice;
use hermes_store::Store;
use hermes_task::SystemClock;
use hermes_tools::{CheckpointManager, FileGuard, ProcessNotice, ReferenceResolver, ToolRegistry};
use hermes_types::{Clock, Message, MessageSender, ReasoningEffort, SpendingCap};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::cli::ChatArguments;
use crate::context::{ProgramContext, local_time};
use crate::output::Console;

pub(crate) use command_runtime::CommandRuntime;
use model::ModelSet;
pub(crate) use model::net_config;
use temporary_delivery::OutboxMessageSender;
use tools::RunTools;

/// An agent, with the services its frontend needs.
pub(crate) struct AgentRuntime {
    pub(crate) agent: Agent,
    models: ModelSet,
    pub(crate) config: Config,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
    /// Every available tool, selected for this run or not.
    pub(crate) all_tools: ToolRegistry,
    pub(crate) command_runtime: CommandRuntime,
    /// The notices of background processes.
    pub(crate) notices: Option<UnboundedReceiver<ProcessNotice>>,
    /// The requested toolsets that do not exist.
    pub(crate) unknown_toolsets: Vec<String>,
}

impl AgentRuntime {
    /// Resets the budget of a turn; called before each further turn.
    pub(crate) fn renew_budget(&mut self) {
        self.agent = self.agent_for_turn();
    }

    /// Switches to the model the configuration names now; the conversation continues with it.
    pub(crate) fn change_model(&mut self, context: &ProgramContext) -> Result<()> {
        let config = Config::load(&context.home, &context.env);
        config.require_usable(&context.env)?;
        let (clock, store) = (self.agent.clock().clone(), self.agent.store().clone());
        let models = model::choose_models(
            &ProviderChoice::default(),
            context,
            config.clone(),
            ProgramSurface::Cli,
            &clock,
            &store,
        )?;
        (self.models, self.config) = (models, config);
        self.renew_budget();
        Ok(())
    }

    /// Returns the agent with the budget of one turn.
    pub(crate) fn agent_for_turn(&self) -> Agent {
        self.agent.clone().into_builder().models(self.models.for_turn()).build()
    }

    /// Changes the options of all further requests.
    pub(crate) fn set_request_options(&mut self, options: RequestOptions) {
        self.agent = self.agent.clone().into_builder().request_options(options).build();
    }
}

/// Builds the agent of a run. Opens the store, and makes no network request.
pub(crate) fn build_runtime(
    arguments: &ChatArguments,
    platform: &str,
    context: &ProgramContext,
    output: &Console,
) -> Result<AgentRuntime> {
    let config = context.usable_config(output)?;
    let store = context.store(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let order = AgentSpec {
        arguments,
        platform,
        surface: ProgramSurface::Cli,
        choice: ProviderChoice {
            provider: arguments.provider.clone(),
            model: arguments.model.clone(),
            ..ProviderChoice::default()
        },
        command_runtime: None,
        excluded_toolsets: &[],
        logs: SessionLogMode::Immediate(context.home.join("sessions")),
        message_sender: chat_message_sender(context, &store, &clock),
    };
    let wired = build_agent(&order, context, config, store, clock, output)?;
    for note in &wired.models.notes {
        output.notice(&format!("note: {note}"));
    }
    Ok(wired)
}

/// Returns a sender with which a terminal chat can write to other chats while a gateway runs for its home.
fn chat_message_sender(
    context: &ProgramContext,
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<dyn MessageSender>> {
    process::running_pid(&context.home)?;
    let live = LiveSettings::new(context.home.clone(), Env::process(), context.home.path().to_owned());
    Some(Arc::new(OutboxMessageSender::new(live, store.clone(), clock.clone())))
}

/// Describes the agent to build.
pub(crate) struct AgentSpec<'a> {
    pub(crate) arguments: &'a ChatArguments,
    pub(crate) platform: &'a str,
    pub(crate) surface: ProgramSurface,
    /// The requested model, where it is not the configured one.
    pub(crate) choice: ProviderChoice,
    /// The command runtime of another agent of this process.
    pub(crate) command_runtime: Option<CommandRuntime>,
    /// The toolsets the agent does not get.
    pub(crate) excluded_toolsets: &'a [&'a str],
    /// The destination of session logs.
    pub(crate) logs: SessionLogMode,
    /// The sender for messages to chats, if there is one.
    pub(crate) message_sender: Option<Arc<dyn MessageSender>>,
}

/// Builds an agent on an open store.
pub(crate) fn build_agent(
    order: &AgentSpec<'_>,
    context: &ProgramContext,
    config: Config,
    store: Store,
    clock: Arc<dyn Clock>,
    output: &Console,
) -> Result<AgentRuntime> {
    let AgentSpec { arguments, platform, surface, .. } = *order;
    let folder = working_folder(context, &config)?;
    let models = model::choose_models(&order.choice, context, config.clone(), surface, &clock, &store)?;
    let of_turn = models.for_turn();
    let remembering = memory_stores(arguments, context, &config);
    let user_home = user_home(&context.env)?;
    let checkpoints = tools::checkpoints(arguments, context, &config, user_home.clone(), &clock);
    let chosen = tools::select_tools(
        &tools::ToolsSpec {
            arguments,
            platform,
            folder: folder.clone(),
            user_home,
            memory_stores: &remembering,
            checkpoints: checkpoints.clone(),
            judge: models.judge(),
            surface,
            command_runtime: order.command_runtime.clone(),
            excluded_toolsets: order.excluded_toolsets,
            message_sender: order.message_sender.clone(),
        },
        context,
        &config,
        (&store, &clock, of_turn.side.clone()),
    );
    let prompt = prompt_source(arguments, platform, folder, context, &config, &remembering, &chosen);
    let agent_settings = AgentSettings::resolve(&config, &context.env, surface);
    let request_options = RequestOptions {
        max_tokens: config
            .int("model.max_tokens")
            .and_then(|tokens| u64::try_from(tokens).ok())
            .filter(|n| *n > 0),
        effort: agent_settings.reasoning_effort.as_deref().and_then(ReasoningEffort::parse),
        ephemeral: agent_settings.ephemeral_prompt,
        prefill: prefill(context, &config, output),
    };
    let agent = Agent::builder(of_turn, store, clock, prompt)
        .tools(chosen.registry.tools().to_vec())
        .calendar(Arc::new(local_time))
        .limits(limits(arguments, context, &config, models.cap))
        .request_options(request_options)
        .compression(compression(context, &config))
        .review_intervals(review_intervals(&config))
        .folders(AgentFolders { results: Some(context.home.join("results")), logs: order.logs.clone() })
        .build();
    Ok(AgentRuntime {
        agent,
        models,
        config,
        checkpoints,
        all_tools: chosen.all,
        command_runtime: chosen.command_runtime,
        notices: chosen.notices,
        unknown_toolsets: chosen.unknown_toolsets,
    })
}

/// Returns the environment of child processes; the variables in `passed` are always included.
pub(crate) fn child_variables(env: &Env, passed: &[String]) -> Variables {
    Variables::for_commands(env.child_variables(passed), passed, &env.withheld_names())
}

/// Returns the resolver for `@` references of messages typed in `folder`.
pub(crate) fn references(
    folder: PathBuf,
    context: &ProgramContext,
    config: &Config,
    clock: Arc<dyn Clock>,
) -> Result<ReferenceResolver> {
    let user_home = user_home(&context.env)?;
    let settings = TerminalSettings::resolve(config, &context.env);
    let sandbox = sandbox::sandbox(&settings, &user_home, context);
    let guard = FileGuard::new(folder, user_home, &context.home);
    let programs = ProgramRunner::new(child_variables(&context.env, &[]), clock);
    Ok(ReferenceResolver::new(guard, programs).with_sandbox(sandbox))
}

/// Returns the working folder of the tools: `terminal.cwd` if it names a folder of this machine, else the folder
/// the program was started in.
pub(crate) fn working_folder(context: &ProgramContext, config: &Config) -> Result<PathBuf> {
    let settings = TerminalSettings::resolve(config, &context.env);
    let named = settings.cwd.filter(|_| settings.backend == "local");
    let named = named.and_then(|cwd| expand_tilde(&cwd, &context.env).ok()).filter(|path| path.is_dir());
    match named {
        Some(folder) => Ok(folder),
        None => std::env::current_dir().context("the working folder is gone"),
    }
}

/// The memory stores that are enabled.
pub(crate) struct MemoryStores {
    pub(crate) notes: Option<MemoryStore>,
    pub(crate) profile: Option<MemoryStore>,
}

fn memory_stores(arguments: &ChatArguments, context: &ProgramContext, config: &Config) -> MemoryStores {
    let settings = MemorySettings::from_config(config);
    let limits = MemoryLimits { memory: settings.memory_char_limit, user: settings.user_char_limit };
    let memory = |on: bool| (on && !arguments.ignore_rules).then(|| MemoryStore::new(&context.home, limits));
    MemoryStores { notes: memory(settings.memory_enabled), profile: memory(settings.user_profile_enabled) }
}

fn prompt_source(
    arguments: &ChatArguments,
    platform: &str,
    folder: PathBuf,
    context: &ProgramContext,
    config: &Config,
    remembering: &MemoryStores,
    tools: &RunTools,
) -> PromptSource {
    // If the home is not writable, the file is not created; the built-in text is the same.
    let _ = create_soul(&context.home);
    let mut source = PromptSource::new(context.home.clone(), folder);
    platform.clone_into(&mut source.platform);
    source.memory.clone_from(&remembering.notes);
    source.user_profile.clone_from(&remembering.profile);
    source.enforcement = enforcement(config);
    source.platform_hint = platform_hint(config, platform);
    source.environment_hint = context
        .env
        .get("HERMES_ENVIRONMENT_HINT")
        .map(str::to_owned)
        .or_else(|| config.non_empty_text("agent.environment_hint"))
        .or_else(|| remote_hint(context, config));
    if arguments.pass_session_id {
        source.session_id = SessionIdLine::Include;
    }
    if arguments.ignore_rules {
        source.files = ContextFiles::Skip;
    } else {
        let mut filter = SkillFilter::from_config(config, platform);
        filter.tools = tools.registry.names().map(str::to_owned).collect();
        filter.toolsets = tools.registry.list_toolsets().into_iter().map(|set| set.name).collect();
        source.skills = SkillSet::load(&context.home, config, &context.env, &filter).index();
    }
    source
}

/// Returns the hint for the model that its commands do not run in the working folder of this machine.
fn remote_hint(context: &ProgramContext, config: &Config) -> Option<String> {
    let settings = TerminalSettings::resolve(config, &context.env);
    (settings.backend != "local").then(|| {
        format!(
            "Commands and file tools work in another place ({}), not in the working folder named above; look around there \
             first.",
            settings.backend
        )
    })
}

fn enforcement(config: &Config) -> ToolUseEnforcement {
    match config.get("agent.tool_use_enforcement") {
        Some(YamlValue::Bool(true)) => ToolUseEnforcement::Always,
        Some(YamlValue::Bool(false)) => ToolUseEnforcement::Never,
        Some(YamlValue::Seq(_)) => ToolUseEnforcement::Names(config.list("agent.tool_use_enforcement")),
        Some(YamlValue::Str(text)) => match text.trim().to_lowercase().as_str() {
            "true" | "always" | "yes" | "on" => ToolUseEnforcement::Always,
            "false" | "never" | "no" | "off" => ToolUseEnforcement::Never,
            _ => announcing_models(),
        },
        _ => announcing_models(),
    }
}

/// Names the models that tend to announce work instead of doing it.
fn announcing_models() -> ToolUseEnforcement {
    const NAMES: [&str; 8] = ["gpt", "codex", "gemini", "gemma", "grok", "glm", "qwen", "deepseek"];
    ToolUseEnforcement::Names(NAMES.map(str::to_owned).to_vec())
}

fn platform_hint(config: &Config, platform: &str) -> HintChange {
    let key = format!("platform_hints.{platform}");
    match config.get(&key) {
        Some(YamlValue::Str(text)) if !text.trim().is_empty() => HintChange::Append(text),
        Some(YamlValue::Map(map)) => {
            let text = |name: &str| map.get(name).and_then(YamlValue::as_str).map(str::to_owned);
            match (text("replace"), text("append")) {
                (Some(text), _) => HintChange::Replace(text),
                (None, Some(text)) => HintChange::Append(text),
                (None, None) => HintChange::None,
            }
        }
        _ => HintChange::None,
    }
}

fn limits(
    arguments: &ChatArguments,
    context: &ProgramContext,
    config: &Config,
    cap: SpendingCap,
) -> TurnLimits {
    let iterations = precedence::max_iterations(config, &context.env, arguments.max_turns);
    let seconds = config.int("agent.turn_time_limit").and_then(|seconds| u64::try_from(seconds).ok());
    let time = match seconds {
        None => TurnLimits::default().time,
        // A year serves as no limit.
        Some(0) => Duration::from_hours(24 * 365),
        Some(seconds) => Duration::from_secs(seconds),
    };
    let budget = BudgetSettings::from_config(config);
    let in_dollars =
        [budget.per_turn_usd, budget.per_day_usd, budget.per_job_usd].iter().any(Option::is_some);
    let unpriced = match (in_dollars, config.flag("budget.strict")) {
        (false, _) => UnknownPricePolicy::Ignore,
        (true, false) => UnknownPricePolicy::Warn,
        (true, true) => UnknownPricePolicy::Refuse,
    };
    TurnLimits {
        iterations: u32::try_from(iterations).unwrap_or(u32::MAX),
        time,
        cap,
        unknown_price: unpriced,
    }
}

fn compression(context: &ProgramContext, config: &Config) -> Compression {
    let settings = CompressionSettings::resolve(config, &context.env);
    let usual = Compression::default();
    Compression {
        mode: if settings.enabled { CompressionMode::On } else { CompressionMode::Off },
        threshold: settings.threshold,
        target_ratio: settings.target_ratio,
        protect_last: settings.protect_last_n,
        protect_first: config
            .int("compression.protect_first_n")
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(usual.protect_first),
    }
}

fn review_intervals(config: &Config) -> ReviewIntervals {
    let settings = MemorySettings::from_config(config);
    ReviewIntervals {
        memory_every: settings.nudge_interval,
        skills_every: config.count("skills.creation_nudge_interval"),
        flush_after: settings.flush_min_turns,
    }
}

/// Reads the messages every conversation begins with; unreadable ones are reported and left out.
fn prefill(context: &ProgramContext, config: &Config, output: &Console) -> Vec<Message> {
    let Some(path) = precedence::prefill_file(config, &context.env, &context.home) else { return Vec::new() };
    let read = std::fs::read(&path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    match read {
        Ok(messages) => messages,
        Err(error) => {
            output.notice(&format!("note: {} is not used as prefill: {error}", path.display()));
            Vec::new()
        }
    }
}
