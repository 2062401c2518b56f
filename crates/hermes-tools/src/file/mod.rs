//! What the file tools share: where they work, what is out of bounds, what they remember, how they write.
//!
//! Holds no tool. Invariant: every tool resolves a path, and decides about it, through the same `Files`.

mod deny;
pub(crate) mod disk;
pub(crate) mod extension;
mod guard;
mod held;
mod here;
pub(crate) mod lint;
mod mask;
pub(crate) mod state;
pub(crate) mod store;
mod there;
mod users;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hermes_exec::Sandbox;
use hermes_types::{Call, Cancel, Occasion, Outcome, TaskId, ToolContext};
use serde_json::json;
use tokio::runtime::Handle;

use crate::answer;
use crate::checkpoint::Checkpoints;
use crate::folders::Folders;
use crate::off_thread::off_thread;
use crate::terminal::approval::Approvals;
use crate::terminal::rooms::Closed;
use crate::terminal::{Place, Shells};

pub(crate) use deny::real_path;
use disk::{Disk, Locality};
pub(crate) use guard::ENV_FILES;
pub use guard::FileGuard;
pub(crate) use guard::Refusal;
use here::HostDisk;
pub use lint::{Lint, Linter};
pub use state::FileState;
pub(crate) use there::FarDisk;

/// Whether secrets in files are masked before a model sees them. Decided once, at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Secrets {
    #[default]
    Mask,
    Show,
}

/// What a model is told that would write the mask of a secret over the secret.
pub(crate) const BURIES_SECRET: &str = "it holds a secret that is only shown masked, and writing the mask would destroy it. Change the other lines with patch and leave that one out";

/// How line numbers stand before lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gutter {
    /// Right-aligned to six columns.
    #[default]
    Wide,
    Compact,
}

/// What a user may choose about the file tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    pub secrets: Secrets,
    pub gutter: Gutter,
    /// The most characters one `read_file` shows: `file_read_max_chars`.
    pub read_chars: usize,
    /// Where writing is allowed; anywhere if there are none: `HERMES_WRITE_SAFE_ROOT`.
    pub write_roots: Vec<PathBuf>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            secrets: Secrets::default(),
            gutter: Gutter::default(),
            read_chars: 100_000,
            write_roots: Vec::new(),
        }
    }
}

impl FileOptions {
    /// The folders a `HERMES_WRITE_SAFE_ROOT` names: several are separated by colons, `~` is the user's home.
    pub fn roots(given: &str, user_home: &Path) -> Vec<PathBuf> {
        let names = given.split(':').map(str::trim).filter(|name| !name.is_empty());
        names
            .map(|name| match name.strip_prefix('~').map(|rest| rest.trim_start_matches('/')) {
                Some(rest) => user_home.join(rest),
                None => PathBuf::from(name),
            })
            .collect()
    }
}

/// The shared handle of the four file tools. Clones share everything.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct Files {
    pub(crate) guard: Arc<FileGuard>,
    pub(crate) options: Arc<FileOptions>,
    pub(crate) folders: Folders,
    /// Where commands run, when that may be elsewhere.
    shells: Option<Shells>,
    pub(crate) state: Arc<FileState>,
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    pub(crate) linter: Option<Arc<dyn Linter>>,
    /// What commands are held in by; what it keeps, these tools keep.
    pub(crate) sandbox: Option<Sandbox>,
    /// Who is asked about writes outside the project.
    approvals: Option<Arc<Approvals>>,
}

impl Files {
    pub fn new(guard: FileGuard, options: FileOptions) -> Self {
        let folders = Folders::new(guard.folder().to_owned());
        Self {
            guard: Arc::new(guard),
            options: Arc::new(options),
            folders,
            shells: None,
            state: Arc::default(),
            checkpoints: None,
            linter: None,
            sandbox: None,
            approvals: None,
        }
    }

    /// Reads and writes only what this fence lets commands read and write.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        Self { sandbox: Some(sandbox), ..self }
    }

    /// Asks about writes outside the project; without it they are refused.
    #[must_use]
    pub fn with_approvals(self, approvals: Arc<Approvals>) -> Self {
        Self { approvals: Some(approvals), ..self }
    }

    /// Takes folders that others, such as the terminal, move.
    #[must_use]
    pub fn with_folders(self, folders: Folders) -> Self {
        Self { folders, ..self }
    }

    /// Works on the files that these shells' commands see.
    #[must_use]
    pub fn with_shells(self, shells: Shells) -> Self {
        Self { shells: Some(shells), ..self }
    }

    /// Takes a snapshot of a project before its files are written.
    #[must_use]
    pub fn with_checkpoints(self, checkpoints: Option<Arc<Checkpoints>>) -> Self {
        Self { checkpoints, ..self }
    }

    #[must_use]
    pub fn with_linter(self, linter: Arc<dyn Linter>) -> Self {
        Self { linter: Some(linter), ..self }
    }

    /// Where each task works: hand this to whatever changes folders.
    pub fn folders(&self) -> &Folders {
        &self.folders
    }

    /// What each task has read.
    pub fn state(&self) -> &Arc<FileState> {
        &self.state
    }

    /// The files a call works on. What it gives blocks, and is for a thread of its own.
    pub(crate) async fn disk(&self, call: &Call, cancel: &Cancel) -> Result<Box<dyn Disk>, Outcome> {
        let (files, folder) = (self.clone(), self.folders.of(&call.task));
        let Some(shells) = self.shells.as_ref().filter(|shells| !shells.is_here()) else {
            return self.host_disk(call, folder).await;
        };
        let stay = match shells.enter(&call.task, cancel).await {
            Ok(Place::There(stay)) => stay,
            Ok(Place::Here(_)) => return self.host_disk(call, folder).await,
            Err(Closed::Disabled(reason)) => {
                let error = format!("File tools disabled: {reason}");
                return Err(answer::failed(&json!({"error": error, "status": "disabled"})));
            }
            Err(Closed::Interrupted) => return Err(Outcome::failed("interrupted before it was begun")),
        };
        let bearings = stay.bearings(cancel).await.map_err(|error| Outcome::failed(error.to_string()))?;
        Ok(Box::new(FarDisk {
            files,
            stay,
            runtime: Handle::current(),
            cancel: cancel.clone(),
            folder: bearings.directory,
            home: bearings.home,
            reachable: shells.reachable(),
            known: Mutex::default(),
        }))
    }

    async fn host_disk(&self, call: &Call, folder: PathBuf) -> Result<Box<dyn Disk>, Outcome> {
        let (files, anchor) = (self.clone(), self.folders.anchor(&call.task));
        let open = move || {
            let access = files.sandbox.as_ref().and_then(|sandbox| sandbox.access(&anchor));
            HostDisk::new(files, folder, access)
        };
        match off_thread("files", open).await? {
            Ok(disk) => Ok(Box::new(disk)),
            Err(reason) => Err(Outcome::failed(format!("files cannot be reached: {reason}"))),
        }
    }

    /// The same for a call that writes these paths. Where one is outside the project, a person is asked.
    pub(crate) async fn disk_to_write(
        &self,
        call: &Call,
        paths: Vec<String>,
        context: ToolContext<'_>,
    ) -> Result<Box<dyn Disk>, Outcome> {
        let disk = self.disk(call, context.cancel).await?;
        if disk.locality() == Locality::There || self.sandbox.is_none() {
            return Ok(disk);
        }
        let ask = move || {
            let asked: Vec<_> = paths.iter().filter_map(|given| disk.question(given)).collect();
            (disk, asked)
        };
        let (mut disk, asked) = off_thread("files", ask).await?;
        for (real, reason) in asked {
            let Some(approvals) = &self.approvals else { continue };
            approvals.may_write(&call.name, &real, &reason, &call.task, context).await.map_err(|error| {
                answer::failed(&json!({"error": error, "success": false, "bytes_written": 0}))
            })?;
            disk.agree(real);
        }
        Ok(disk)
    }

    /// Whether a change would put the mask of a secret where the secret was: the model only ever saw the mask, and
    /// writes it back in good faith.
    pub(crate) fn buries_secret(&self, before: &str, after: &str) -> bool {
        let shown = self.masked(before);
        if shown == before {
            return false;
        }
        let real: HashSet<&str> = before.lines().map(str::trim).collect();
        let masks: HashSet<&str> = shown.lines().map(str::trim).filter(|line| !real.contains(line)).collect();
        after.lines().any(|line| masks.contains(line.trim()))
    }

    /// Before a file of this machine is changed, its project is recorded.
    pub(crate) fn checkpoint(&self, call: &Call, disk: &dyn Disk, path: &Path) {
        if let Some(checkpoints) = self.checkpoints.as_ref().filter(|_| disk.locality() == Locality::Here) {
            checkpoints.before(&call.turn, path, &format!("before {}", call.name));
        }
    }

    pub(crate) fn notice(&self, task: &TaskId, occasion: Occasion<'_>) {
        self.state.notice(task, occasion);
        match occasion {
            Occasion::Ended => self.folders.forget(task),
            Occasion::Delegated(parent) => self.folders.delegate(task, parent),
            Occasion::Resumed(_) | Occasion::Compressed | Occasion::Calling(_) => {}
        }
    }
}

impl From<FileGuard> for Files {
    fn from(guard: FileGuard) -> Self {
        Self::new(guard, FileOptions::default())
    }
}
