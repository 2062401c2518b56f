//! `channel_directory.json`: chats by name, for those who send to them.

use std::collections::BTreeMap;

use hermes_config::write;
use hermes_types::CivilTime;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::session::ChatOrigin;

impl Gateway {
    /// Writes the chats known from conversations and those the platforms report. Each chat and thread is listed
    /// once, the last used first.
    pub(crate) async fn write_directory(&self) {
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
        for platform in self.platforms() {
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
        if let Err(error) = write::replace(&self.settings.home().channel_directory(), text.as_bytes()) {
            tracing::warn!(%error, "the directory of chats was not written");
        }
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
