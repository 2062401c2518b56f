//! One place to run commands per task.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_exec::{Local, LocalHost};
use hermes_types::TaskId;

use crate::folders::Folders;

/// Made at a task's first command and kept until the task ends. Clones share them.
#[derive(Debug, Clone)]
pub struct Shells {
    host: Arc<LocalHost>,
    folders: Folders,
    open: Arc<Mutex<HashMap<TaskId, Arc<Local>>>>,
}

impl Shells {
    pub fn new(host: Arc<LocalHost>, folders: Folders) -> Self {
        Self { host, folders, open: Arc::default() }
    }

    pub fn host(&self) -> &LocalHost {
        &self.host
    }

    pub(crate) fn of(&self, task: &TaskId) -> Arc<Local> {
        let mut open = self.lock();
        let place =
            open.entry(task.clone()).or_insert_with(|| Arc::new(self.host.open(self.folders.of(task))));
        Arc::clone(place)
    }

    /// Where the task is; the file tools follow.
    pub(crate) fn follow(&self, task: &TaskId, local: &Local) {
        let now = local.directory();
        if self.folders.of(task) != now {
            self.folders.set(task, now);
        }
    }

    /// A folder as the model wrote it.
    pub(crate) fn resolve(&self, task: &TaskId, given: &str, user_home: &Path) -> PathBuf {
        match given.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                user_home.join(rest.trim_start_matches('/'))
            }
            _ => self.folders.of(task).join(given),
        }
    }

    pub(crate) fn folder(&self, task: &TaskId) -> PathBuf {
        self.folders.of(task)
    }

    pub(crate) fn close(&self, task: &TaskId) {
        self.lock().remove(task);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<Local>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
