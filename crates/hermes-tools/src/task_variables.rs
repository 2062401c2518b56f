//! Variables that commands and scripts of a task get in addition to the usual ones: those that its skills declare, and
//! those that name the chat it works for.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_types::{Secret, TaskId};

/// The variables of all tasks. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TaskVariables {
    tasks: Arc<Mutex<HashMap<TaskId, BTreeMap<String, Secret>>>>,
}

impl TaskVariables {
    /// Passes a variable to the commands of a task from now on.
    pub fn pass(&self, task: &TaskId, name: &str, value: Secret) {
        self.lock().entry(task.clone()).or_default().insert(name.to_owned(), value);
    }

    /// Returns the variables of a task.
    pub(crate) fn of(&self, task: &TaskId) -> Vec<(String, String)> {
        let tasks = self.lock();
        let passed = tasks.get(task).into_iter().flatten();
        passed.map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
    }

    /// Gives a task the variables of the task it works for.
    pub(crate) fn delegate(&self, task: &TaskId, parent: &TaskId) {
        let mut tasks = self.lock();
        if let Some(passed) = tasks.get(parent).cloned() {
            tasks.insert(task.clone(), passed);
        }
    }

    /// Removes the variables of a task that has ended.
    pub(crate) fn forget(&self, task: &TaskId) {
        self.lock().remove(task);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, BTreeMap<String, Secret>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
