//! A cache with one environment per task, however many callers need it at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Remembers an environment as long as a caller holds it.
#[derive(Debug)]
pub(crate) struct PerTaskCache<T>(Mutex<HashMap<String, Weak<T>>>);

impl<T> Default for PerTaskCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerTaskCache<T> {
    /// Returns the task's environment; `make` runs only if there is none, and must be quick, because other
    /// callers wait for it.
    pub(crate) fn get_or_create(&self, task: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(task).and_then(Weak::upgrade) {
            return found;
        }
        known.retain(|_, held| held.strong_count() > 0);
        let made = Arc::new(make());
        known.insert(task.to_owned(), Arc::downgrade(&made));
        made
    }

    /// Returns the environments that callers hold.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter_map(Weak::upgrade).collect()
    }
}
