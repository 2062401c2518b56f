//! Keeps a run from sending its answer to a chat that receives it anyway, which would deliver it twice.

use std::sync::Arc;

use hermes_schedule::{DeliveryTarget, Job, parse_targets};
use hermes_types::{
    BoxFuture, CallPolicy, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent, ToolInvocation, ToolOutcome,
    ToolSpec,
};
use serde_json::{Map, Value, json};

use super::destination::{ChatDestination, home_destination};
use crate::gateway::Gateway;

const SEND: &str = "send_message";

/// The send tool, without the chats the job is delivered to.
struct FilteredSendTool {
    inner: Arc<dyn Tool>,
    gateway: Gateway,
    own: Vec<ChatDestination>,
}

impl Gateway {
    /// Wraps the send tool, where a run has one, in the filter.
    pub(super) async fn filter_own_targets(
        &self,
        job: &Job,
        mut tools: Vec<Arc<dyn Tool>>,
    ) -> Vec<Arc<dyn Tool>> {
        for tool in tools.iter_mut().filter(|tool| tool.spec().name == SEND) {
            let own = self.job_destinations(job).await.found;
            *tool = Arc::new(FilteredSendTool { inner: tool.clone(), gateway: self.clone(), own });
        }
        tools
    }
}

impl FilteredSendTool {
    /// Tells whether a target is one of the job's own destinations.
    fn is_own(&self, target: &str) -> bool {
        let settings = self.gateway.settings.current();
        let meant = match parse_targets(target).into_iter().next() {
            Some(DeliveryTarget::Platform(platform)) => home_destination(&settings, &platform),
            Some(DeliveryTarget::Chat { platform, chat, thread }) => {
                let named = self.gateway.find_chat_by_name(&platform, &chat).ok().flatten();
                let (chat, of_name) = named.unwrap_or((chat, None));
                Some(ChatDestination::new(&platform, chat, thread.or(of_name)))
            }
            _ => None,
        };
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
