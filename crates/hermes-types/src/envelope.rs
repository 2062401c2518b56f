//! What comes in and what goes out, whatever the surface: terminal, chat platform, API, schedule.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// A message from outside, before anything has been done about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The surface: `cli`, `telegram`, `api_server`, `cron`, …
    pub platform: String,
    /// What the platform calls this message. Unique per platform: a second delivery is recognised by it.
    pub platform_key: String,
    pub place: ChatAddress,
    pub sender: Sender,
    pub parts: Vec<ChatPart>,
    /// What an answer refers to, where that is not the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The platform's id of the message this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// What that message says, where the platform tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to_text: Option<String>,
    /// A skill the place is bound to; loaded when a conversation begins there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// More of the same may follow within so many milliseconds: long messages and albums arrive in pieces. What is said
    /// within that time is answered together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quiet_ms: u64,
    pub received_at: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Envelope {
    /// What was written, without the files.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|piece| match piece {
                ChatPart::Text { text } => Some(text.as_str()),
                ChatPart::File(_) | ChatPart::Picture(_) => None,
            })
            .collect();
        texts.join("\n")
    }

    pub fn files(&self) -> impl Iterator<Item = &Attachment> {
        self.parts.iter().filter_map(|piece| match piece {
            ChatPart::File(file) => Some(file),
            ChatPart::Text { .. } | ChatPart::Picture(_) => None,
        })
    }
}

/// Where a conversation takes place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChatAddress {
    pub chat_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    pub kind: ChatKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// What the chat is about, as its members wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Another id of the same chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_id: Option<String>,
}

impl ChatAddress {
    /// A place nothing else is known about.
    pub fn new(kind: ChatKind, chat_id: impl Into<String>) -> Self {
        Self { chat_id: chat_id.into(), chat_name: None, kind, thread_id: None, topic: None, alt_id: None }
    }
}

/// What sort of chat it is: groups and direct messages follow different rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    Dm,
    Group,
    Channel,
    Thread,
    Webhook,
}

impl ChatKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Thread => "thread",
            Self::Webhook => "webhook",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Dm, Self::Group, Self::Channel, Self::Thread, Self::Webhook]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// Who wrote it. An absent id means the platform did not say, which never counts as allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// Another id of the same person, more lasting than the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_id: Option<String>,
    /// The name the platform makes sure nobody else has, as users write it into lists: `alice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// One piece of an incoming or outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatPart {
    Text {
        text: String,
    },
    File(Attachment),
    /// Goes out only.
    Picture(WebImage),
}

/// A picture on the web that is to be shown in a chat. It is wherever its address says; nobody has fetched it yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebImage {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
}

impl WebImage {
    /// What is said where it cannot be shown: nothing of it is lost.
    pub fn fallback_text(&self) -> String {
        let line = format!("🖼️ Image: {}", self.url);
        match &self.caption {
            Some(caption) => format!("{caption}\n{line}"),
            None => line,
        }
    }
}

/// A file that came with a message or goes out with one; its bytes are on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub kind: AttachmentKind,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
}

/// How a platform should show a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentKind {
    Image,
    Audio,
    Voice,
    Video,
    Document,
}

/// What is to be said, before it is put into a channel's dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutgoingMessage {
    pub platform: String,
    pub place: ChatAddress,
    /// Markdown; the channel renders it.
    pub pieces: Vec<ChatPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// What the reader may answer with a touch, where the platform has buttons; the text says the same in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<QuickReply>,
    /// A message that was posted while the answer was being written; this text takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// The same for every attempt at sending this reply, so that a platform can refuse a second one.
    pub idempotency_key: String,
}

/// Something to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuickReply {
    /// What the button says.
    pub label: String,
    /// What choosing it means, as if the person had written it.
    pub text: String,
}

/// What the platform said to a send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryReceipt {
    /// The platform's ids of what was sent, one per part it was split into.
    pub message_ids: Vec<String>,
    pub certainty: DeliveryCertainty,
}

/// Whether a send surely happened once, or may have happened twice because the connection died in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryCertainty {
    Once,
    AtLeastOnce,
}
