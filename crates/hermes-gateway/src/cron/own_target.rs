//! A run that sends its answer by hand to where it is delivered anyway would say everything twice.

use std::sync::Arc;

use hermes_schedule::{Job, Target, targets};
use hermes_types::{BoxFuture, Call, Manner, Occasion, Outcome, TaskId, Tool, ToolContext, ToolSpec};
use serde_json::{Map, Value, json};

use super::address::{Address, home};
use crate::gateway::Gateway;

const SEND: &str = "send_message";

/// The tool that sends, without the chats the job is delivered to.
struct Spared {
    inner: Arc<dyn Tool>,
    gateway: Gateway,
    own: Vec<Address>,
}

impl Gateway {
    /// Puts a guard before the tool that sends messages, where a run has one.
    pub(super) async fn spare_own_targets(&self, job: &Job, tools: &mut [Arc<dyn Tool>]) {
        for tool in tools.iter_mut().filter(|tool| tool.spec().name == SEND) {
            let own = self.addresses(job).await.found;
            *tool = Arc::new(Spared { inner: tool.clone(), gateway: self.clone(), own });
        }
    }
}

impl Spared {
    /// Whether a target is one of the job's own.
    fn is_own(&self, target: &str) -> bool {
        let settings = self.gateway.live.now();
        let meant = match targets(target).into_iter().next() {
            Some(Target::Platform(platform)) => home(&settings, &platform),
            Some(Target::Chat { platform, chat, thread }) => {
                let named = self.gateway.by_name(&platform, &chat).ok().flatten();
                let (chat, of_name) = named.unwrap_or((chat, None));
                Some(Address::new(&platform, chat, thread.or(of_name)))
            }
            _ => None,
        };
        meant.is_some_and(|meant| self.own.iter().any(|own| own.same(&meant)))
    }
}

impl Tool for Spared {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn run<'a>(&'a self, call: &'a Call, context: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
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
        Box::pin(std::future::ready(Outcome::done(answer.to_string())))
    }

    fn manner(&self, arguments: &Map<String, Value>) -> Manner {
        self.inner.manner(arguments)
    }

    fn notice(&self, task: &TaskId, occasion: Occasion<'_>) {
        self.inner.notice(task, occasion);
    }

    fn abandon(&self, task: &TaskId) {
        self.inner.abandon(task);
    }

    fn carry_over(&self, task: &TaskId) -> Option<String> {
        self.inner.carry_over(task)
    }
}
