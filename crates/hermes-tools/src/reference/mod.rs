//! What a person points at in a message is put behind it: files, folders, changes of a repository.
//!
//! Paths stay within the working folder, and what may hold secrets is not read, whoever asks. What cannot be attached is
//! said in the message itself, so that the model does not guess; what would fill the model's window is refused.

mod attach;
mod find;

use std::path::Path;
use std::time::Duration;

use hermes_exec::{Complaints, Program, ProgramEnd, Programs};
use hermes_text::estimate_tokens;
use hermes_types::Cancel;

use crate::file::FileGuard;
use crate::off_thread::off_thread;
use find::{Found, Target};

const GIT_LIMIT: Duration = Duration::from_secs(30);

/// Attaches what messages point at. Clones are the same.
#[derive(Debug, Clone)]
pub struct References {
    guard: FileGuard,
    programs: Programs,
}

/// A message after its references were looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Referred {
    /// It has none.
    Nothing,
    Attached {
        text: String,
        /// How much, in a line for the person.
        status: String,
    },
    /// It would not leave the model enough room; why, for the person.
    TooMuch(String),
}

/// One reference's text, or why there is none.
type Block = Result<String, String>;

impl References {
    pub fn new(guard: FileGuard, programs: Programs) -> Self {
        Self { guard, programs }
    }

    /// Looks up the references of a message, for a model whose window holds so many tokens.
    pub async fn attach(&self, text: &str, window: u64, cancel: &Cancel) -> Referred {
        let found = find::find(text);
        if found.is_empty() {
            return Referred::Nothing;
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
            return Referred::TooMuch(format!(
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
        Referred::Attached { text: parts.join("\n\n"), status }
    }

    async fn block(&self, found: &Found, window: u64, cancel: &Cancel) -> Block {
        match &found.target {
            Target::Diff => self.git(&found.raw, &["diff"], cancel).await,
            Target::Staged => self.git(&found.raw, &["diff", "--staged"], cancel).await,
            Target::Log(commits) => {
                self.git(&found.raw, &["log", &format!("-{commits}"), "-p"], cancel).await
            }
            Target::Page(_) => Err("web pages cannot be attached; ask for it to be read instead".to_owned()),
            Target::File { .. } | Target::Folder(_) => {
                let (guard, found) = (self.guard.clone(), found.clone());
                let read = off_thread("references", move || attach::read(&guard, &found, window)).await;
                read.map_err(|failed| failed.content).flatten()
            }
        }
    }

    /// Nothing the repository names is run for it.
    async fn git(&self, raw: &str, what: &[&str], cancel: &Cancel) -> Block {
        let before = ["-c", "core.fsmonitor=false", "--no-pager"];
        let (command, options) = what.split_first().ok_or("nothing to ask git for")?;
        let plain = ["--no-ext-diff", "--no-textconv", "--no-color"];
        let arguments = before.iter().chain([command]).chain(&plain).chain(options);
        let program = Program {
            name: "git",
            arguments: arguments.map(Into::into).collect(),
            directory: self.folder(),
            limit: GIT_LIMIT,
            complaints: Complaints::Keep,
        };
        let (output, end) = self.programs.output(program, cancel).await.map_err(|error| error.to_string())?;
        match end {
            ProgramEnd::Exited(0) => {
                let shown = if output.trim().is_empty() { "(nothing)" } else { output.trim_end() };
                let title = format!("🧾 git {}", what.join(" "));
                Ok(attach::block(&title, shown, if command == &"diff" { "diff" } else { "" }))
            }
            ProgramEnd::Exited(_) => Err(output.lines().next().unwrap_or("git failed").to_owned()),
            ProgramEnd::TooSlow => Err(format!("git took longer than {} s", GIT_LIMIT.as_secs())),
            ProgramEnd::Cancelled => Err(format!("{raw} was interrupted")),
        }
    }

    fn folder(&self) -> &Path {
        self.guard.folder()
    }
}
