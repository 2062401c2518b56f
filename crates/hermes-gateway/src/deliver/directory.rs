//! `channel_directory.json`: chats by name, for those who send to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_config::{Home, write};
use hermes_types::{CivilTime, Clock};
use serde_json::{Value, json};

use super::Delivery;
use super::chat_names::{self, ChatMatch};
use crate::session::{ChatOrigin, SessionIndex};

/// The chats that are known from conversations, and those the platforms report.
#[derive(Clone)]
pub(crate) struct ChatDirectory {
    index: Arc<SessionIndex>,
    delivery: Delivery,
    clock: Arc<dyn Clock>,
    home: Home,
}

impl ChatDirectory {
    pub(crate) fn new(
        index: Arc<SessionIndex>,
        delivery: Delivery,
        clock: Arc<dyn Clock>,
        home: Home,
    ) -> Self {
        Self { index, delivery, clock, home }
    }

    /// Writes the file. Each chat and thread is listed once, the last used first.
    pub(crate) async fn write(&self) {
        let entries = match self.index.all().await {
            Ok(entries) => entries,
            Err(error) => return tracing::warn!(%error, "the directory of chats was not written"),
        };
        let mut platforms: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for origin in
            entries.into_iter().filter_map(|entry| entry.origin).filter(|origin| !origin.chat_id.is_empty())
        {
            let listed = platforms.entry(origin.platform.clone()).or_default();
            let entry = describe(&origin);
            if !listed.iter().any(|known| known["id"] == entry["id"]) {
                listed.push(entry);
            }
        }
        for platform in self.delivery.platforms() {
            let Some(channel) = self.delivery.channel(&platform) else { continue };
            let listed = platforms.entry(platform).or_default();
            for place in channel.chats().await {
                let name = place.chat_name.as_deref().unwrap_or(&place.chat_id);
                let entry = json!({"id": place.chat_id, "name": name, "type": "channel"});
                if !listed.iter().any(|known| known["id"] == entry["id"]) {
                    listed.push(entry);
                }
            }
        }
        platforms.retain(|_, listed| !listed.is_empty());
        let now = CivilTime::utc(self.clock.now());
        let directory = json!({"updated_at": format!("{now}+00:00"), "platforms": platforms});
        let text = serde_json::to_string_pretty(&directory).unwrap_or_default();
        if let Err(error) = write::replace(&self.home.channel_directory(), text.as_bytes()) {
            tracing::warn!(%error, "the directory of chats was not written");
        }
    }

    /// Returns a chat by its name. A name without `#` may be an id, and is used as one where no chat has that name.
    pub(crate) fn find(&self, platform: &str, chat: &str) -> Result<Option<ChatMatch>, String> {
        let directory = self.read();
        let entries = directory.pointer(&format!("/platforms/{platform}")).and_then(Value::as_array);
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        let is_id = entries.iter().any(|entry| entry.get("id").and_then(Value::as_str) == Some(chat));
        match chat_names::find(entries, chat).filter(|_| !is_id) {
            None if chat.starts_with('#') => Err(format!(
                "{platform} has no channel '{chat}'; `hermes send --list` shows those that are known"
            )),
            found => Ok(found),
        }
    }

    /// Lists the chats, one line each.
    pub(crate) fn list_lines(&self) -> Vec<String> {
        let directory = self.read();
        let mut lines = Vec::new();
        for (platform, chats) in directory.get("platforms").and_then(Value::as_object).into_iter().flatten() {
            for chat in chats.as_array().into_iter().flatten() {
                let field = |key: &str| chat.get(key).and_then(Value::as_str).unwrap_or_default();
                lines.push(format!("{platform}:{} ({}, {})", field("id"), field("name"), field("type")));
            }
        }
        lines
    }

    /// Returns what the conversations know about a chat.
    pub(crate) async fn origin(&self, platform: &str, chat: &str) -> Option<ChatOrigin> {
        let mut origins = self.index.all().await.ok()?.into_iter().filter_map(|entry| entry.origin);
        origins.find(|origin| origin.platform == platform && origin.chat_id == chat)
    }

    fn read(&self) -> Value {
        let text = std::fs::read_to_string(self.home.channel_directory()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

fn describe(origin: &ChatOrigin) -> Value {
    let name = origin
        .chat_name
        .clone()
        .or_else(|| origin.user_name.clone())
        .unwrap_or_else(|| origin.chat_id.clone());
    let kind = origin.chat_type.clone().unwrap_or_else(|| "dm".to_owned());
    match &origin.thread_id {
        Some(thread) => {
            let topic = origin.chat_topic.clone().unwrap_or_else(|| format!("topic {thread}"));
            json!({
                "id": format!("{}:{thread}", origin.chat_id), "name": format!("{name} / {topic}"), "type": kind,
                "thread_id": thread,
            })
        }
        None => json!({"id": origin.chat_id, "name": name, "type": kind}),
    }
}
