//! `send_message`: to a chat of any platform.

use std::sync::Arc;

use hermes_guard::{Redaction, redact};
use hermes_types::{BoxFuture, Call, Courier, Outcome, Tool, ToolContext, ToolSpec};
use serde_json::json;

use crate::answer;
use crate::argument::{missing, spec, text};

/// The tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SendMessage {
    spec: ToolSpec,
    courier: Arc<dyn Courier>,
}

impl SendMessage {
    pub fn new(courier: Arc<dyn Courier>) -> Self {
        let spec = spec(
            "send_message",
            include_str!("texts/send_message.md"),
            include_str!("texts/send_message.json"),
        );
        Self { spec, courier }
    }

    async fn execute(&self, call: &Call) -> Outcome {
        if text(&call.arguments, "action") == Some("list") {
            return answer::done(&json!({"targets": self.courier.targets().await}));
        }
        let Some(target) = text(&call.arguments, "target") else { return missing("send_message", "target") };
        let Some(message) = text(&call.arguments, "message") else {
            return missing("send_message", "message");
        };
        match self.courier.deliver(target, message, Some(&call.session)).await {
            Ok(sent) => {
                let mut result = json!({"success": true, "platform": sent.platform, "chat_id": sent.chat_id, "mirrored": sent.mirrored});
                if let Some(id) = sent.receipt.message_ids.first() {
                    result["message_id"] = json!(id);
                } else {
                    result["warnings"] = json!(["queued; it leaves when the platform takes it"]);
                }
                if let Some(note) = sent.note {
                    result["note"] = json!(note);
                }
                answer::done(&result)
            }
            Err(error) => answer::failed(&json!({"error": redact(&error.to_string(), Redaction::default())})),
        }
    }
}

impl Tool for SendMessage {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a Call, _: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(self.execute(call))
    }
}
