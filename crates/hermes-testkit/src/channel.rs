//! A chat platform inside the test: users write through it, answers arrive in it, and it fails on request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, ChatKind, ChatPart,
    ConnectionStatus, DeliveryCertainty, DeliveryReceipt, Envelope, Intake, LengthUnit, MessageStatus,
    OutgoingMessage, Sender, Timestamp,
};

use crate::watched_value::WatchedValue;

/// A message the bot wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct PostedMessage {
    pub id: String,
    pub chat: String,
    /// The current text.
    pub text: String,
    /// The paths of files sent with it.
    pub files: Vec<String>,
    pub reply_to: Option<String>,
    /// The texts its buttons send when pressed.
    pub choices: Vec<String>,
    /// The texts it had before, oldest first.
    pub earlier: Vec<String>,
    /// The key it was sent with; `None` for a message that is not an answer.
    pub key: Option<String>,
}

/// Says how the next send fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendFault {
    /// The message is not sent; a retry helps.
    Retry,
    /// The message will never be sent.
    Refuse,
    /// The message is sent, but its confirmation is lost.
    TakeAndFail,
    /// The call neither succeeds nor fails.
    Hang,
}

#[derive(Debug, Default)]
struct FakePlatformState {
    incoming: VecDeque<Envelope>,
    acknowledged: Vec<String>,
    posted: Vec<PostedMessage>,
    faults: VecDeque<SendFault>,
    /// The errors with which `listen` ends.
    breaks: VecDeque<ChannelError>,
    listened: usize,
    marks: Vec<(String, MessageStatus)>,
    typing: usize,
    count: u64,
}

/// The fake platform. Clones share their state.
#[derive(Debug, Clone)]
pub struct FakeChannel {
    name: String,
    abilities: ChannelCapabilities,
    platform: Arc<WatchedValue<FakePlatformState>>,
}

impl FakeChannel {
    pub fn new(name: &str) -> Self {
        let abilities = ChannelCapabilities {
            max_length: 2000,
            unit: LengthUnit::Scalars,
            edits: true,
            web_images: true,
            typing_interval: Duration::from_secs(2),
        };
        Self {
            name: name.to_owned(),
            abilities,
            platform: Arc::new(WatchedValue::new(FakePlatformState::default())),
        }
    }

    #[must_use]
    pub fn with(self, abilities: ChannelCapabilities) -> Self {
        Self { abilities, ..self }
    }

    /// Builds a message from the user `user` in their direct chat.
    pub fn envelope(&self, user: &str, text: &str) -> Envelope {
        let key = self.platform.update(|platform| {
            platform.count += 1;
            platform.count
        });
        Envelope {
            platform: self.name.clone(),
            platform_key: key.to_string(),
            place: ChatAddress::new(ChatKind::Dm, format!("chat-{user}")),
            sender: Sender {
                user_id: Some(user.to_owned()),
                user_name: Some(format!("{user}'s name")),
                alt_id: None,
                handle: None,
            },
            parts: vec![ChatPart::Text { text: text.to_owned() }],
            message_id: Some(format!("m{key}")),
            reply_to: None,
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            // Later than the clock of any test, so that no message is too old by accident.
            received_at: Timestamp(4_000_000_000.0),
        }
    }

    /// Delivers a message that a user writes in their direct chat.
    pub fn write(&self, user: &str, text: &str) {
        let envelope = self.envelope(user, text);
        self.deliver(envelope);
    }

    /// Delivers a message; may be called repeatedly for the same one.
    pub fn deliver(&self, envelope: Envelope) {
        self.platform.update(|platform| platform.incoming.push_back(envelope));
    }

    /// Makes the next send fail like this; a further call applies to the one after.
    pub fn fail_next(&self, fault: SendFault) {
        self.platform.update(|platform| platform.faults.push_back(fault));
    }

    /// Waits until every send that is to fail has begun.
    pub async fn until_failed(&self) {
        self.platform.until(|platform| platform.faults.is_empty().then_some(())).await;
    }

    /// Makes the next `listen` end with this error; a further call applies to the one after.
    pub fn break_next(&self, error: ChannelError) {
        self.platform.update(|platform| platform.breaks.push_back(error));
    }

    /// Returns how often `listen` was called.
    pub fn listened(&self) -> usize {
        self.platform.read(|platform| platform.listened)
    }

    /// Waits for this many status marks; returns them in the order in which they were set.
    pub async fn until_marked(&self, count: usize) -> Vec<(String, MessageStatus)> {
        self.platform.until(|platform| (platform.marks.len() >= count).then(|| platform.marks.clone())).await
    }

    pub fn posted(&self) -> Vec<PostedMessage> {
        self.platform.read(|platform| platform.posted.clone())
    }

    /// Returns the current texts in a user's direct chat.
    pub fn texts(&self, user: &str) -> Vec<String> {
        let chat = format!("chat-{user}");
        self.posted().into_iter().filter(|posted| posted.chat == chat).map(|posted| posted.text).collect()
    }

    /// Returns the keys of messages that were acknowledged to the platform.
    pub fn acknowledged(&self) -> Vec<String> {
        self.platform.read(|platform| platform.acknowledged.clone())
    }

    pub fn typing(&self) -> usize {
        self.platform.read(|platform| platform.typing)
    }

    /// Waits until `look` finds what it wants in the chats.
    pub async fn until<R>(&self, mut look: impl FnMut(&[PostedMessage]) -> Option<R>) -> R {
        self.platform.until(|platform| look(&platform.posted)).await
    }

    /// Waits for a text that contains `part` in a user's direct chat.
    pub async fn until_said(&self, user: &str, part: &str) -> String {
        let chat = format!("chat-{user}");
        let found = |posted: &[PostedMessage]| {
            posted
                .iter()
                .find(|posted| posted.chat == chat && posted.text.contains(part))
                .map(|p| p.text.clone())
        };
        self.until(found).await
    }

    pub async fn until_acknowledged(&self, count: usize) {
        self.platform.until(|platform| (platform.acknowledged.len() >= count).then_some(())).await;
    }

    pub async fn until_typing(&self) {
        self.platform.until(|platform| (platform.typing > 0).then_some(())).await;
    }

    fn put(&self, place: &ChatAddress, text: String, reply: Option<&OutgoingMessage>) -> String {
        self.platform.update(|platform| {
            let id = format!("b{}", platform.posted.len() + 1);
            let files = reply.into_iter().flat_map(|reply| &reply.pieces).filter_map(|piece| match piece {
                ChatPart::File(file) => Some(file.path.clone()),
                ChatPart::Picture(picture) => Some(picture.url.clone()),
                ChatPart::Text { .. } => None,
            });
            platform.posted.push(PostedMessage {
                id: id.clone(),
                chat: place.chat_id.clone(),
                text,
                files: files.collect(),
                reply_to: reply.and_then(|reply| reply.reply_to.clone()),
                choices: reply
                    .map(|reply| reply.choices.iter().map(|c| c.text.clone()).collect())
                    .unwrap_or_default(),
                earlier: Vec::new(),
                key: reply.map(|reply| reply.idempotency_key.clone()),
            });
            id
        })
    }
}

impl Channel for FakeChannel {
    fn platform(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> ChannelCapabilities {
        self.abilities
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            let broken = self.platform.update(|platform| {
                platform.listened += 1;
                platform.breaks.pop_front()
            });
            if let Some(error) = broken {
                return Err(error);
            }
            intake.report_connection(&self.name, ConnectionStatus::Up);
            loop {
                let next = self.platform.until(|platform| platform.incoming.front().cloned());
                let envelope = tokio::select! {
                    envelope = next => envelope,
                    () = cancel.cancelled() => return Ok(()),
                };
                let key = envelope.platform_key.clone();
                if intake.accept(envelope).await.is_ok() {
                    self.platform.update(|platform| {
                        platform.incoming.pop_front();
                        platform.acknowledged.push(key);
                    });
                }
            }
        })
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(async move {
            let retry =
                || ChannelError::Retry { after: None, reason: "the fake platform is busy".to_owned() };
            match self.platform.update(|platform| platform.faults.pop_front()) {
                Some(SendFault::Retry) => return Err(retry()),
                Some(SendFault::Refuse) => {
                    return Err(ChannelError::Refused("the fake platform said no".to_owned()));
                }
                Some(SendFault::Hang) => std::future::pending::<()>().await,
                Some(SendFault::TakeAndFail) => {
                    self.put(&reply.place, text_of(reply), Some(reply));
                    return Err(ChannelError::DeliveryUnknown("the fake platform hung up".to_owned()));
                }
                None => {}
            }
            let id = self.put(&reply.place, text_of(reply), Some(reply));
            Ok(DeliveryReceipt { message_ids: vec![id], certainty: DeliveryCertainty::Once })
        })
    }

    fn post<'a>(
        &'a self,
        place: &'a ChatAddress,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, ChannelError>> {
        Box::pin(async move { Ok(self.put(place, text.to_owned(), None)) })
    }

    fn edit<'a>(
        &'a self,
        _: &'a ChatAddress,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            self.platform.update(|platform| {
                let found = platform.posted.iter_mut().find(|posted| posted.id == message);
                let Some(posted) = found else {
                    return Err(ChannelError::Refused("no such message".to_owned()));
                };
                let before = std::mem::replace(&mut posted.text, text.to_owned());
                posted.earlier.push(before);
                Ok(())
            })
        })
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.platform.update(|platform| platform.typing += 1) })
    }

    fn show_message_status<'a>(
        &'a self,
        _: &'a ChatAddress,
        message: &'a str,
        mark: MessageStatus,
    ) -> BoxFuture<'a, ()> {
        Box::pin(
            async move { self.platform.update(|platform| platform.marks.push((message.to_owned(), mark))) },
        )
    }
}

fn text_of(reply: &OutgoingMessage) -> String {
    let texts = reply.pieces.iter().filter_map(|piece| match piece {
        ChatPart::Text { text } => Some(text.as_str()),
        ChatPart::Picture(picture) => picture.caption.as_deref(),
        ChatPart::File(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
