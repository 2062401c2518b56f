//! Incoming and outgoing messages, the same for every platform: terminal, chat platform, API, schedule.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// A message from outside, before it is processed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The platform: `cli`, `telegram`, `api_server`, `cron`, …
    pub platform: String,
    /// The platform's key of this message, unique per platform. A second delivery is recognised by it.
    pub platform_key: String,
    pub place: ChatAddress,
    pub sender: Sender,
    pub parts: Vec<ChatPart>,
    /// The id an answer refers to, where it differs from the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The platform's id of the message this one replies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The text of that message, where the platform provides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to_text: Option<String>,
    /// The skill this chat is bound to; it is loaded when a conversation begins here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The number of milliseconds within which further parts may follow: long messages and albums arrive in
    /// pieces. Messages that arrive within that time are answered together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quiet_ms: u64,
    pub received_at: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Envelope {
    /// Returns the text of the message, without the files.
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

/// The chat a conversation takes place in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChatAddress {
    pub chat_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    pub kind: ChatKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The subject of the chat, as its members wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Another id of the same chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_id: Option<String>,
}

impl ChatAddress {
    /// Builds an address of which only the kind and the id are known.
    pub fn new(kind: ChatKind, chat_id: impl Into<String>) -> Self {
        Self { chat_id: chat_id.into(), chat_name: None, kind, thread_id: None, topic: None, alt_id: None }
    }
}

/// The kind of a chat: groups and direct messages follow different rules.
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

/// The author of a message. An absent id means the platform did not name one, which never counts as allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// Another id of the same person, more permanent than the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_id: Option<String>,
    /// The name that the platform keeps unique, as users write it into allow lists: `alice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// One part of an incoming or outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatPart {
    Text {
        text: String,
    },
    File(Attachment),
    /// A picture from the web, in outgoing messages only.
    Picture(WebImage),
}

/// A picture on the web to be shown in a chat. It has not been downloaded yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebImage {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
}

impl WebImage {
    /// Returns the text to send where the picture cannot be shown, with its URL and caption.
    pub fn fallback_text(&self) -> String {
        let line = format!("🖼️ Image: {}", self.url);
        match &self.caption {
            Some(caption) => format!("{caption}\n{line}"),
            None => line,
        }
    }
}

/// A file received or sent with a message; its bytes are on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub kind: AttachmentKind,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
}

/// The way a platform should show a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentKind {
    Image,
    Audio,
    Voice,
    Video,
    Document,
}

/// A message to send, before the channel converts it to the platform's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutgoingMessage {
    pub platform: String,
    pub place: ChatAddress,
    /// The parts, with text in Markdown; the channel renders it.
    pub pieces: Vec<ChatPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The answers offered as buttons, where the platform has them; the text offers the same in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<QuickReply>,
    /// The platform's id of a message that was posted while the answer was being written; this text replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// The key that is the same for every attempt to send this message, so that a platform can refuse a second
    /// one.
    pub idempotency_key: String,
}

/// An answer offered as a button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuickReply {
    /// The text on the button.
    pub label: String,
    /// The text that choosing it stands for, as if the person had written it.
    pub text: String,
}

/// The platform's response to a send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryReceipt {
    /// The platform's ids of the sent messages, one per part the text was split into.
    pub message_ids: Vec<String>,
    pub certainty: DeliveryCertainty,
}

/// The certainty of a send: it happened exactly once, or may have happened twice because the connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryCertainty {
    Once,
    AtLeastOnce,
}
