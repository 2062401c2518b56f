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
    pub place: Place,
    pub sender: Sender,
    pub parts: Vec<Piece>,
    /// The platform's id of the message this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    pub received_at: Timestamp,
}

/// Where a conversation takes place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    pub chat_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    pub kind: ChatKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// What sort of chat it is: groups and direct messages follow different rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    Dm,
    Group,
    Channel,
    Thread,
}

/// Who wrote it. An absent id means the platform did not say, which never counts as allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
}

/// One piece of an incoming or outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Piece {
    Text { text: String },
    File(Attachment),
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
pub struct Reply {
    pub platform: String,
    pub place: Place,
    /// Markdown; the channel renders it.
    pub pieces: Vec<Piece>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The same for every attempt at sending this reply, so that a platform can refuse a second one.
    pub idempotency_key: String,
}

/// What the platform said to a send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The platform's ids of what was sent, one per part it was split into.
    pub message_ids: Vec<String>,
    pub certainty: Certainty,
}

/// Whether a send surely happened once, or may have happened twice because the connection died in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    Once,
    AtLeastOnce,
}
