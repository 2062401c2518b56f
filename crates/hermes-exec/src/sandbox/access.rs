//! The file access of one conversation, for code that works on files without starting a process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limits::WriteRule;
use super::prepared_sandbox::PreparedSandbox;
use super::thread::SandboxedThread;
use super::{MountPolicy, Sandbox, SandboxActivation};

/// The limits of a conversation. Clones share them.
#[derive(Debug, Clone)]
pub struct SandboxAccess {
    sandbox: Sandbox,
    anchor: PathBuf,
    prepared: Arc<PreparedSandbox>,
}

impl Sandbox {
    /// Returns what a conversation about the project that contains `anchor` may read and write; `None` where
    /// the sandbox is off. On a kernel without Landlock the limits hold only as far as the caller checks
    /// them.
    pub fn access(&self, anchor: &Path) -> Option<SandboxAccess> {
        if self.mode == SandboxActivation::Off {
            return None;
        }
        // A thread has no mount namespace of its own.
        let sandbox = Self {
            mounting: MountPolicy::Never,
            command_cache: Arc::clone(&self.thread_cache),
            ..self.clone()
        };
        let prepared = sandbox.prepared(anchor).unwrap_or_else(|reason| {
            tracing::warn!(reason, "file tools are held by checks alone");
            Arc::new(PreparedSandbox::without_rules(&sandbox, anchor))
        });
        Some(SandboxAccess { sandbox, anchor: anchor.to_owned(), prepared })
    }

    /// Returns why a conversation that began in `anchor` may not read a file; `None` where it may. Links are
    /// followed.
    pub fn read_refusal(&self, anchor: &Path, path: &Path) -> Option<String> {
        self.access(anchor)?.read_refusal(&super::refusal::resolve_links(path))
    }
}

impl SandboxAccess {
    /// Returns why a file may not be read; `None` where it may. Links must have been followed already.
    pub fn read_refusal(&self, path: &Path) -> Option<String> {
        self.prepared.limits.unreadable_reason(path).map(str::to_owned)
    }

    /// Tells whether everything below a folder may be read.
    pub fn is_open_below(&self, folder: &Path) -> bool {
        self.prepared.limits.unreadable.is_uniform(folder) && self.read_refusal(folder).is_none()
    }

    /// Returns the rule for a write to a path. Links must have been followed already.
    pub fn write_rule(&self, path: &Path) -> WriteRule {
        self.prepared.limits.write_rule(path)
    }

    /// Returns the folder that the conversation is about.
    pub fn project(&self) -> &Path {
        &self.prepared.limits.project
    }

    /// Starts a thread on which the kernel enforces these limits.
    pub fn thread(&self) -> io::Result<SandboxedThread> {
        SandboxedThread::start(Arc::clone(&self.prepared))
    }

    /// Tells whether the rules let that thread write to a folder. They cannot where something in the folder
    /// is denied.
    pub fn allows_writes_in(&self, folder: &Path) -> bool {
        self.prepared.openings.allows_writes_in(folder)
    }

    /// Starts a thread that may also write to `folders`, for files in them whose writing was approved.
    pub fn thread_writing_in(&self, folders: &[&Path]) -> io::Result<SandboxedThread> {
        let extra: Vec<PathBuf> = folders.iter().map(|folder| (*folder).to_owned()).collect();
        let prepared = PreparedSandbox::make(&self.sandbox, &self.anchor, &extra)
            .unwrap_or_else(|_| PreparedSandbox::without_rules(&self.sandbox, &self.anchor));
        SandboxedThread::start(Arc::new(prepared))
    }
}
