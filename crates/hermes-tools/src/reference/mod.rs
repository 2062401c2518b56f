//! Attaches the files, folders and repository changes that a user refers to in a message.
//!
//! Paths must be in the working directory, and files that may hold secrets are never read. A reference that
//! cannot be attached is reported in the message, so that the model does not guess; content that would fill the
//! model's context window is refused.

mod attach;
mod find;
mod git;

use std::path::Path;

use hermes_exec::{NetworkReach, ProgramRunner, Sandbox};
use hermes_text::estimate_tokens;
use hermes_types::Cancel;

use crate::file::FileGuard;
use crate::off_thread::off_thread;
use find::{FoundReference, ReferenceTarget};
pub use git::RUNS_NOTHING;

/// Attaches the references of messages. Clones are equivalent.
#[derive(Debug, Clone)]
pub struct ReferenceResolver {
    guard: FileGuard,
    programs: ProgramRunner,
    sandbox: Option<Sandbox>,
}

/// The result of resolving the references of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceResult {
    /// The message has no references.
    NoReferences,
    Attached {
        text: String,
        /// The size of the attached content, in one line for the user.
        status: String,
    },
    /// The content would take too much of the context window; the text explains it to the user.
    TooLarge(String),
}

/// The text of one reference, or why there is none.
type ReferenceBlock = Result<String, String>;

impl ReferenceResolver {
    pub fn new(guard: FileGuard, programs: ProgramRunner) -> Self {
        Self { guard, programs, sandbox: None }
    }

    /// Reads only what this sandbox allows commands in the folder to read, and runs git inside it.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        let programs = self
            .programs
            .in_sandbox(sandbox.clone().with_network_reach(NetworkReach::ThisMachine), self.guard.folder());
        Self { programs, sandbox: Some(sandbox), ..self }
    }

    /// Resolves the references of a message for a model with a context window of `window` tokens.
    pub async fn attach(&self, text: &str, window: u64, cancel: &Cancel) -> ReferenceResult {
        let found = find::find(text);
        if found.is_empty() {
            return ReferenceResult::NoReferences;
        }
        let (mut blocks, mut warnings, mut tokens) = (Vec::new(), Vec::new(), 0);
        for one in &found {
            match self.block(one, window, cancel).await {
                Ok(block) => {
                    tokens += estimate_tokens(&block);
                    blocks.push(block);
                }
                Err(reason) => warnings.push(format!("- {}: {reason}", one.raw)),
            }
        }
        if tokens > window / 2 {
            return ReferenceResult::TooLarge(format!(
                "Not sent: what it points at comes to {tokens} tokens, more than half of the model's window of {window}. \
                 Name fewer files, or lines of them (`@file:PATH:10-25`)."
            ));
        }
        if tokens > window / 4 {
            warnings.push(format!(
                "- What is attached fills more than a quarter of the window ({tokens} tokens)."
            ));
        }
        let mut parts = vec![find::without(text, &found)];
        if !warnings.is_empty() {
            parts.push(format!("--- Context Warnings ---\n{}", warnings.join("\n")));
        }
        if !blocks.is_empty() {
            parts.push(format!("--- Attached Context ---\n\n{}", blocks.join("\n\n")));
        }
        parts.retain(|part| !part.is_empty());
        let status = format!("[@ context: {} ref(s), {tokens} tokens]", found.len());
        ReferenceResult::Attached { text: parts.join("\n\n"), status }
    }

    async fn block(&self, found: &FoundReference, window: u64, cancel: &Cancel) -> ReferenceBlock {
        match &found.target {
            ReferenceTarget::Diff => self.git(&found.raw, &["diff"], cancel).await,
            ReferenceTarget::Staged => self.git(&found.raw, &["diff", "--staged"], cancel).await,
            ReferenceTarget::Log(commits) => {
                self.git(&found.raw, &["log", &format!("-{commits}"), "-p"], cancel).await
            }
            ReferenceTarget::Page(_) => {
                Err("web pages cannot be attached; ask for it to be read instead".to_owned())
            }
            ReferenceTarget::File { .. } | ReferenceTarget::Folder(_) => {
                let (guard, found, sandbox) = (self.guard.clone(), found.clone(), self.sandbox.clone());
                let read = move || {
                    let access = sandbox.and_then(|sandbox| sandbox.access(guard.folder()));
                    let Some(access) = access else { return attach::read(&guard, None, &found, window) };
                    let thread = access.thread().map_err(|error| error.to_string())?;
                    thread
                        .run(move || attach::read(&guard, Some(&access), &found, window))
                        .map_err(|error| error.to_string())?
                };
                off_thread("references", read).await.map_err(|failed| failed.content).flatten()
            }
        }
    }

    fn folder(&self) -> &Path {
        self.guard.folder()
    }
}
