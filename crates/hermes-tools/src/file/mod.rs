//! The state and rules that the file tools share: folders, access rules, what each task has read, and how files
//! are written.
//!
//! This module holds no tool. Invariant: every tool resolves and checks a path through the same [`FileTools`].

mod deny;
pub(crate) mod extension;
pub(crate) mod file_system;
mod guard;
pub(crate) mod lint;
mod local;
mod mask;
mod pinned_path;
mod remote;
pub(crate) mod state;
pub(crate) mod text_format;
mod users;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hermes_exec::Sandbox;
use hermes_types::{Cancel, TaskId, ToolContext, ToolEvent, ToolInvocation, ToolOutcome};
use serde_json::json;
use tokio::runtime::Handle;

use crate::answer;
use crate::checkpoint::CheckpointManager;
use crate::folders::TaskFolders;
use crate::off_thread::off_thread;
use crate::terminal::approval::Approvals;
use crate::terminal::environment_pool::PoolError;
use crate::terminal::{TaskEnvironment, TaskShells};

pub(crate) use deny::real_path;
use file_system::{FileLocation, FileSystem};
pub(crate) use guard::ENV_FILES;
pub use guard::FileGuard;
pub(crate) use guard::ReadRefusal;
pub use lint::{LintResult, Linter};
use local::LocalFs;
pub(crate) use remote::RemoteFs;
pub use state::TaskFileState;

/// Selects whether secrets in files are masked before a model sees them. It is decided once, at startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecretMasking {
    #[default]
    Mask,
    Show,
}

/// The error for a model that would overwrite a secret with its mask.
pub(crate) const BURIES_SECRET: &str = "it holds a secret that is only shown masked, and writing the mask would destroy it. Change the other lines with patch and leave that one out";

/// The format of line numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineNumberStyle {
    /// Line numbers right-aligned to six columns.
    #[default]
    Wide,
    Compact,
}

/// The settings of the file tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    pub secrets: SecretMasking,
    pub gutter: LineNumberStyle,
    /// The maximum number of characters that one `read_file` shows: `file_read_max_chars`.
    pub read_chars: usize,
    /// The folders in which writing is allowed, or empty to allow it anywhere: `HERMES_WRITE_SAFE_ROOT`.
    pub write_roots: Vec<PathBuf>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            secrets: SecretMasking::default(),
            gutter: LineNumberStyle::default(),
            read_chars: 100_000,
            write_roots: Vec::new(),
        }
    }
}

impl FileOptions {
    /// Parses the folders of `HERMES_WRITE_SAFE_ROOT`, which are separated by colons; `~` is the user's home.
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

/// The shared handle of the four file tools. Clones share all state.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct FileTools {
    pub(crate) guard: Arc<FileGuard>,
    pub(crate) options: Arc<FileOptions>,
    pub(crate) folders: TaskFolders,
    /// The shells that run commands, if they may be remote.
    shells: Option<TaskShells>,
    pub(crate) state: Arc<TaskFileState>,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
    pub(crate) linter: Option<Arc<dyn Linter>>,
    /// The sandbox of the commands; the file tools follow its rules.
    pub(crate) sandbox: Option<Sandbox>,
    /// The approvals for writes outside the project.
    approvals: Option<Arc<Approvals>>,
}

impl FileTools {
    pub fn new(guard: FileGuard, options: FileOptions) -> Self {
        let folders = TaskFolders::new(guard.folder().to_owned());
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

    /// Restricts reading and writing to what this sandbox allows commands.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        Self { sandbox: Some(sandbox), ..self }
    }

    /// Asks for approval of writes outside the project; without approvals they are refused.
    #[must_use]
    pub fn with_approvals(self, approvals: Arc<Approvals>) -> Self {
        Self { approvals: Some(approvals), ..self }
    }

    /// Uses folders that other tools, such as the terminal, change.
    #[must_use]
    pub fn with_folders(self, folders: TaskFolders) -> Self {
        Self { folders, ..self }
    }

    /// Uses the files that the commands of these shells see.
    #[must_use]
    pub fn with_shells(self, shells: TaskShells) -> Self {
        Self { shells: Some(shells), ..self }
    }

    /// Takes a snapshot of a project before its files are written.
    #[must_use]
    pub fn with_checkpoints(self, checkpoints: Option<Arc<CheckpointManager>>) -> Self {
        Self { checkpoints, ..self }
    }

    #[must_use]
    pub fn with_linter(self, linter: Arc<dyn Linter>) -> Self {
        Self { linter: Some(linter), ..self }
    }

    /// Returns the current folder of each task, for tools that change it.
    pub fn folders(&self) -> &TaskFolders {
        &self.folders
    }

    /// Returns what each task has read.
    pub fn state(&self) -> &Arc<TaskFileState> {
        &self.state
    }

    /// Opens the file system for a call. Its methods block, so they must be called on a separate thread.
    pub(crate) async fn file_system(
        &self,
        call: &ToolInvocation,
        cancel: &Cancel,
    ) -> Result<Box<dyn FileSystem>, ToolOutcome> {
        let (files, folder) = (self.clone(), self.folders.current(&call.task));
        let Some(shells) = self.shells.as_ref().filter(|shells| !shells.is_local()) else {
            return self.local_file_system(call, folder).await;
        };
        let stay = match shells.open_environment(&call.task, cancel).await {
            Ok(TaskEnvironment::Remote(stay)) => stay,
            Ok(TaskEnvironment::Local(_)) => return self.local_file_system(call, folder).await,
            Err(PoolError::Unavailable(reason)) => {
                let error = format!("File tools disabled: {reason}");
                return Err(answer::failure_json(&json!({"error": error, "status": "disabled"})));
            }
            Err(PoolError::Interrupted) => {
                return Err(ToolOutcome::failed("interrupted before it was begun"));
            }
        };
        let bearings = stay.location(cancel).await.map_err(|error| ToolOutcome::failed(error.to_string()))?;
        Ok(Box::new(RemoteFs {
            files,
            guard: stay,
            runtime: Handle::current(),
            cancel: cancel.clone(),
            folder: bearings.directory,
            home: bearings.home,
            host_exposure: shells.host_exposure(),
            known: Mutex::default(),
        }))
    }

    async fn local_file_system(
        &self,
        call: &ToolInvocation,
        folder: PathBuf,
    ) -> Result<Box<dyn FileSystem>, ToolOutcome> {
        let (files, anchor) = (self.clone(), self.folders.anchor(&call.task));
        let open = move || {
            let access = files.sandbox.as_ref().and_then(|sandbox| sandbox.access(&anchor));
            LocalFs::new(files, folder, access)
        };
        match off_thread("files", open).await? {
            Ok(disk) => Ok(Box::new(disk)),
            Err(reason) => Err(ToolOutcome::failed(format!("files cannot be reached: {reason}"))),
        }
    }

    /// Opens the file system for a call that writes these paths. Asks a person about each path outside the
    /// project.
    pub(crate) async fn writable_file_system(
        &self,
        call: &ToolInvocation,
        paths: Vec<String>,
        context: ToolContext<'_>,
    ) -> Result<Box<dyn FileSystem>, ToolOutcome> {
        let disk = self.file_system(call, context.cancel).await?;
        if disk.location() == FileLocation::Remote || self.sandbox.is_none() {
            return Ok(disk);
        }
        let ask = move || {
            let asked: Vec<_> = paths.iter().filter_map(|given| disk.write_approval(given)).collect();
            (disk, asked)
        };
        let (mut disk, asked) = off_thread("files", ask).await?;
        for (real, reason) in asked {
            let Some(approvals) = &self.approvals else { continue };
            approvals.ask_write(&call.name, &real, &reason, &call.task, context).await.map_err(|error| {
                answer::failure_json(&json!({"error": error, "success": false, "bytes_written": 0}))
            })?;
            disk.approve_write(real);
        }
        Ok(disk)
    }

    /// Tells whether a change would replace a secret with its mask. The model only saw the mask, and may write
    /// it back unaware.
    pub(crate) fn overwrites_secret(&self, before: &str, after: &str) -> bool {
        let shown = self.masked(before);
        if shown == before {
            return false;
        }
        let real: HashSet<&str> = before.lines().map(str::trim).collect();
        let masks: HashSet<&str> = shown.lines().map(str::trim).filter(|line| !real.contains(line)).collect();
        after.lines().any(|line| masks.contains(line.trim()))
    }

    /// Takes a snapshot of the project before a file of this machine is changed.
    pub(crate) fn checkpoint(&self, call: &ToolInvocation, disk: &dyn FileSystem, path: &Path) {
        if let Some(checkpoints) =
            self.checkpoints.as_ref().filter(|_| disk.location() == FileLocation::Local)
        {
            checkpoints.before_write(&call.turn, path, &format!("before {}", call.name));
        }
    }

    pub(crate) fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        self.state.on_event(task, occasion);
        match occasion {
            ToolEvent::Ended => self.folders.forget(task),
            ToolEvent::Delegated(parent) => self.folders.delegate(task, parent),
            ToolEvent::Resumed(_)
            | ToolEvent::Compressed
            | ToolEvent::CallStarting(_)
            | ToolEvent::OthersWordsRead(_)
            | ToolEvent::TurnCompleted => {}
        }
    }
}

impl From<FileGuard> for FileTools {
    fn from(guard: FileGuard) -> Self {
        Self::new(guard, FileOptions::default())
    }
}
