//! The items of a dataset file, one JSON object per line, handed out in order and again from the beginning.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};

/// Items, and which is next.
#[derive(Debug, Default)]
pub(super) struct ItemList {
    items: Vec<Value>,
    next: AtomicUsize,
}

impl ItemList {
    pub(super) fn new(items: Vec<Value>) -> Self {
        Self { items, next: AtomicUsize::new(0) }
    }

    /// Reads a file. Lines that cannot be used are an error, because a task would be missing.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let named = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
        let file = File::open(path).map_err(|error| named(&error))?;
        let mut items = Vec::new();
        for (at, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|error| named(&error))?;
            if line.trim().is_empty() {
                continue;
            }
            let item: Value =
                serde_json::from_str(&line).map_err(|_| named(&format!("line {} is not JSON", at + 1)))?;
            if !item.is_object() {
                return Err(named(&format!("line {} is not an object", at + 1)));
            }
            items.push(item);
        }
        if items.is_empty() {
            return Err(named(&"it has no items"));
        }
        Ok(Self::new(items))
    }

    pub(super) fn all(&self) -> &[Value] {
        &self.items
    }

    pub(super) fn next(&self) -> Option<Value> {
        let at = self.next.fetch_add(1, Relaxed);
        self.items.get(at.checked_rem(self.items.len())?).cloned()
    }

    pub(super) fn state(&self) -> Value {
        json!({"next_item": self.next.load(Relaxed)})
    }

    pub(super) fn restore(&self, state: &Value) {
        let at = state.get("next_item").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
        self.next.store(at.unwrap_or_default(), Relaxed);
    }
}
