//! The agent of a terminal chat, which can change between two turns.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use hermes_agent::{Agent, ContextFiles, RequestOptions, SessionLogMode};
use hermes_config::settings::McpServer;
use hermes_config::{Config, Env};
use hermes_exec::release_program_pages;
use hermes_gateway::{LiveSettings, process};
use hermes_store::Store;
use hermes_task::SystemClock;
use hermes_tools::{CheckpointManager, ProcessNotice, ToolRegistry};
use hermes_types::{Clock, MessageSender};
use tokio::sync::mpsc::UnboundedReceiver;

use super::CommandRuntime;
use super::agent_factory::{AgentFactory, BuiltAgent};
use super::agent_spec::{AgentSpec, RuntimeSpec};
use super::extensions::Extensions;
use super::mcp::{self, McpRuntime};
use super::message_sender::SandboxFilePolicy;
use super::model::{ModelSet, choose_models};
use super::program_runtime::{ProgramConfig, ProgramRuntime};
use super::temporary_delivery::OutboxMessageSender;
use super::tools;
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
    /// The names of the skills that are in force for the whole session.
    pub(crate) preloaded_skills: Vec<String>,
    factory: AgentFactory,
    models: ModelSet,
    spec: AgentSpec,
    /// The state of the connections to MCP servers that the tools follow.
    mcp_revision: u64,
    /// What the user was told about the servers last.
    mcp_notices: Vec<String>,
    /// The entries of `mcp_servers` that the connections follow.
    mcp_servers: Vec<McpServer>,
    /// When config.yaml was last seen to change.
    config_modified: Option<SystemTime>,
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
        // A turn needs other code than the start.
        release_program_pages();
        Ok(Self {
            agent,
            config,
            notices,
            command_runtime,
            checkpoints,
            all_tools,
            unknown_toolsets,
            preloaded_skills: Vec::new(),
            factory,
            models,
            spec,
            mcp_revision: 0,
            mcp_notices: Vec::new(),
            mcp_servers: Vec::new(),
            config_modified: None,
        })
    }

    /// Loads the plugins, and begins to connect the MCP servers. Must be called within a runtime.
    pub(crate) async fn start_servers(&mut self, context: &ProgramContext) {
        let plugins = self.extensions().plugins.clone();
        if plugins.has_plugins() {
            plugins.load().await;
            let from = ProgramConfig { context, config: &self.config };
            let runtime = &self.factory.runtime;
            let tools = tools::with_plugins(runtime, &self.spec, self.agent.tools(), &self.all_tools, from);
            self.agent = self.agent.clone().into_builder().tools(tools.registry.tools().to_vec()).build();
            (self.all_tools, self.unknown_toolsets) = (tools.all, tools.unknown_toolsets);
        }
        self.connect_servers(context);
    }

    fn connect_servers(&mut self, context: &ProgramContext) {
        self.mcp_servers = McpServer::all(&self.config);
        self.config_modified = std::fs::metadata(context.home.config()).and_then(|file| file.modified()).ok();
        self.factory.runtime.mcp.follow(ProgramConfig { context, config: &self.config });
    }

    /// Waits a little for MCP servers that are being connected, and takes up the tools they have now. Returns notices
    /// for the user.
    pub(crate) async fn take_up_servers(&mut self, context: &ProgramContext, wait: Duration) -> Vec<String> {
        let mcp = self.factory.runtime.mcp.clone();
        self.follow_servers(context);
        mcp.wait_until_settled(wait).await;
        let revision = mcp.revision();
        if revision == self.mcp_revision {
            return Vec::new();
        }
        self.mcp_revision = revision;
        let from = ProgramConfig { context, config: &self.config };
        let (runtime, agent) = (&self.factory.runtime, &self.agent);
        let tools = tools::with_present_servers(runtime, &self.spec, agent.tools(), &self.all_tools, from);
        self.agent = self.agent.clone().into_builder().tools(tools.registry.tools().to_vec()).build();
        self.all_tools = tools.all;
        let notices = mcp.notices();
        let is_new = |notice: &&String| !self.mcp_notices.contains(*notice);
        let shown = notices.iter().filter(is_new).cloned().collect();
        self.mcp_notices = notices;
        shown
    }

    /// Follows a change of `mcp_servers` in the file.
    fn follow_servers(&mut self, context: &ProgramContext) {
        if !self.config.flag("mcp.auto_reload_on_config_change") {
            return;
        }
        let modified = std::fs::metadata(context.home.config()).and_then(|file| file.modified()).ok();
        if std::mem::replace(&mut self.config_modified, modified) == modified {
            return;
        }
        let config = Config::load(&context.home, &context.env);
        let servers = McpServer::all(&config);
        // A file that cannot be used changes nothing.
        if servers != self.mcp_servers && config.require_usable(&context.env).is_ok() {
            self.factory.runtime.mcp.follow(ProgramConfig { context, config: &config });
            self.mcp_servers = servers;
        }
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        &self.factory.runtime.extensions
    }

    /// Tells whether context files, memory and skills are used.
    pub(crate) fn loads_rules(&self) -> bool {
        self.spec.rules == ContextFiles::Load
    }

    pub(crate) fn mcp(&self) -> &McpRuntime {
        &self.factory.runtime.mcp
    }

    /// Returns how long the first message waits for MCP servers.
    pub(crate) fn discovery_timeout(&self, context: &ProgramContext) -> Duration {
        mcp::discovery_timeout(ProgramConfig { context, config: &self.config })
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

    /// Adds texts to the system prompt of every request; they are not stored with the session.
    pub(crate) fn add_system_text(&mut self, texts: Vec<String>) {
        if texts.is_empty() {
            return;
        }
        let options = self.agent.request_options().clone();
        let all: Vec<String> = options.ephemeral.iter().cloned().chain(texts).collect();
        self.set_request_options(RequestOptions { ephemeral: Some(all.join("\n\n")), ..options });
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
