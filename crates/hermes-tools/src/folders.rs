//! Where each task works. The terminal moves it with `cd`; relative paths of the file tools start from it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::TaskId;

/// A shared handle; clones see the same folders.
#[derive(Debug, Clone)]
pub struct Folders {
    start: Arc<PathBuf>,
    moved: Arc<Mutex<HashMap<TaskId, PathBuf>>>,
}

impl Folders {
    /// Every task starts in `start`.
    pub fn new(start: PathBuf) -> Self {
        Self { start: Arc::new(start), moved: Arc::default() }
    }

    /// Where the task is now.
    pub fn of(&self, task: &TaskId) -> PathBuf {
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.get(task).cloned().unwrap_or_else(|| self.start.to_path_buf())
    }

    pub fn set(&self, task: &TaskId, folder: PathBuf) {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), folder);
    }

    /// Forgets a task that has ended.
    pub fn forget(&self, task: &TaskId) {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }
}
