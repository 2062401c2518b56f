//! A tool that remembers which conversations have ended.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::{BoxFuture, Call, Occasion, Outcome, TaskId, Tool, ToolContext, ToolSpec};

use crate::Plain;

/// The tool; it does nothing else.
#[derive(Debug)]
pub struct Witness {
    inner: Plain,
    pub ended: Mutex<Vec<String>>,
}

impl Witness {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { inner: Plain::named("witness"), ended: Mutex::default() })
    }
}

impl Tool for Witness {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn run<'a>(&'a self, call: &'a Call, context: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        self.inner.run(call, context)
    }

    fn notice(&self, task: &TaskId, occasion: Occasion<'_>) {
        if let Occasion::Ended = occasion {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(task.as_str().to_owned());
        }
    }
}
