//! The agent of a terminal chat, which can change between two turns.

use std::sync::Arc;

use anyhow::Result;
use hermes_agent::{Agent, RequestOptions, SessionLogMode};
use hermes_config::{Config, Env};
use hermes_gateway::{LiveSettings, process};
use hermes_store::Store;
use hermes_task::SystemClock;
use hermes_tools::{CheckpointManager, ProcessNotice, ToolRegistry};
use hermes_types::{Clock, MessageSender};
use tokio::sync::mpsc::UnboundedReceiver;

use super::CommandRuntime;
use super::agent_factory::{AgentFactory, BuiltAgent};
use super::agent_spec::{AgentSpec, RuntimeSpec};
use super::message_sender::SandboxFilePolicy;
use super::model::{ModelSet, choose_models};
use super::program_runtime::{ProgramConfig, ProgramRuntime};
use super::temporary_delivery::OutboxMessageSender;
use crate::cli::ChatArguments;
use crate::context::ProgramContext;
use crate::output::Console;

/// An agent, with the services its frontend needs.
pub(crate) struct AgentRuntime {
    pub(crate) agent: Agent,
    pub(crate) config: Config,
    /// The notices of background processes.
    pub(crate) notices: UnboundedReceiver<ProcessNotice>,
    pub(crate) command_runtime: CommandRuntime,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
    /// Every available tool, selected for this run or not.
    pub(crate) all_tools: ToolRegistry,
    /// The requested toolsets that do not exist.
    pub(crate) unknown_toolsets: Vec<String>,
    factory: AgentFactory,
    models: ModelSet,
}

impl AgentRuntime {
    /// Builds the agent of a run. Opens the store, and makes no network request.
    pub(crate) fn open(
        arguments: &ChatArguments,
        platform: &str,
        context: &ProgramContext,
        output: &Console,
    ) -> Result<Self> {
        let config = context.usable_config(output)?;
        let store = context.store(output)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (runtime_spec, spec) =
            (RuntimeSpec::from_arguments(arguments), AgentSpec::from_arguments(arguments, platform));
        let from = ProgramConfig { context, config: &config };
        let models = choose_models(&spec.provider_choice(), from, runtime_spec.surface, &clock, &store)?;
        let sender = chat_message_sender(from, &store, &clock)?;
        let (runtime, notices) =
            ProgramRuntime::open(runtime_spec, from, store, clock, sender, models.judge())?;
        let logs = SessionLogMode::Immediate(context.home.join("sessions"));
        let factory = AgentFactory::new(runtime, logs);
        let BuiltAgent { agent, models, checkpoints, all_tools, unknown_toolsets } =
            factory.build_with(models, &spec, from)?;
        for note in &models.notes {
            output.notice(&format!("note: {note}"));
        }
        let command_runtime = factory.runtime.command_runtime.clone();
        Ok(Self {
            agent,
            config,
            notices,
            command_runtime,
            checkpoints,
            all_tools,
            unknown_toolsets,
            factory,
            models,
        })
    }

    /// Resets the budget of a turn; called before each further turn.
    pub(crate) fn renew_budget(&mut self) {
        self.agent = self.models.renew_budget(self.agent.clone());
    }

    /// Switches to the model the configuration names now; the conversation continues with it.
    pub(crate) fn change_model(&mut self, context: &ProgramContext) -> Result<()> {
        let config = Config::load(&context.home, &context.env);
        config.require_usable(&context.env)?;
        let from = ProgramConfig { context, config: &config };
        self.models = self.factory.models(&AgentSpec::for_platform("cli"), from)?;
        self.config = config;
        self.renew_budget();
        Ok(())
    }

    /// Changes the options of all further requests.
    pub(crate) fn set_request_options(&mut self, options: RequestOptions) {
        self.agent = self.agent.clone().into_builder().request_options(options).build();
    }
}

/// Returns a sender with which a terminal chat can write to other chats while a gateway runs for its home.
fn chat_message_sender(
    from: ProgramConfig<'_>,
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<dyn MessageSender>>> {
    let ProgramConfig { context, config } = from;
    if process::running_pid(&context.home).is_none() {
        return Ok(None);
    }
    let live = LiveSettings::new(context.home.clone(), Env::process(), context.home.path().to_owned());
    let files = Arc::new(SandboxFilePolicy::new(context, config)?);
    Ok(Some(Arc::new(OutboxMessageSender::new(live, store.clone(), clock.clone(), files))))
}
