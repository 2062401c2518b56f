//! `send_message`: sends a message to a chat on any platform.

use std::sync::Arc;

use hermes_guard::{Redaction, redact};
use hermes_types::{
    BoxFuture, MessageSender, ResultAuthor, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome,
    ToolSpec, ToolUser,
};
use serde_json::json;

use crate::answer;
use crate::argument::{missing, spec, text};

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "send_message",
    toolset: "messaging",
    summary: "Sends a message to a chat on any platform",
    condition: "in chats, and in the terminal while a gateway runs",
    icon: "📨",
    verb: "send",
    preview_arguments: &["action", "target"],
    withheld_from: &[ToolUser::Editor, ToolUser::ApiClient, ToolUser::Job, ToolUser::Subagent],
    result_author: ResultAuthor::Tool,
    ..ToolDescriptor::unknown("")
};

/// The `send_message` tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SendMessageTool {
    spec: ToolSpec,
    sender: Arc<dyn MessageSender>,
}

impl SendMessageTool {
    pub fn new(sender: Arc<dyn MessageSender>) -> Self {
        let spec =
            spec(&DESCRIPTOR, include_str!("texts/send_message.md"), include_str!("texts/send_message.json"));
        Self { spec, sender }
    }

    async fn execute(&self, call: &ToolInvocation) -> ToolOutcome {
        if text(&call.arguments, "action") == Some("list") {
            return answer::success_json(&json!({"targets": self.sender.targets().await}));
        }
        let Some(target) = text(&call.arguments, "target") else { return missing("send_message", "target") };
        let Some(message) = text(&call.arguments, "message") else {
            return missing("send_message", "message");
        };
        match self.sender.deliver(target, message, Some(&call.session)).await {
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
                answer::success_json(&result)
            }
            Err(error) => {
                answer::failure_json(&json!({"error": redact(&error.to_string(), Redaction::default())}))
            }
        }
    }
}

impl Tool for SendMessageTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.execute(call))
    }
}
