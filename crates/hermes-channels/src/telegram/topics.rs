//! Topics of direct chats from `platforms.telegram.extra.dm_topics`, and the names of other topics as they are
//! seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_types::ChatAddress;
use serde_json::{Map, Value, json};

use super::api::TelegramApi;
use super::wire::ForumTopic;
use crate::host::ChannelHost;

const SETTING: &str = "dm_topics";
/// Limits the cached names; when it is full the cache is cleared, and filled again from the settings.
const MAX_NAMES: usize = 5000;

/// A known topic.
#[derive(Debug, Clone, Default)]
struct KnownTopic {
    name: String,
    skill: Option<String>,
}

pub(super) struct Topics {
    host: Arc<dyn ChannelHost>,
    known: Mutex<HashMap<(i64, i64), KnownTopic>>,
}

impl Topics {
    pub(super) fn new(host: Arc<dyn ChannelHost>) -> Self {
        let topics = Self { host, known: Mutex::default() };
        topics.read_settings();
        topics
    }

    pub(super) fn name(&self, chat: i64, thread: i64) -> Option<String> {
        self.find(chat, thread).map(|known| known.name)
    }

    /// Returns the skill a topic is bound to.
    pub(super) fn skill(&self, place: &ChatAddress) -> Option<String> {
        let (chat, thread) = (place.chat_id.parse().ok()?, place.thread_id.as_deref()?.parse().ok()?);
        self.find(chat, thread)?.skill
    }

    pub(super) fn record_name(&self, chat: i64, thread: i64, name: &str) {
        let mut known = self.lock();
        if known.len() >= MAX_NAMES {
            known.clear();
        }
        name.clone_into(&mut known.entry((chat, thread)).or_default().name);
    }

    /// Finds a topic; an unknown one is looked up in the settings again, which may have changed.
    fn find(&self, chat: i64, thread: i64) -> Option<KnownTopic> {
        let found = self.lock().get(&(chat, thread)).cloned();
        if found.is_some() {
            return found;
        }
        self.read_settings();
        self.lock().get(&(chat, thread)).cloned()
    }

    fn read_settings(&self) {
        let listed = self.host.setting(super::NAME, SETTING).unwrap_or_default();
        let mut known = self.lock();
        for (chat, topic) in listed_topics(&listed) {
            if let Some(thread) = topic.get("thread_id").and_then(number) {
                let text = |key: &str| topic.get(key).and_then(Value::as_str).map(str::to_owned);
                known.insert(
                    (chat, thread),
                    KnownTopic { name: text("name").unwrap_or_default(), skill: text("skill") },
                );
            }
        }
    }

    /// Creates the topics without an id and stores their ids.
    pub(super) async fn create_missing(&self, api: &TelegramApi) {
        let Some(mut listed) = self.host.setting(super::NAME, SETTING) else { return };
        let mut created = false;
        for (chat, topic) in topics_of(&mut listed) {
            if topic.get("thread_id").and_then(number).is_some() {
                continue;
            }
            let mut parameters = json!({"chat_id": chat, "name": topic.get("name")});
            if let Value::Object(parameters) = &mut parameters {
                let optional = ["icon_color", "icon_custom_emoji_id"].into_iter();
                parameters.extend(optional.filter_map(|key| Some((key.to_owned(), topic.get(key)?.clone()))));
            }
            match api.call::<ForumTopic>("createForumTopic", &parameters).await {
                Ok(made) => {
                    topic.insert("thread_id".to_owned(), json!(made.message_thread_id));
                    created = true;
                }
                Err(error) => {
                    tracing::warn!(%error, chat, "a topic of platforms.telegram.extra.dm_topics could not be created");
                }
            }
        }
        if created && let Err(error) = self.host.save_setting(super::NAME, SETTING, &listed) {
            tracing::warn!(
                error,
                "the numbers of new topics could not be written to config.yaml; they will be created again"
            );
        }
        self.read_settings();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(i64, i64), KnownTopic>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listed_topics(listed: &Value) -> Vec<(i64, Map<String, Value>)> {
    let mut copy = listed.clone();
    topics_of(&mut copy).into_iter().map(|(chat, topic)| (chat, topic.clone())).collect()
}

/// Returns every topic with its chat; skips entries of another shape.
fn topics_of(listed: &mut Value) -> Vec<(i64, &mut Map<String, Value>)> {
    let mut all = Vec::new();
    for entry in listed.as_array_mut().into_iter().flatten() {
        let Some(chat) = entry.get("chat_id").and_then(number) else { continue };
        let topics = entry.get_mut("topics").and_then(Value::as_array_mut).into_iter().flatten();
        all.extend(topics.filter_map(Value::as_object_mut).map(|topic| (chat, topic)));
    }
    all
}

/// Returns a number, also if it is quoted in the file.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}
