//! Knows in which named task each event happens: tasks are the only spans the log keeps.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::Metadata;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};

thread_local! {
    /// The spans this thread is in, the innermost last.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The names of the tasks that exist.
#[derive(Default)]
pub(super) struct TaskNames {
    last: AtomicU64,
    spans: Mutex<HashMap<u64, TaskSpan>>,
}

struct TaskSpan {
    name: Arc<str>,
    handles: usize,
}

impl TaskNames {
    /// Tells whether a span is that of a task.
    pub(super) fn is_task(metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "task"
    }

    pub(super) fn add(&self, attributes: &Attributes<'_>) -> Id {
        let mut name = NameVisitor::default();
        attributes.record(&mut name);
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.spans().insert(id, TaskSpan { name: name.0.into(), handles: 1 });
        Id::from_u64(id)
    }

    pub(super) fn clone_handle(&self, id: &Id) {
        if let Some(span) = self.spans().get_mut(&id.into_u64()) {
            span.handles += 1;
        }
    }

    /// Drops a handle. Returns whether it was the last one.
    pub(super) fn drop_handle(&self, id: &Id) -> bool {
        let mut spans = self.spans();
        let Some(span) = spans.get_mut(&id.into_u64()) else { return false };
        span.handles = span.handles.saturating_sub(1);
        let is_last = span.handles == 0;
        if is_last {
            spans.remove(&id.into_u64());
        }
        is_last
    }

    pub(super) fn enter(id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }

    pub(super) fn exit(id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(at) = entered.iter().rposition(|entered| *entered == id.into_u64()) {
                entered.remove(at);
            }
        });
    }

    /// Returns the name of the task this thread is in.
    pub(super) fn current(&self) -> Option<Arc<str>> {
        let innermost = ENTERED.with_borrow(|entered| entered.last().copied())?;
        self.spans().get(&innermost).map(|span| span.name.clone())
    }

    fn spans(&self) -> MutexGuard<'_, HashMap<u64, TaskSpan>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct NameVisitor(String);

impl Visit for NameVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "name" {
            self.0 = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "name" {
            value.clone_into(&mut self.0);
        }
    }
}
