//! The state of the emulated Telegram: chats, messages, files, and the updates that wait for the bot.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Clock, WallClock};
use serde_json::{Map, Value, json};

use super::call::{FakeTelegramCall, FakeTelegramError, Result};
use super::fault::TelegramFault;
use super::markdown::FakeTelegramEntity;

/// A message of the bot.
#[derive(Debug, Clone, Default)]
pub struct FakeTelegramMessage {
    pub id: i64,
    pub chat: i64,
    pub thread: Option<i64>,
    /// The kind: `text`, `photo`, `document`, …
    pub kind: String,
    /// The current text or caption as users see it, without markup.
    pub text: String,
    pub entities: Vec<FakeTelegramEntity>,
    pub reply_to: Option<i64>,
    /// The buttons below it, row by row.
    pub buttons: Vec<FakeTelegramButton>,
    /// The name and the bytes of the file sent with it.
    pub file: Option<(String, Vec<u8>)>,
    /// The texts it had before, oldest first.
    pub earlier: Vec<String>,
    /// The parameters it was sent with.
    pub fields: Map<String, Value>,
}

/// A button below a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeTelegramButton {
    pub text: String,
    pub data: String,
}

#[derive(Debug, Clone)]
pub(super) struct FakeTelegramChat {
    pub(super) id: i64,
    pub(super) kind: &'static str,
    pub(super) title: String,
    pub(super) topics: BTreeMap<i64, String>,
    /// True when the user has blocked the bot.
    pub(super) blocked: bool,
    pub(super) migrated_to: Option<i64>,
}

impl FakeTelegramChat {
    pub(super) fn to_json(&self) -> Value {
        if self.kind == "private" {
            return json!({"id": self.id, "type": self.kind, "first_name": self.title});
        }
        let forum = !self.topics.is_empty();
        json!({"id": self.id, "type": self.kind, "title": self.title, "is_forum": forum})
    }
}

#[derive(Debug, Clone)]
pub(super) struct FakeTelegramWebhook {
    pub(super) url: String,
    pub(super) secret: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct FakeTelegramFile {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    /// The claimed size, which may differ from the number of bytes.
    pub(super) size: usize,
}

/// The limits on how fast a bot may write.
#[derive(Debug)]
pub(super) struct FloodLimit {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) sent: VecDeque<(Duration, i64)>,
}

#[derive(Debug)]
pub(super) struct FakeTelegramState {
    pub(super) token: String,
    pub(super) bot: Value,
    pub(super) chats: BTreeMap<i64, FakeTelegramChat>,
    pub(super) people: BTreeMap<i64, Value>,
    pub(super) pending: VecDeque<(i64, Value)>,
    pub(super) posted: Vec<FakeTelegramMessage>,
    /// All messages, by chat and id.
    pub(super) messages: BTreeMap<(i64, i64), Value>,
    pub(super) files: BTreeMap<String, FakeTelegramFile>,
    /// The contents Telegram finds on the web, by URL: a MIME type and bytes.
    pub(super) web: BTreeMap<String, (String, Vec<u8>)>,
    pub(super) hook: Option<FakeTelegramWebhook>,
    /// The response statuses of webhook deliveries, 0 for none.
    pub(super) delivered: Vec<u16>,
    /// The callback queries and the texts with which they were answered.
    pub(super) queries: BTreeMap<String, Option<String>>,
    pub(super) reactions: BTreeMap<(i64, i64), String>,
    pub(super) commands: Value,
    pub(super) actions: Vec<(i64, Option<i64>, String)>,
    pub(super) faults: BTreeMap<String, VecDeque<TelegramFault>>,
    pub(super) calls: Vec<(String, Map<String, Value>)>,
    /// The number of the latest poll; older ones are ended.
    pub(super) poll: u64,
    pub(super) flood: Option<FloodLimit>,
    pub(super) next_message: i64,
    pub(super) next_update: i64,
    pub(super) unknown_methods: Vec<String>,
    /// The date of messages; `None` means now.
    pub(super) date: Option<i64>,
}

impl FakeTelegramState {
    pub(super) fn new(token: &str) -> Self {
        let id: i64 = token.split(':').next().and_then(|id| id.parse().ok()).unwrap_or(1);
        Self {
            token: token.to_owned(),
            bot: json!({"id": id, "is_bot": true, "first_name": "Hermes", "username": "hermes_bot",
                "can_join_groups": true, "can_read_all_group_messages": true, "supports_inline_queries": false}),
            chats: BTreeMap::new(),
            people: BTreeMap::new(),
            pending: VecDeque::new(),
            posted: Vec::new(),
            messages: BTreeMap::new(),
            files: BTreeMap::new(),
            web: BTreeMap::new(),
            hook: None,
            delivered: Vec::new(),
            queries: BTreeMap::new(),
            reactions: BTreeMap::new(),
            commands: Value::Null,
            actions: Vec::new(),
            faults: BTreeMap::new(),
            calls: Vec::new(),
            poll: 0,
            flood: None,
            next_message: 100,
            next_update: 5000,
            unknown_methods: Vec::new(),
            date: None,
        }
    }

    pub(super) fn message_id(&mut self) -> i64 {
        self.next_message += 1;
        self.next_message
    }

    /// Returns the date of a message in seconds.
    pub(super) fn date(&self) -> i64 {
        let now = || WallClock::default().now().seconds();
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds are what Telegram tells")]
        self.date.unwrap_or_else(|| now() as i64)
    }

    /// Adds an update to the bot's queue.
    pub(super) fn announce(&mut self, kind: &str, what: Value) -> i64 {
        let id = self.next_update;
        self.next_update += 1;
        let mut update = Map::new();
        update.insert("update_id".to_owned(), json!(id));
        update.insert(kind.to_owned(), what);
        self.pending.push_back((id, Value::Object(update)));
        id
    }

    /// Returns the chat of a call, if the bot may write there.
    pub(super) fn writable(&self, call: &FakeTelegramCall) -> Result<&FakeTelegramChat> {
        let id = call.number("chat_id").ok_or_else(|| FakeTelegramError::bad("chat_id is empty"))?;
        let chat = self.chats.get(&id).ok_or_else(|| FakeTelegramError::bad("chat not found"))?;
        if let Some(new) = chat.migrated_to {
            let mut refusal = FakeTelegramError::bad("group chat was upgraded to a supergroup chat");
            refusal.parameters = json!({"migrate_to_chat_id": new});
            return Err(refusal);
        }
        if chat.blocked {
            return Err(FakeTelegramError::new(403, "Forbidden: bot was blocked by the user"));
        }
        if let Some(thread) = call.number("message_thread_id")
            && !chat.topics.contains_key(&thread)
        {
            return Err(FakeTelegramError::bad("message thread not found"));
        }
        Ok(chat)
    }

    /// Applies the limits: thirty messages a second in total, one in each chat.
    pub(super) fn admit(&mut self, chat: i64) -> Result<()> {
        let Some(flood) = &mut self.flood else { return Ok(()) };
        let now = flood.clock.monotonic();
        let second = Duration::from_secs(1);
        while flood.sent.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= second) {
            flood.sent.pop_front();
        }
        if flood.sent.len() >= 30 || flood.sent.iter().any(|(_, known)| *known == chat) {
            return Err(FakeTelegramError::too_many(1));
        }
        flood.sent.push_back((now, chat));
        Ok(())
    }

    pub(super) fn store(&mut self, path: &str, bytes: Vec<u8>) -> Value {
        let number = self.files.len();
        let id = format!("file{number}");
        let size = bytes.len();
        let path = format!("{number}/{path}");
        self.files.insert(id.clone(), FakeTelegramFile { path, bytes, size });
        json!({"file_id": id, "file_unique_id": format!("unique{number}"), "file_size": size})
    }
}
