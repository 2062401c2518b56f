//! A cache of servers and channels: filled from events, and from requests where no event came.
//!
//! After a resume in a new process there are no such events; everything here can be requested again at any time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use super::rest::{CallEffect, DiscordApi, DiscordError};
use super::wire::ChannelInfo;

/// Limits the cache; when it is full it is cleared and filled again by requests.
const MAX_ENTRIES: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct GuildDirectory(Mutex<KnownPlaces>);

#[derive(Debug, Default)]
struct KnownPlaces {
    guilds: HashMap<String, String>,
    channels: HashMap<String, ChannelInfo>,
}

/// A server with its channels.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Guild {
    id: String,
    name: Option<String>,
    channels: Vec<ChannelInfo>,
    threads: Vec<ChannelInfo>,
}

impl GuildDirectory {
    /// Applies an event about servers or channels; ignores others.
    pub(super) fn apply_event(&self, event: &str, data: &Value) {
        match event {
            "GUILD_CREATE" | "GUILD_UPDATE" | "THREAD_LIST_SYNC" => {
                let Ok(mut guild) = Guild::deserialize(data) else { return };
                if let Some(id) = data.get("guild_id").and_then(Value::as_str) {
                    id.clone_into(&mut guild.id);
                }
                self.add_guild(guild);
            }
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                if let Ok(room) = ChannelInfo::deserialize(data) {
                    self.add(room);
                }
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(id) = data.get("id").and_then(Value::as_str) {
                    self.lock().channels.remove(id);
                }
            }
            _ => {}
        }
    }

    fn add_guild(&self, guild: Guild) {
        if let Some(name) = guild.name {
            self.lock().guilds.insert(guild.id.clone(), name);
        }
        for mut room in guild.channels.into_iter().chain(guild.threads) {
            // Channels inside a server object do not repeat the server's id.
            room.guild_id = Some(guild.id.clone());
            self.add(room);
        }
    }

    pub(super) fn add(&self, room: ChannelInfo) {
        let mut known = self.lock();
        if known.channels.len() >= MAX_ENTRIES {
            known.channels.clear();
        }
        known.channels.insert(room.id.clone(), room);
    }

    pub(super) async fn channel(&self, rest: &DiscordApi, id: &str) -> Result<ChannelInfo, DiscordError> {
        if let Some(room) = self.lock().channels.get(id).cloned() {
            return Ok(room);
        }
        let found = rest.get(&format!("/channels/{id}")).await?;
        let unreadable = |_| DiscordError::Later {
            after: None,
            reason: "Discord's answer is no channel".to_owned(),
            effect: CallEffect::NotDone,
        };
        let room = ChannelInfo::deserialize(&found).map_err(unreadable)?;
        self.add(room.clone());
        Ok(room)
    }

    pub(super) async fn guild_name(&self, rest: &DiscordApi, id: &str) -> Option<String> {
        if let Some(name) = self.lock().guilds.get(id).cloned() {
            return Some(name);
        }
        let found = rest.get(&format!("/guilds/{id}")).await.ok()?;
        let name = found.get("name")?.as_str()?.to_owned();
        self.lock().guilds.insert(id.to_owned(), name.clone());
        Some(name)
    }

    fn lock(&self) -> MutexGuard<'_, KnownPlaces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
