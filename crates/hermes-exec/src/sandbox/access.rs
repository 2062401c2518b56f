//! What one conversation may do with files, for those who work on them without starting a process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limits::WriteRule;
use super::prepared::Prepared;
use super::thread::FencedThread;
use super::{Mounting, Sandbox, SandboxMode};

/// The limits of a conversation. Clones are the same.
#[derive(Debug, Clone)]
pub struct Access {
    sandbox: Sandbox,
    anchor: PathBuf,
    prepared: Arc<Prepared>,
}

impl Sandbox {
    /// What a conversation about the project `anchor` lies in may read and write; nothing where the sandbox is off. Holds on a
    /// kernel without Landlock, too: then only by the checks of who asks.
    pub fn access(&self, anchor: &Path) -> Option<Access> {
        if self.mode == SandboxMode::Off {
            return None;
        }
        // A thread has no view of the folders of its own.
        let sandbox = Self { mounting: Mounting::Never, kept: Arc::clone(&self.threads), ..self.clone() };
        let prepared = sandbox.prepared(anchor).unwrap_or_else(|reason| {
            tracing::warn!(reason, "file tools are held by checks alone");
            Arc::new(Prepared::without_rules(&sandbox, anchor))
        });
        Some(Access { sandbox, anchor: anchor.to_owned(), prepared })
    }

    /// Why a file may not be read by a conversation that began in `anchor`; nothing where it may. Links are followed.
    pub fn refuses_reading(&self, anchor: &Path, path: &Path) -> Option<String> {
        self.access(anchor)?.refuse_read(&super::refusal::real(path))
    }
}

impl Access {
    /// Why a file may not be read; nothing where it may. Links must be followed already.
    pub fn refuse_read(&self, path: &Path) -> Option<String> {
        self.prepared.limits.hides(path).map(str::to_owned)
    }

    /// Whether everything below a folder may be read.
    pub fn is_open_below(&self, folder: &Path) -> bool {
        self.prepared.limits.unreadable.is_uniform(folder) && self.refuse_read(folder).is_none()
    }

    /// What becomes of a write. Links must be followed already.
    pub fn write_rule(&self, path: &Path) -> WriteRule {
        self.prepared.limits.write(path)
    }

    /// The folder the conversation is about.
    pub fn project(&self) -> &Path {
        &self.prepared.limits.project
    }

    /// Starts a thread that the kernel holds to these limits.
    pub fn thread(&self) -> io::Result<FencedThread> {
        FencedThread::start(Arc::clone(&self.prepared))
    }

    /// Whether the rules let that thread write to a folder. They cannot where something in it is kept out.
    pub fn lets_write_in(&self, folder: &Path) -> bool {
        self.prepared.openings.lets_write_in(folder)
    }

    /// Starts a thread that may write to more folders: for files in them that were decided about.
    pub fn thread_writing_in(&self, folders: &[&Path]) -> io::Result<FencedThread> {
        let extra: Vec<PathBuf> = folders.iter().map(|folder| (*folder).to_owned()).collect();
        let prepared = Prepared::make(&self.sandbox, &self.anchor, &extra)
            .unwrap_or_else(|_| Prepared::without_rules(&self.sandbox, &self.anchor));
        FencedThread::start(Arc::new(prepared))
    }
}
