//! The commands of chats and the terminal that are about the program: one body per command, in a module of its name.
//!
//! A body gets values and returns a reply. The places where commands are typed fill in the values, show the text and
//! apply the change to what runs there. The table of all commands is in `hermes_gateway::slash`.

mod agents;
mod browser;
mod debug;
mod fast;
mod insights;
mod memory;
mod model;
mod personality;
mod platforms;
mod profile;
mod provider;
mod reasoning;
mod reload;
mod reload_mcp;
mod reload_skills;
mod rollback;
mod verbose;
mod yolo;

use std::path::PathBuf;
use std::sync::Arc;

use hermes_browser::BrowserPool;
use hermes_config::settings::ToolProgress;
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, ManagedMode, set};
use hermes_gateway::slash::{CommandSurface, ProgramCommand, ReplyText};
use hermes_knowledge::ChatIdentity;
use hermes_plugins::PluginHost;
use hermes_store::Store;
use hermes_tools::{CheckpointManager, ProcessRegistry, Yolo};
use hermes_types::{ReasoningEffort, Timestamp};

use crate::cli;
use crate::command::plugins::describe_loaded;
use crate::command::{bundles, curator};
use crate::context::ProgramContext;
use crate::wiring::mcp::McpRuntime;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::web::browser_options;

pub(crate) use agents::describe as describe_work;
pub(crate) use browser::describe as describe_browser;
pub(crate) use yolo::YoloScope;

/// What a command needs to know about the place where it was typed.
pub(crate) struct CommandInput<'a> {
    pub(crate) arguments: &'a str,
    pub(crate) context: ProgramContext,
    pub(crate) config: Config,
    pub(crate) store: &'a Store,
    pub(crate) now: Timestamp,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
    /// The folder whose checkpoints are meant.
    pub(crate) folder: PathBuf,
    pub(crate) effort: Option<ReasoningEffort>,
    /// How much of tool calls is shown; `None` where that cannot be changed by a command.
    pub(crate) tool_progress: Option<ToolProgress>,
    pub(crate) mcp: McpRuntime,
    pub(crate) plugins: PluginHost,
    pub(crate) processes: ProcessRegistry,
    pub(crate) browsers: BrowserPool,
    /// The account that typed the command; `None` for the owner at this machine.
    pub(crate) account: Option<ChatIdentity>,
    /// Whether nobody else reads the reply.
    pub(crate) is_private: bool,
    /// Descriptions of the prompts that run in the background.
    pub(crate) background: Vec<String>,
    pub(crate) surface: CommandSurface,
    /// Whether dangerous commands run without approval.
    pub(crate) yolo: Yolo,
    pub(crate) yolo_scope: YoloScope,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandReply {
    pub(crate) text: ReplyText,
    /// What changes for the conversation the command was typed in.
    pub(crate) change: Option<SessionChange>,
    /// The reason why a setting was not saved.
    pub(crate) not_saved: Option<String>,
}

impl CommandReply {
    fn text(text: impl Into<String>) -> Self {
        Self { text: ReplyText::Plain(text.into()), change: None, not_saved: None }
    }

    fn emphasized(text: String) -> Self {
        Self { text: ReplyText::Emphasized(text), change: None, not_saved: None }
    }

    fn changing(self, change: SessionChange) -> Self {
        Self { change: Some(change), ..self }
    }

    fn saved(self, saved: hermes_config::Result<()>) -> Self {
        Self { not_saved: saved.err().map(|error| error.to_string()), ..self }
    }
}

/// A change that a conversation in memory has to follow. Conversations that read the settings anew do not need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionChange {
    /// Another model was chosen.
    Model,
    SystemPrompt(Option<String>),
    Effort(ReasoningEffort),
    ShowReasoning(bool),
    ToolProgress(ToolProgress),
    Yolo(Yolo),
    /// The settings were read again.
    Settings,
    /// The skills were read again.
    Skills,
    /// All files of the last exchange were restored, so it is taken back.
    FilesRestored,
}

/// Runs a command. Never fails: an error becomes the text.
pub(crate) async fn run(command: ProgramCommand, input: CommandInput<'_>) -> CommandReply {
    let arguments = input.arguments;
    match command {
        ProgramCommand::Rollback => rollback::run(input.checkpoints.as_deref(), &input.folder, arguments),
        ProgramCommand::Yolo => yolo::run(arguments, input.yolo, input.yolo_scope),
        ProgramCommand::Model => model::run(arguments, input.context, input.config).await,
        ProgramCommand::Personality => personality::run(arguments, &input.context, &input.config),
        ProgramCommand::Reasoning => reasoning::run(arguments, input.effort, &input.context),
        ProgramCommand::Verbose => verbose::run(input.tool_progress, &input.context),
        ProgramCommand::Insights => insights::run(arguments, input.store, input.now),
        ProgramCommand::Provider => provider::run(&input.context, input.config),
        ProgramCommand::ReloadMcp => reload_mcp::run(&input.mcp, &input.context).await,
        ProgramCommand::Plugins => CommandReply::text(describe_loaded(&input.plugins.plugins())),
        ProgramCommand::Browser => {
            let from = ProgramConfig { context: &input.context, config: &input.config };
            let options = browser_options(input.browsers.clock(), from);
            Box::pin(browser::run(arguments, &input.browsers, &options)).await
        }
        ProgramCommand::Curator => {
            CommandReply::text(curator::run_line(arguments, &input.context).trim_end())
        }
        ProgramCommand::Bundles => {
            CommandReply::text(bundles::run_line(arguments, &input.context).trim_end())
        }
        ProgramCommand::Agents => agents::run(input.background, &input.processes, input.now),
        ProgramCommand::Profile => profile::run(&input.context),
        ProgramCommand::Platforms => platforms::run(&input.context, &input.config),
        ProgramCommand::Reload => reload::run(&input.context),
        ProgramCommand::ReloadSkills => reload_skills::run(&input.context, &input.config, input.surface),
        ProgramCommand::Fast => fast::run(arguments, &input.context, &input.config),
        ProgramCommand::Debug => debug::run(&input.context).await,
        ProgramCommand::Memory => memory::run(arguments, &input),
        ProgramCommand::Forget => memory::forget(arguments, &input),
        ProgramCommand::Version => CommandReply::text(cli::version()),
    }
}

/// Writes one key of config.yaml and leaves the rest unchanged.
pub(crate) fn save_setting(
    context: &ProgramContext,
    dotted: &str,
    value: YamlValue,
) -> hermes_config::Result<()> {
    let Some(path) = KeyPath::parse(dotted) else { return Ok(()) };
    let management = ManagedMode::detect(&context.home, &context.env);
    set::update_value(&context.home, management, &path, |_| Some(value))
}
