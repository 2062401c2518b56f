//! Where each task works. The terminal moves it with `cd`; relative paths of the file tools start from it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::TaskId;

/// A shared handle; clones see the same folders.
#[derive(Debug, Clone)]
pub struct TaskFolders {
    start: Arc<PathBuf>,
    /// Where the user put a task that starts elsewhere.
    start_overrides: Arc<Mutex<HashMap<TaskId, PathBuf>>>,
    current_folders: Arc<Mutex<HashMap<TaskId, PathBuf>>>,
}

impl TaskFolders {
    /// Every task starts in `start`, or in the nearest folder above it that has a name a model and a shell can be told.
    pub fn new(start: PathBuf) -> Self {
        let named = start.ancestors().find(|folder| folder.to_str().is_some()).map(Path::to_owned);
        let start = Arc::new(named.unwrap_or(start));
        Self { start, start_overrides: Arc::default(), current_folders: Arc::default() }
    }

    /// Where the task is now.
    pub fn current(&self, task: &TaskId) -> PathBuf {
        let moved = self.current_folders.lock().unwrap_or_else(PoisonError::into_inner);
        moved.get(task).cloned().unwrap_or_else(|| self.anchor(task))
    }

    /// Where the task began. What its commands may write is around it, wherever they go.
    pub fn anchor(&self, task: &TaskId) -> PathBuf {
        let placed = self.start_overrides.lock().unwrap_or_else(PoisonError::into_inner);
        placed.get(task).cloned().unwrap_or_else(|| self.start.to_path_buf())
    }

    /// Has a task begin in another folder, because the user says so.
    pub fn set_start(&self, task: &TaskId, folder: PathBuf) {
        self.start_overrides.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), folder);
        self.current_folders.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    /// Has a task work where another one does that it works for: what it may write is around the same folder.
    pub fn delegate(&self, task: &TaskId, parent: &TaskId) {
        let anchor = self.anchor(parent);
        self.set_start(task, anchor);
    }

    pub fn set_current(&self, task: &TaskId, folder: PathBuf) {
        self.current_folders.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), folder);
    }

    /// Forgets a task that has ended.
    pub fn forget(&self, task: &TaskId) {
        self.start_overrides.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
        self.current_folders.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_folder_nobody_can_name_is_left_for_the_one_above() {
        let odd = Path::new("/work").join(OsStr::from_bytes(b"\xff")).join("inner");
        assert_eq!(TaskFolders::new(odd).current(&"t".into()), Path::new("/work"));
        let plain = PathBuf::from("/work/ü");
        assert_eq!(TaskFolders::new(plain.clone()).current(&"t".into()), plain);
    }
}
