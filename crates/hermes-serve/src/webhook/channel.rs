//! Delivers the answers to webhook events.

use std::sync::Arc;

use hermes_gateway::{HelperPrograms, LiveSettings, Outbox};
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, ChatKind, ChatPart,
    DeliveryCertainty, DeliveryReceipt, Intake, OutgoingMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The destination of one event's answer; it is part of the chat address, so that a restart does not lose it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WebhookTarget {
    pub(super) deliver: String,
    pub(super) extra: Map<String, Value>,
}

/// The platform `webhook`, which only sends.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct WebhookChannel {
    outbox: Outbox,
    live: LiveSettings,
    programs: Arc<dyn HelperPrograms>,
}

impl WebhookChannel {
    pub fn new(outbox: Outbox, live: LiveSettings, programs: Arc<dyn HelperPrograms>) -> Self {
        Self { outbox, live, programs }
    }

    async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        let target =
            reply.place.alt_id.as_deref().and_then(|text| serde_json::from_str::<WebhookTarget>(text).ok());
        let Some(WebhookTarget { deliver, extra }) = target else {
            return Err(ChannelError::Refused("the route of this event is not known".to_owned()));
        };
        let text = text_of(reply);
        match deliver.as_str() {
            "log" => {
                let short: String = text.chars().take(200).collect();
                tracing::info!(chat = reply.place.chat_id, "answer to a webhook: {short}");
            }
            "github_comment" => self.post_github_comment(&extra, &text).await?,
            platform => self.forward_to_platform(platform, &extra, reply).await?,
        }
        Ok(DeliveryReceipt { message_ids: Vec::new(), certainty: DeliveryCertainty::Once })
    }

    async fn post_github_comment(&self, extra: &Map<String, Value>, text: &str) -> Result<(), ChannelError> {
        let number = extra
            .get("pr_number")
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let number = number.filter(|number| number.parse::<u64>().is_ok_and(|number| number > 0));
        let repo = extra.get("repo").and_then(Value::as_str).filter(|repo| is_repository(repo));
        let (Some(number), Some(repo)) = (number, repo) else {
            return Err(ChannelError::Refused(
                "`deliver_extra` needs `repo` as owner/name and a `pr_number`".to_owned(),
            ));
        };
        let argv = ["gh", "pr", "comment", &number, "--repo", repo, "--body", text];
        match self.programs.program(&argv).await {
            Ok(_) => Ok(()),
            Err(reason) => Err(ChannelError::Refused(reason)),
        }
    }

    /// Passes the answer to another platform's outbox.
    async fn forward_to_platform(
        &self,
        platform: &str,
        extra: &Map<String, Value>,
        reply: &OutgoingMessage,
    ) -> Result<(), ChannelError> {
        let text = |key: &str| {
            extra.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let chat = text("chat_id").or_else(|| self.live.current().home_channel(platform));
        let Some(chat) = chat else {
            return Err(ChannelError::Refused(format!(
                "there is no chat to send to: set `chat_id` in `deliver_extra`, or the home channel of {platform}"
            )));
        };
        let mut place = ChatAddress::new(ChatKind::Dm, chat);
        place.thread_id = text("thread_id");
        let passed = OutgoingMessage {
            platform: platform.to_owned(),
            place,
            pieces: reply.pieces.clone(),
            reply_to: None,
            choices: Vec::new(),
            draft: None,
            idempotency_key: format!("passed:{}", reply.idempotency_key),
        };
        self.outbox
            .enqueue(passed)
            .await
            .map_err(|error| ChannelError::Retry { after: None, reason: error.to_string() })
    }
}

impl Channel for WebhookChannel {
    fn platform(&self) -> &'static str {
        "webhook"
    }

    fn capabilities(&self) -> ChannelCapabilities {
        // Answers are not read here; they are split again for the platform that shows them.
        ChannelCapabilities { max_length: 60_000, ..ChannelCapabilities::default() }
    }

    fn listen<'a>(
        &'a self,
        _: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            cancel.cancelled().await;
            Ok(())
        })
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply))
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn text_of(reply: &OutgoingMessage) -> String {
    let texts = reply.pieces.iter().filter_map(|piece| match piece {
        ChatPart::Text { text } => Some(text.clone()),
        ChatPart::Picture(picture) => Some(picture.fallback_text()),
        ChatPart::File(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn is_repository(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && part != ".."
    };
    text.split_once('/').is_some_and(|(owner, name)| plain(owner) && plain(name) && !owner.starts_with('-'))
}
