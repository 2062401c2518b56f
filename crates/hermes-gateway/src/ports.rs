//! What the gateway asks of the program around it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Agent;
pub use hermes_schedule::Language;
use hermes_store::Waiting;
use hermes_types::{Abilities, BoxFuture, TaskId};
use serde_json::Value;

/// Who runs the turns. Asked before each, because the configuration may have changed since the last.
pub trait Agents: Send + Sync {
    /// The agent, or why there is none, in words for the user.
    fn agent(&self, wish: &Wish<'_>) -> Result<Agent, String>;

    /// Puts the tools of a piece of work into a folder.
    fn place(&self, task: &TaskId, folder: &Path) {
        let _ = (task, folder);
    }
}

/// What a turn needs of its agent.
#[derive(Debug, Clone, Default)]
pub struct Wish<'a> {
    pub platform: &'a str,
    /// Where the conversation takes place, for the system text.
    pub context: Option<String>,
    /// Toolsets this turn goes without.
    pub without: &'a [&'a str],
    /// Another model than the configured one.
    pub model: Option<&'a str>,
    pub provider: Option<&'a str>,
    pub base_url: Option<&'a str>,
    /// These toolsets instead of the platform's.
    pub toolsets: Option<&'a [String]>,
}

/// A script of the user's own that a job begins with.
#[derive(Debug, Clone, Copy)]
pub struct ScriptOrder<'a> {
    pub file: &'a Path,
    pub language: Language,
    pub directory: &'a Path,
    pub limit: Duration,
}

/// What a script came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptEnd {
    pub output: String,
    pub complaints: String,
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
        from: &'a Waiting,
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
    fn abilities(&self, platform: &str) -> Option<Abilities> {
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
    fn script<'a>(&'a self, order: ScriptOrder<'a>) -> BoxFuture<'a, Result<ScriptEnd, String>> {
        let _ = order;
        Box::pin(std::future::ready(Err("scripts cannot be run here".to_owned())))
    }

    /// The words of a message with what they point at; nothing, when they point at nothing. An error is for the user, and
    /// the message goes no further.
    fn attach<'a>(&'a self, words: &'a str, window: u64) -> BoxFuture<'a, Result<Option<String>, String>> {
        let _ = (words, window);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// What a file that came with a message says: a transcript, a description.
    fn perceive<'a>(&'a self, file: &'a hermes_types::Attachment) -> BoxFuture<'a, Option<String>> {
        let _ = file;
        Box::pin(std::future::ready(None))
    }
}

/// Tells others what happens. Must not block; what they do about it is their business.
pub trait Watchers: Send + Sync {
    fn emit(&self, event: &str, context: Value);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy)]
pub struct NoWatchers;

impl Watchers for NoWatchers {
    fn emit(&self, _: &str, _: Value) {}
}

/// The program offers nothing more.
#[derive(Debug, Clone, Copy)]
pub struct NoServices;

impl Services for NoServices {}

/// All of them.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Ports {
    pub agents: Arc<dyn Agents>,
    pub services: Arc<dyn Services>,
    pub watchers: Arc<dyn Watchers>,
}
