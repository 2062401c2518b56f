//! The ports through which the gateway uses the program around it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Agent;
pub use hermes_schedule::ScriptLanguage;
use hermes_store::WaitingMessage;
use hermes_types::{BoxFuture, ChannelCapabilities, TaskId, ToolUser};
use serde_json::Value;

/// Creates the agents that run turns. Called before each turn, because the configuration may have changed.
pub trait AgentProvider: Send + Sync {
    /// Returns the agent, or a message for the user that says why there is none.
    fn agent(&self, wish: &AgentRequest<'_>) -> Result<Agent, String>;

    /// Sets the working folder of a task's tools.
    fn set_working_folder(&self, task: &TaskId, folder: &Path) {
        let _ = (task, folder);
    }
}

/// The properties a turn needs of its agent.
#[derive(Debug, Clone, Default)]
pub struct AgentRequest<'a> {
    pub platform: &'a str,
    /// A description of the chat, for the system text.
    pub context: Option<String>,
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

/// The program's services: commands that are not about one conversation, skills, platforms, processes and files.
pub trait Services: Send + Sync {
    /// Runs a command. Returns `None` when the program has no such command.
    fn command<'a>(
        &'a self,
        name: &'a str,
        rest: &'a str,
        from: &'a WaitingMessage,
    ) -> BoxFuture<'a, Option<String>> {
        let _ = (name, rest, from);
        Box::pin(std::future::ready(None))
    }

    /// Returns the prompt for a skill called by name, or `None` when there is no such skill.
    fn skill(&self, name: &str, rest: &str) -> Option<String> {
        let _ = (name, rest);
        None
    }

    /// Returns the names of the skills that can be called, with a description of each.
    fn skills(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the capabilities of a platform, also while it is not connected, or `None` when there is no such
    /// platform.
    fn abilities(&self, platform: &str) -> Option<ChannelCapabilities> {
        let _ = platform;
        None
    }

    /// Tells whether the user has set up a platform, connected or not.
    fn is_set_up(&self, platform: &str) -> bool {
        let _ = platform;
        false
    }

    /// Tells whether a background process of a conversation still runs.
    fn has_running_process(&self, task: &TaskId) -> bool {
        let _ = task;
        false
    }

    /// Runs a user's own shell command and returns its output.
    fn shell<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Result<String, String>> {
        let _ = command;
        Box::pin(std::future::ready(Err("commands cannot be run here".to_owned())))
    }

    /// Runs a program without a shell and returns its output.
    fn program<'a>(&'a self, argv: &'a [&'a str]) -> BoxFuture<'a, Result<String, String>> {
        let _ = argv;
        Box::pin(std::future::ready(Err("programs cannot be run here".to_owned())))
    }

    /// Runs a script of a job, without secrets in its environment.
    fn script<'a>(&'a self, order: JobScriptRequest<'a>) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        let _ = order;
        Box::pin(std::future::ready(Err("scripts cannot be run here".to_owned())))
    }

    /// Expands the references in a message; returns `None` when it has none. An error is for the user, and the
    /// message is not processed further.
    fn expand_references<'a>(
        &'a self,
        words: &'a str,
        window: u64,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        let _ = (words, window);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Describes a file that came with a message: a transcript, a description.
    fn describe_file<'a>(&'a self, file: &'a hermes_types::Attachment) -> BoxFuture<'a, Option<String>> {
        let _ = file;
        Box::pin(std::future::ready(None))
    }
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

/// Services of a program that offers none.
#[derive(Debug, Clone, Copy)]
pub struct NoServices;

impl Services for NoServices {}

/// All ports of a gateway.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct GatewayPorts {
    pub agents: Arc<dyn AgentProvider>,
    pub services: Arc<dyn Services>,
    pub observer: Arc<dyn EventObserver>,
}
