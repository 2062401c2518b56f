//! A tool that records which conversations have ended.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::{BoxFuture, TaskId, Tool, ToolContext, ToolEvent, ToolInvocation, ToolOutcome, ToolSpec};

use crate::PlainTool;

/// The tool; it does nothing else.
#[derive(Debug)]
pub struct EndRecordingTool {
    inner: PlainTool,
    pub ended: Mutex<Vec<String>>,
}

impl EndRecordingTool {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { inner: PlainTool::named("witness"), ended: Mutex::default() })
    }
}

impl Tool for EndRecordingTool {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        self.inner.run(call, context)
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        if let ToolEvent::Ended = occasion {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(task.as_str().to_owned());
        }
    }
}
