//! What is known about each conversation: the webhook of its newest message, and who is in it.

use std::sync::{Mutex, PoisonError};

use hermes_types::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::host::ChannelHost;

const DOCUMENT: &str = "dingtalk_chats.json";
const MAX_CHATS: usize = 500;
/// The time before its end after which a webhook is not used, in milliseconds.
const MARGIN_MS: f64 = 30_000.0;

/// A conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KnownChat {
    pub(super) id: String,
    pub(super) webhook: String,
    /// Until when the webhook is valid, in milliseconds.
    pub(super) expires: f64,
    pub(super) robot: String,
    /// The person, in a conversation with one.
    pub(super) staff: Option<String>,
    pub(super) is_group: bool,
}

impl KnownChat {
    /// Tells whether the webhook is still valid.
    pub(super) fn has_webhook(&self, now: Timestamp) -> bool {
        !self.webhook.is_empty() && now.seconds() * 1000.0 + MARGIN_MS < self.expires
    }
}

/// The newest conversations, the oldest first.
#[derive(Debug, Default)]
pub(super) struct KnownChats(Mutex<Vec<KnownChat>>);

impl KnownChats {
    pub(super) fn load(host: &dyn ChannelHost) -> Self {
        let stored = host.load_document(DOCUMENT).and_then(|value| serde_json::from_value(value).ok());
        Self(Mutex::new(stored.unwrap_or_default()))
    }

    pub(super) fn find(&self, id: &str) -> Option<KnownChat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|chat| chat.id == id).cloned()
    }

    pub(super) fn remember(&self, chat: KnownChat, host: &dyn ChannelHost) {
        let mut chats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if chats.contains(&chat) {
            return;
        }
        chats.retain(|known| known.id != chat.id);
        chats.push(chat);
        let surplus = chats.len().saturating_sub(MAX_CHATS);
        chats.drain(..surplus);
        host.save_document(DOCUMENT, &json!(*chats));
    }
}
