//! What is known about rooms: their members, names, kind and encryption.
//!
//! Facts are fetched when they are first needed and forgotten when the sync names a change, so that memory does not grow with the
//! number of rooms. Invariant: a room that was seen encrypted stays encrypted here, whatever the server says later.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_net::Method;
use hermes_types::{ChannelError, ChatAddress, ChatKind};
use serde_json::Value;

use super::MatrixChannel;
use super::sign_in::MatrixSession;
use crate::rest::RestError;

/// Limits the rooms whose facts are kept.
const MAX_ROOMS: usize = 500;
/// The state events that facts are made of.
const FACTS: [&str; 6] = [
    "m.room.member",
    "m.room.encryption",
    "m.room.name",
    "m.room.canonical_alias",
    "m.room.topic",
    "m.room.history_visibility",
];

/// The facts about a room.
#[derive(Debug, Clone)]
pub(super) struct RoomFacts {
    pub(super) kind: ChatKind,
    pub(super) name: Option<String>,
    pub(super) topic: Option<String>,
    /// The content of `m.room.encryption`, for encrypted rooms.
    pub(super) encryption: Option<Value>,
    pub(super) history_visibility: Option<String>,
    /// Everybody who is in the room or invited, and the names of those who have one.
    pub(super) members: Vec<(String, Option<String>)>,
}

impl RoomFacts {
    pub(super) fn member_name(&self, user: &str) -> Option<String> {
        self.members.iter().find(|(id, _)| id == user).and_then(|(_, name)| name.clone())
    }

    pub(super) fn member_ids(&self) -> Vec<String> {
        self.members.iter().map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn address(&self, room: &str) -> ChatAddress {
        let mut address = ChatAddress::new(self.kind, room);
        address.chat_name.clone_from(&self.name);
        address.topic.clone_from(&self.topic);
        address
    }
}

/// The facts about the rooms that were used lately.
#[derive(Default)]
pub(super) struct MatrixRooms(Mutex<RoomTable>);

#[derive(Default)]
struct RoomTable {
    facts: HashMap<String, Arc<RoomFacts>>,
    /// The rooms that the account's settings call direct chats, once they were asked for.
    direct: Option<HashSet<String>>,
}

impl MatrixRooms {
    fn lock(&self) -> MutexGuard<'_, RoomTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what a sync says has changed.
    pub(super) fn note_changes(&self, sync: &Value) {
        let mut table = self.lock();
        let account_data = sync.pointer("/account_data/events").and_then(Value::as_array);
        if account_data.into_iter().flatten().any(|event| event["type"] == "m.direct") {
            table.direct = None;
            table.facts.clear();
        }
        for (room, update) in joined_rooms(sync) {
            let events = ["/state/events", "/timeline/events"].into_iter();
            let mut events = events.filter_map(|part| update.pointer(part)?.as_array()).flatten();
            let is_fact = |event: &Value| event["type"].as_str().is_some_and(|kind| FACTS.contains(&kind));
            if events.any(is_fact) {
                table.facts.remove(room);
            }
        }
        for room in sync.pointer("/rooms/leave").and_then(Value::as_object).into_iter().flatten() {
            table.facts.remove(room.0);
        }
    }

    pub(super) fn forget(&self, room: &str) {
        self.lock().facts.remove(room);
    }
}

/// Returns the rooms of a sync that the bot is in.
pub(super) fn joined_rooms(sync: &Value) -> impl Iterator<Item = (&String, &Value)> {
    sync.pointer("/rooms/join").and_then(Value::as_object).into_iter().flatten()
}

impl MatrixChannel {
    /// Returns the facts about a room.
    pub(super) async fn room(
        &self,
        session: &MatrixSession,
        room: &str,
    ) -> Result<Arc<RoomFacts>, ChannelError> {
        let known = self.rooms.lock().facts.get(room).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let facts = Arc::new(self.fetch_room(session, room).await?);
        let mut table = self.rooms.lock();
        if table.facts.len() >= MAX_ROOMS {
            table.facts.clear();
        }
        table.facts.insert(room.to_owned(), facts.clone());
        Ok(facts)
    }

    async fn fetch_room(&self, session: &MatrixSession, room: &str) -> Result<RoomFacts, RestError> {
        let members = self.api.members(session, room).await?;
        let encryption = self.room_encryption(session, room).await?;
        let text = |content: Option<Value>, key: &str| {
            content
                .and_then(|content| content.get(key)?.as_str().map(str::to_owned))
                .filter(|text| !text.is_empty())
        };
        let is_direct = members.len() == 2 || self.is_direct(session, room).await?;
        let mut name = text(self.api.state(session, room, "m.room.name").await?, "name");
        if name.is_none() {
            name = text(self.api.state(session, room, "m.room.canonical_alias").await?, "alias");
        }
        Ok(RoomFacts {
            kind: if is_direct { ChatKind::Dm } else { ChatKind::Group },
            name,
            topic: text(self.api.state(session, room, "m.room.topic").await?, "topic"),
            history_visibility: text(
                self.api.state(session, room, "m.room.history_visibility").await?,
                "history_visibility",
            ),
            encryption,
            members,
        })
    }

    async fn room_encryption(&self, session: &MatrixSession, room: &str) -> Result<Option<Value>, RestError> {
        let content = self.api.state(session, room, "m.room.encryption").await?;
        let Ok(Some(encryption)) = self.encryption(session).await else { return Ok(content) };
        Ok(encryption.remember_encrypted(room, content))
    }

    async fn is_direct(&self, session: &MatrixSession, room: &str) -> Result<bool, RestError> {
        if let Some(direct) = &self.rooms.lock().direct {
            return Ok(direct.contains(room));
        }
        let answer = self.api.account_data(session, "m.direct").await?.unwrap_or_default();
        let rooms = answer.as_object().into_iter().flatten().filter_map(|(_, rooms)| rooms.as_array());
        let rooms: HashSet<String> = rooms.flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let is_direct = rooms.contains(room);
        self.rooms.lock().direct = Some(rooms);
        Ok(is_direct)
    }

    /// Lists the rooms the bot is in; those with one person have no name.
    pub(super) async fn list_chats(&self) -> Vec<ChatAddress> {
        let Ok(session) = self.session().await else { return Vec::new() };
        let answer = self.api.call(&session.token, Method::GET, "v3/joined_rooms", None).await;
        let answer = answer.unwrap_or_default();
        let mut chats = Vec::new();
        let rooms = answer.get("joined_rooms").and_then(Value::as_array).into_iter().flatten();
        for room in rooms.filter_map(Value::as_str).take(MAX_ROOMS) {
            if let Ok(facts) = self.room(&session, room).await
                && facts.kind != ChatKind::Dm
            {
                chats.push(facts.address(room));
            }
        }
        chats
    }
}
