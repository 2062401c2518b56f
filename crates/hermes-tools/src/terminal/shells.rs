//! The environment in which each task runs commands: on this machine, remote, or unavailable.
//!
//! Invariant: commands that are configured to run remotely never run on this machine instead.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_exec::{CredentialFiles, HostExposure, LocalEnvironment, LocalHost, TaskImage};
use hermes_types::{Cancel, Clock, Environment, TaskId};

use super::environment_pool::{EnvironmentPool, EnvironmentPoolOptions, PoolError, PoolGuard};
use crate::folders::TaskFolders;
use crate::process::ProcessRegistry;
use crate::task_variables::TaskVariables;

/// The environments of all tasks. Each is created at the first command of its task and kept until the task
/// ends. Clones share them.
#[derive(Debug, Clone)]
pub struct TaskShells {
    host: ShellLocation,
    folders: TaskFolders,
    variables: TaskVariables,
    /// The credential files that remote environments get.
    credentials: Option<CredentialFiles>,
    open: Arc<Mutex<HashMap<TaskId, Arc<LocalEnvironment>>>>,
}

#[derive(Debug, Clone)]
enum ShellLocation {
    Local(Arc<LocalHost>),
    Remote(Arc<EnvironmentPool>),
    /// No environment is available, for this reason.
    Unavailable(Arc<str>),
}

/// The environment in which one command runs.
#[derive(Debug)]
pub(crate) enum TaskEnvironment {
    Local(Arc<LocalEnvironment>),
    Remote(PoolGuard),
}

impl TaskShells {
    /// Creates shells on this machine.
    pub fn new(host: Arc<LocalHost>, folders: TaskFolders) -> Self {
        Self::with(ShellLocation::Local(host), folders)
    }

    pub fn remote(
        options: EnvironmentPoolOptions,
        folders: TaskFolders,
        processes: ProcessRegistry,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let credentials = Some(options.backend.credentials.clone());
        let pool = EnvironmentPool::new(options, processes, clock);
        Self { credentials, ..Self::with(ShellLocation::Remote(pool), folders) }
    }

    /// Creates shells for a backend that is unavailable; every call returns the reason.
    pub fn unavailable(reason: &str, folders: TaskFolders) -> Self {
        Self::with(ShellLocation::Unavailable(reason.into()), folders)
    }

    fn with(host: ShellLocation, folders: TaskFolders) -> Self {
        let variables = TaskVariables::default();
        Self { host, folders, variables, credentials: None, open: Arc::default() }
    }

    /// Returns the variables that commands of a task get in addition to the usual ones.
    pub fn variables(&self) -> &TaskVariables {
        &self.variables
    }

    /// Returns the credential files of remote environments; `None` on this machine.
    pub fn credentials(&self) -> Option<&CredentialFiles> {
        self.credentials.as_ref()
    }

    /// Tells whether commands run on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.host, ShellLocation::Local(_))
    }

    /// Returns which of the user's files commands can access.
    pub(crate) fn host_exposure(&self) -> HostExposure {
        match &self.host {
            ShellLocation::Remote(rooms) => rooms.host_exposure(),
            ShellLocation::Local(_) | ShellLocation::Unavailable(_) => HostExposure::UserFiles,
        }
    }

    /// Returns the environment of a task, ready for use.
    pub(crate) async fn open_environment(
        &self,
        task: &TaskId,
        cancel: &Cancel,
    ) -> Result<TaskEnvironment, PoolError> {
        match &self.host {
            ShellLocation::Local(host) => {
                let mut open = self.lock();
                let place = open.entry(task.clone()).or_insert_with(|| {
                    Arc::new(host.open_within(self.folders.anchor(task), self.folders.current(task)))
                });
                place.set_added_variables(self.variables.of(task));
                Ok(TaskEnvironment::Local(Arc::clone(place)))
            }
            ShellLocation::Remote(rooms) => rooms.acquire(task, cancel).await.map(TaskEnvironment::Remote),
            ShellLocation::Unavailable(reason) => Err(PoolError::Unavailable(reason.to_string())),
        }
    }

    /// Records the task's current folder for the file tools. In a remote environment they query it there.
    pub(crate) fn update_folder(&self, task: &TaskId, place: &TaskEnvironment) {
        let TaskEnvironment::Local(local) = place else { return };
        let now = local.directory();
        if self.folders.current(task) != now {
            self.folders.set_current(task, now);
        }
    }

    /// Resolves a folder that the model named.
    pub(crate) fn resolve(&self, task: &TaskId, given: &str, user_home: &Path) -> PathBuf {
        match given.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                user_home.join(rest.trim_start_matches('/'))
            }
            _ => self.folders.current(task).join(given),
        }
    }

    pub(crate) fn folder(&self, task: &TaskId) -> PathBuf {
        self.folders.current(task)
    }

    /// Makes a task work in the folder of the task it works for.
    pub(crate) fn delegate(&self, task: &TaskId, parent: &TaskId) {
        self.folders.delegate(task, parent);
    }

    /// Lets the commands of a task run in a container image. Fails where there are no images: they never run elsewhere instead.
    pub async fn use_image(&self, task: &TaskId, image: &TaskImage, cancel: &Cancel) -> Result<(), String> {
        match &self.host {
            ShellLocation::Remote(rooms) => rooms.use_image(task, image, cancel).await,
            ShellLocation::Local(_) => Err(format!(
                "the image {} needs a terminal.backend with containers: docker, singularity, modal or daytona",
                image.image
            )),
            ShellLocation::Unavailable(reason) => Err(reason.to_string()),
        }
    }

    /// Forgets a task that has ended, also one that ran no command.
    pub fn release(&self, task: &TaskId) {
        self.close(task);
    }

    pub(crate) fn close(&self, task: &TaskId) {
        self.lock().remove(task);
        if let ShellLocation::Remote(rooms) = &self.host {
            rooms.release_task(task);
        }
    }

    /// Closes all remote environments when the program ends.
    pub async fn close_all(&self) {
        if let ShellLocation::Remote(rooms) = &self.host {
            rooms.close_all().await;
        }
    }

    /// Closes environments that were idle for their lifetime. A background task also does so every minute.
    pub async fn close_idle(&self) {
        if let ShellLocation::Remote(rooms) = &self.host {
            rooms.close_idle().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<LocalEnvironment>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskEnvironment {
    pub(crate) fn environment(&self) -> &dyn Environment {
        match self {
            Self::Local(local) => &**local,
            Self::Remote(stay) => &*stay.session,
        }
    }
}
