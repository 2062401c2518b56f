//! What the gateway asks of the program around it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Agent;
pub use hermes_schedule::ScriptLanguage;
use hermes_store::WaitingMessage;
use hermes_types::{BoxFuture, ChannelCapabilities, TaskId};
use serde_json::Value;

/// Who runs the turns. Asked before each, because the configuration may have changed since the last.
pub trait AgentProvider: Send + Sync {
    /// The agent, or why there is none, in words for the user.
    fn agent(&self, wish: &AgentRequest<'_>) -> Result<Agent, String>;

    /// Puts the tools of a piece of work into a folder.
    fn set_working_folder(&self, task: &TaskId, folder: &Path) {
        let _ = (task, folder);
    }
}

/// What a turn needs of its agent.
#[derive(Debug, Clone, Default)]
pub struct AgentRequest<'a> {
    pub platform: &'a str,
    /// Where the conversation takes place, for the system text.
    pub context: Option<String>,
    /// Toolsets this turn goes without.
    pub excluded_toolsets: &'a [&'a str],
    /// Another model than the configured one.
    pub model: Option<&'a str>,
    pub provider: Option<&'a str>,
    pub base_url: Option<&'a str>,
    /// These toolsets instead of the platform's.
    pub toolsets: Option<&'a [String]>,
}

/// A script of the user's own that a job begins with.
#[derive(Debug, Clone, Copy)]
pub struct JobScriptRequest<'a> {
    pub file: &'a Path,
    pub language: ScriptLanguage,
    pub directory: &'a Path,
    pub limit: Duration,
}

/// What a script came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobScriptOutcome {
    pub stdout: String,
    pub stderr: String,
    /// Nothing, when its time was up.
    pub code: Option<i32>,
}

/// Commands that are not about one conversation, and what else the program knows.
pub trait Services: Send + Sync {
    /// Runs a command. Nothing, when it is none of the program's.
    fn command<'a>(
        &'a self,
        name: &'a str,
        rest: &'a str,
        from: &'a WaitingMessage,
    ) -> BoxFuture<'a, Option<String>> {
        let _ = (name, rest, from);
        Box::pin(std::future::ready(None))
    }

    /// What the model is told when a skill is called by its name. Nothing, when there is no such skill.
    fn skill(&self, name: &str, rest: &str) -> Option<String> {
        let _ = (name, rest);
        None
    }

    /// Names of skills that can be called, with a word about each.
    fn skills(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// What a platform can do, also while it is not connected. Nothing, when there is no such platform.
    fn abilities(&self, platform: &str) -> Option<ChannelCapabilities> {
        let _ = platform;
        None
    }

    /// Whether the user has set a platform up, connected or not.
    fn is_set_up(&self, platform: &str) -> bool {
        let _ = platform;
        false
    }

    /// Returns whether something a conversation started in the background still runs.
    fn has_running_process(&self, task: &TaskId) -> bool {
        let _ = task;
        false
    }

    /// Runs a shell command of the user's own and gives its output.
    fn shell<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Result<String, String>> {
        let _ = command;
        Box::pin(std::future::ready(Err("commands cannot be run here".to_owned())))
    }

    /// Runs a program, without a shell, and gives its output.
    fn program<'a>(&'a self, argv: &'a [&'a str]) -> BoxFuture<'a, Result<String, String>> {
        let _ = argv;
        Box::pin(std::future::ready(Err("programs cannot be run here".to_owned())))
    }

    /// Runs a script of a job, without secrets in its environment.
    fn script<'a>(&'a self, order: JobScriptRequest<'a>) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        let _ = order;
        Box::pin(std::future::ready(Err("scripts cannot be run here".to_owned())))
    }

    /// The words of a message with what they point at; nothing, when they point at nothing. An error is for the user, and
    /// the message goes no further.
    fn expand_references<'a>(
        &'a self,
        words: &'a str,
        window: u64,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        let _ = (words, window);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// What a file that came with a message says: a transcript, a description.
    fn describe_file<'a>(&'a self, file: &'a hermes_types::Attachment) -> BoxFuture<'a, Option<String>> {
        let _ = file;
        Box::pin(std::future::ready(None))
    }
}

/// Tells others what happens. Must not block; what they do about it is their business.
pub trait EventObserver: Send + Sync {
    fn emit(&self, event: &str, context: Value);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy)]
pub struct NoObserver;

impl EventObserver for NoObserver {
    fn emit(&self, _: &str, _: Value) {}
}

/// The program offers nothing more.
#[derive(Debug, Clone, Copy)]
pub struct NoServices;

impl Services for NoServices {}

/// All of them.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct GatewayPorts {
    pub agents: Arc<dyn AgentProvider>,
    pub services: Arc<dyn Services>,
    pub observer: Arc<dyn EventObserver>,
}
