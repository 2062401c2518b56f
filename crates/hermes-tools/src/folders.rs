//! The current folder of each task. The terminal changes it with `cd`; relative paths of the file tools start
//! from it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::TaskId;

/// The start and current folders of all tasks. Clones share them.
#[derive(Debug, Clone)]
pub struct TaskFolders {
    start: Arc<PathBuf>,
    /// The start folders of tasks for which the user chose another one.
    start_overrides: Arc<Mutex<HashMap<TaskId, PathBuf>>>,
    current_folders: Arc<Mutex<HashMap<TaskId, PathBuf>>>,
}

impl TaskFolders {
    /// Creates the folders. Every task starts in `start`, or in its nearest parent whose path is valid UTF-8.
    pub fn new(start: PathBuf) -> Self {
        let named = start.ancestors().find(|folder| folder.to_str().is_some()).map(Path::to_owned);
        let start = Arc::new(named.unwrap_or(start));
        Self { start, start_overrides: Arc::default(), current_folders: Arc::default() }
    }

    /// Returns the current folder of a task.
    pub fn current(&self, task: &TaskId) -> PathBuf {
        let moved = self.current_folders.lock().unwrap_or_else(PoisonError::into_inner);
        moved.get(task).cloned().unwrap_or_else(|| self.anchor(task))
    }

    /// Returns the folder in which a task started. It determines what its commands may write, wherever they
    /// change to.
    pub fn anchor(&self, task: &TaskId) -> PathBuf {
        let placed = self.start_overrides.lock().unwrap_or_else(PoisonError::into_inner);
        placed.get(task).cloned().unwrap_or_else(|| self.start.to_path_buf())
    }

    /// Sets the start folder of a task, as the user requested.
    pub fn set_start(&self, task: &TaskId, folder: PathBuf) {
        self.start_overrides.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), folder);
        self.current_folders.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    /// Makes a task start where its parent task started, so that it may write the same files.
    pub fn delegate(&self, task: &TaskId, parent: &TaskId) {
        let anchor = self.anchor(parent);
        self.set_start(task, anchor);
    }

    pub fn set_current(&self, task: &TaskId, folder: PathBuf) {
        self.current_folders.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), folder);
    }

    /// Removes a task that has ended.
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
