//! What one conversation may do with files, for those who work on them without starting a process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limits::WriteRule;
use super::prepared_sandbox::PreparedSandbox;
use super::thread::SandboxedThread;
use super::{MountPolicy, Sandbox, SandboxActivation};

/// The limits of a conversation. Clones are the same.
#[derive(Debug, Clone)]
pub struct SandboxAccess {
    sandbox: Sandbox,
    anchor: PathBuf,
    prepared: Arc<PreparedSandbox>,
}

impl Sandbox {
    /// What a conversation about the project `anchor` lies in may read and write; nothing where the sandbox is off. Holds on a
    /// kernel without Landlock, too: then only by the checks of who asks.
    pub fn access(&self, anchor: &Path) -> Option<SandboxAccess> {
        if self.mode == SandboxActivation::Off {
            return None;
        }
        // A thread has no view of the folders of its own.
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

    /// Why a file may not be read by a conversation that began in `anchor`; nothing where it may. Links are followed.
    pub fn read_refusal(&self, anchor: &Path, path: &Path) -> Option<String> {
        self.access(anchor)?.read_refusal(&super::refusal::resolve_links(path))
    }
}

impl SandboxAccess {
    /// Why a file may not be read; nothing where it may. Links must be followed already.
    pub fn read_refusal(&self, path: &Path) -> Option<String> {
        self.prepared.limits.unreadable_reason(path).map(str::to_owned)
    }

    /// Whether everything below a folder may be read.
    pub fn is_open_below(&self, folder: &Path) -> bool {
        self.prepared.limits.unreadable.is_uniform(folder) && self.read_refusal(folder).is_none()
    }

    /// What becomes of a write. Links must be followed already.
    pub fn write_rule(&self, path: &Path) -> WriteRule {
        self.prepared.limits.write_rule(path)
    }

    /// The folder the conversation is about.
    pub fn project(&self) -> &Path {
        &self.prepared.limits.project
    }

    /// Starts a thread that the kernel holds to these limits.
    pub fn thread(&self) -> io::Result<SandboxedThread> {
        SandboxedThread::start(Arc::clone(&self.prepared))
    }

    /// Whether the rules let that thread write to a folder. They cannot where something in it is kept out.
    pub fn allows_writes_in(&self, folder: &Path) -> bool {
        self.prepared.openings.allows_writes_in(folder)
    }

    /// Starts a thread that may write to more folders: for files in them that were decided about.
    pub fn thread_writing_in(&self, folders: &[&Path]) -> io::Result<SandboxedThread> {
        let extra: Vec<PathBuf> = folders.iter().map(|folder| (*folder).to_owned()).collect();
        let prepared = PreparedSandbox::make(&self.sandbox, &self.anchor, &extra)
            .unwrap_or_else(|_| PreparedSandbox::without_rules(&self.sandbox, &self.anchor));
        SandboxedThread::start(Arc::new(prepared))
    }
}
