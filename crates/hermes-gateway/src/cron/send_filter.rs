//! Keeps a run from sending its answer to a chat that receives it anyway, which would deliver it twice.

use std::sync::Arc;

use hermes_schedule::Job;
use hermes_types::{
    BoxFuture, CallPolicy, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent, ToolInvocation, ToolOutcome,
    ToolSpec,
};
use serde_json::{Map, Value, json};

use super::job_destinations::JobAddressing;
use crate::deliver::ChatDestination;

const SEND: &str = "send_message";

/// The send tool, without the chats the job is delivered to.
struct FilteredSendTool {
    inner: Arc<dyn Tool>,
    addressing: JobAddressing,
    own: Vec<ChatDestination>,
}

/// Wraps the send tool, where a run has one, in the filter.
pub(super) async fn filter_own_targets(addressing: &JobAddressing, job: &Job, tools: &mut [Arc<dyn Tool>]) {
    for tool in tools.iter_mut().filter(|tool| tool.spec().name == SEND) {
        let own = addressing.resolve(job).await.found;
        *tool = Arc::new(FilteredSendTool { inner: tool.clone(), addressing: addressing.clone(), own });
    }
}

impl FilteredSendTool {
    /// Tells whether a target is one of the job's own destinations.
    fn is_own(&self, target: &str) -> bool {
        let meant = self.addressing.find_target(target);
        meant.is_some_and(|meant| self.own.iter().any(|own| own.is_same_chat(&meant)))
    }
}

impl Tool for FilteredSendTool {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        self.inner.descriptor()
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let target = call.arguments.get("target").and_then(Value::as_str).unwrap_or_default();
        if !self.is_own(target) {
            return self.inner.run(call, context);
        }
        let answer = json!({
            "success": true,
            "skipped": true,
            "reason": "cron_auto_delivery_duplicate_target",
            "target": target,
            "note": "Nothing was sent: the final answer of this job is delivered there by itself. Put what you want to say into it.",
        });
        Box::pin(std::future::ready(ToolOutcome::done(answer.to_string())))
    }

    fn call_policy(&self, arguments: &Map<String, Value>) -> CallPolicy {
        self.inner.call_policy(arguments)
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        self.inner.on_event(task, occasion);
    }

    fn end_background_work(&self, task: &TaskId) {
        self.inner.end_background_work(task);
    }

    fn carry_over(&self, task: &TaskId) -> Option<String> {
        self.inner.carry_over(task)
    }
}
