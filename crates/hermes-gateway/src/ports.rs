//! The ports through which the gateway uses the program around it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Agent;
pub use hermes_schedule::ScriptLanguage;
use hermes_store::WaitingMessage;
use hermes_types::{
    Attachment, BoxFuture, Cancel, ChannelCapabilities, Envelope, SessionId, TaskId, ToolUser,
};
use serde_json::Value;

use crate::session::ConversationSharing;
use crate::slash::{ProgramCommand, ServiceCommand};

/// Creates the agents that run turns. Called before each turn, because the configuration may have changed.
pub trait AgentProvider: Send + Sync {
    /// Returns the agent, or a message for the user that says why there is none.
    fn agent(&self, wish: &AgentRequest<'_>) -> Result<Agent, String>;

    /// Sets the working folder of a task's tools.
    fn set_working_folder(&self, task: &TaskId, folder: &Path) {
        let _ = (task, folder);
    }

    /// Passes variables to the commands and scripts of a task.
    fn pass_variables(&self, task: &TaskId, variables: Vec<(&'static str, String)>) {
        let _ = (task, variables);
    }
}

/// The account of a person on a platform, and who hears what is said to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatAccount<'a> {
    pub platform: &'a str,
    /// Absent where the platform does not say who speaks.
    pub user_id: Option<&'a str>,
    /// The chat that the person speaks in; absent where there is none, as in a job.
    pub chat_id: Option<&'a str>,
    /// Whether nobody else reads the answers.
    pub is_private: bool,
    /// Whether others speak in the same conversation.
    pub sharing: ConversationSharing,
}

/// The properties a turn needs of its agent.
#[derive(Debug, Clone, Default)]
pub struct AgentRequest<'a> {
    pub platform: &'a str,
    /// A description of the chat, for the system text.
    pub context: Option<String>,
    /// The account on whose behalf the agent works; absent for the owner of the home.
    pub account: Option<ChatAccount<'a>>,
    /// The kind of conversation, where it does not get every tool of its platform.
    pub tool_user: Option<ToolUser>,
    /// A model other than the configured one.
    pub model: Option<&'a str>,
    pub provider: Option<&'a str>,
    pub base_url: Option<&'a str>,
    /// The toolsets to use instead of the platform's.
    pub toolsets: Option<&'a [String]>,
}

/// A user's script that a job starts with.
#[derive(Debug, Clone, Copy)]
pub struct JobScriptRequest<'a> {
    pub file: &'a Path,
    pub language: ScriptLanguage,
    pub directory: &'a Path,
    pub limit: Duration,
}

/// The result of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobScriptOutcome {
    pub stdout: String,
    pub stderr: String,
    /// The exit code; `None` when the script timed out.
    pub code: Option<i32>,
}

/// The commands of chats that are about the whole program and not about one conversation.
pub trait ProgramCommands: Send + Sync {
    /// Runs a command that the terminal has, too.
    fn run<'a>(
        &'a self,
        command: ProgramCommand,
        arguments: &'a str,
        from: &'a WaitingMessage,
    ) -> BoxFuture<'a, String>;

    /// Runs a command about the service.
    fn run_service<'a>(
        &'a self,
        command: ServiceCommand,
        arguments: &'a str,
        from: &'a WaitingMessage,
    ) -> BoxFuture<'a, String>;

    /// Returns the names of commands that plugins added to chats, with a description of each.
    fn plugin_commands(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Runs a command of a plugin; `None` if there is no such command.
    fn run_plugin_command<'a>(&'a self, name: &'a str, arguments: &'a str) -> BoxFuture<'a, Option<String>> {
        let _ = (name, arguments);
        Box::pin(std::future::ready(None))
    }
}

/// The skills a user can call by name.
pub trait SkillPrompts: Send + Sync {
    /// Returns the prompt for a skill, or `None` when there is no such skill.
    fn prompt(&self, name: &str, request: &str) -> Option<String>;

    /// Returns the names of the skills, with a description of each.
    fn list(&self) -> Vec<(String, String)>;
}

/// The platforms this program can connect to.
pub trait PlatformCatalog: Send + Sync {
    /// Returns the capabilities of a platform, also while it is not connected, or `None` when there is no such
    /// platform.
    fn abilities(&self, platform: &str) -> Option<ChannelCapabilities>;

    /// Tells whether the user has set up a platform, connected or not.
    fn is_set_up(&self, platform: &str) -> bool;
}

/// The background processes of conversations.
pub trait ProcessInfo: Send + Sync {
    /// Tells whether a background process of a conversation still runs.
    fn has_running_process(&self, task: &TaskId) -> bool;
}

/// Runs programs of this machine for the user.
pub trait HelperPrograms: Send + Sync {
    /// Runs a user's own shell command and returns its output.
    fn shell<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Result<String, String>>;

    /// Runs a program without a shell and returns its output.
    fn program<'a>(&'a self, argv: &'a [&'a str]) -> BoxFuture<'a, Result<String, String>>;

    /// Runs a script of a job, without secrets in its environment.
    fn script<'a>(&'a self, request: JobScriptRequest<'a>)
    -> BoxFuture<'a, Result<JobScriptOutcome, String>>;

    /// Runs a script in `scripts/` of the home with an event as its input, without secrets in its environment.
    fn event_script<'a>(
        &'a self,
        name: &'a str,
        event: &'a str,
    ) -> BoxFuture<'a, Result<JobScriptOutcome, String>>;
}

/// Adds to a message what it refers to and what came with it.
pub trait MessageExpansion: Send + Sync {
    /// Expands the references in a message; returns `None` when it has none. An error is for the user, and the
    /// message is not processed further.
    fn expand_references<'a>(
        &'a self,
        text: &'a str,
        window: u64,
    ) -> BoxFuture<'a, Result<Option<String>, String>>;

    /// Reads a file that came with a message: its text, a transcript, a description, or the picture itself.
    fn read_attachment<'a>(&'a self, request: AttachmentRequest<'a>) -> BoxFuture<'a, AttachmentContent>;

    /// Speaks an answer, if its chat wants that. Returns the lines that send the recording with the answer.
    fn speak_answer<'a>(&'a self, answer: AnswerToSpeak<'a>) -> BoxFuture<'a, Option<String>> {
        let _ = answer;
        Box::pin(std::future::ready(None))
    }
}

/// An answer that may be spoken.
#[derive(Debug, Clone, Copy)]
pub struct AnswerToSpeak<'a> {
    /// The last message it answers.
    pub question: &'a Envelope,
    /// Tells whether a voice message is among what it answers.
    pub answers_voice: bool,
    pub text: &'a str,
    pub cancel: &'a Cancel,
}

/// A file that came with a message, and who is going to read it.
#[derive(Debug, Clone, Copy)]
pub struct AttachmentRequest<'a> {
    pub file: &'a Attachment,
    /// The name of the model that answers the message.
    pub model: &'a str,
    pub session: &'a SessionId,
    pub cancel: &'a Cancel,
}

/// What a model can read of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachmentContent {
    /// Nothing but its path.
    PathOnly,
    /// Nothing but its path, for this reason.
    Unreadable(String),
    Text(String),
    /// The picture, as a data URL.
    Picture(String),
}

/// Decides which files may be sent to chats, in addition to the folders that are never sent from.
pub trait FileSendPolicy: Send + Sync {
    /// Tells whether a file is refused; the path has its links resolved.
    fn refuses(&self, path: &Path) -> bool;
}

/// Receives the gateway's events. Must not block; errors in handling them do not concern the gateway.
pub trait EventObserver: Send + Sync {
    fn emit(&self, event: &str, context: Value);
}

/// An observer that ignores all events.
#[derive(Debug, Clone, Copy)]
pub struct NoObserver;

impl EventObserver for NoObserver {
    fn emit(&self, _: &str, _: Value) {}
}

/// Stands for every service a program does not offer: it runs and finds nothing, and refuses no file.
#[derive(Debug, Clone, Copy)]
pub struct NoServices;

impl ProgramCommands for NoServices {
    fn run<'a>(&'a self, _: ProgramCommand, _: &'a str, _: &'a WaitingMessage) -> BoxFuture<'a, String> {
        Box::pin(std::future::ready("This command is not available here.".to_owned()))
    }

    fn run_service<'a>(
        &'a self,
        _: ServiceCommand,
        _: &'a str,
        _: &'a WaitingMessage,
    ) -> BoxFuture<'a, String> {
        Box::pin(std::future::ready("This command is not available here.".to_owned()))
    }
}

impl SkillPrompts for NoServices {
    fn prompt(&self, _: &str, _: &str) -> Option<String> {
        None
    }

    fn list(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl PlatformCatalog for NoServices {
    fn abilities(&self, _: &str) -> Option<ChannelCapabilities> {
        None
    }

    fn is_set_up(&self, _: &str) -> bool {
        false
    }
}

impl ProcessInfo for NoServices {
    fn has_running_process(&self, _: &TaskId) -> bool {
        false
    }
}

impl HelperPrograms for NoServices {
    fn shell<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::ready(Err("commands cannot be run here".to_owned())))
    }

    fn program<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::ready(Err("programs cannot be run here".to_owned())))
    }

    fn script<'a>(&'a self, _: JobScriptRequest<'a>) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        Box::pin(std::future::ready(Err("scripts cannot be run here".to_owned())))
    }

    fn event_script<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        Box::pin(std::future::ready(Err("scripts cannot be run here".to_owned())))
    }
}

impl MessageExpansion for NoServices {
    fn expand_references<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn read_attachment<'a>(&'a self, _: AttachmentRequest<'a>) -> BoxFuture<'a, AttachmentContent> {
        Box::pin(std::future::ready(AttachmentContent::PathOnly))
    }
}

impl FileSendPolicy for NoServices {
    fn refuses(&self, _: &Path) -> bool {
        false
    }
}

/// The ports of a gateway.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct GatewayPorts {
    pub agents: Arc<dyn AgentProvider>,
    pub commands: Arc<dyn ProgramCommands>,
    pub skills: Arc<dyn SkillPrompts>,
    pub processes: Arc<dyn ProcessInfo>,
    pub programs: Arc<dyn HelperPrograms>,
    pub expansion: Arc<dyn MessageExpansion>,
    pub observer: Arc<dyn EventObserver>,
}

impl GatewayPorts {
    /// Returns ports with agents and no services.
    pub fn new(agents: Arc<dyn AgentProvider>) -> Self {
        let none = Arc::new(NoServices);
        Self {
            agents,
            commands: none.clone(),
            skills: none.clone(),
            processes: none.clone(),
            programs: none.clone(),
            expansion: none,
            observer: Arc::new(NoObserver),
        }
    }
}
