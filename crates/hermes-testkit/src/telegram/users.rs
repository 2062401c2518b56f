//! Actions of users.

use serde_json::{Map, Value, json};

use super::FakeTelegramServer;
use super::state::{FakeTelegramChat, FakeTelegramState};

/// A user. A direct chat has the user's id.
#[derive(Debug, Clone, Copy)]
pub struct FakeTelegramUser<'a> {
    pub(super) stage: &'a FakeTelegramServer,
    pub id: i64,
}

impl FakeTelegramUser<'_> {
    /// Sends a message to a chat and returns its id.
    pub fn says(&self, chat: i64, text: &str) -> i64 {
        self.sends(chat, json!({"text": text, "entities": entities(text)}))
    }

    pub fn says_in(&self, chat: i64, topic: i64, text: &str) -> i64 {
        let fields = json!({"text": text, "entities": entities(text), "message_thread_id": topic, "is_topic_message": true});
        self.sends(chat, fields)
    }

    /// Replies to a message of the chat.
    pub fn replies(&self, chat: i64, to: i64, text: &str) -> i64 {
        let quoted = self.stage.world.read(|world| world.messages.get(&(chat, to)).cloned());
        self.sends(chat, json!({"text": text, "entities": entities(text), "reply_to_message": quoted}))
    }

    pub fn sends_photo(&self, chat: i64, bytes: &[u8], caption: Option<&str>) -> i64 {
        let file =
            |path: &str, bytes: &[u8]| self.stage.world.update(|world| world.store(path, bytes.to_vec()));
        let sizes = [file("photos/small.jpg", b"small"), file("photos/large.jpg", bytes)];
        let mut fields = json!({"photo": sizes});
        if let (Value::Object(fields), Some(caption)) = (&mut fields, caption) {
            fields.insert("caption".to_owned(), json!(caption));
            fields.insert("caption_entities".to_owned(), entities(caption));
        }
        self.sends(chat, fields)
    }

    /// Sends a voice message.
    pub fn sends_voice(&self, chat: i64, bytes: &[u8]) -> i64 {
        let file = self.stage.world.update(|world| world.store("voice/file_1.oga", bytes.to_vec()));
        self.sends(chat, json!({"voice": file}))
    }

    /// Sends a message with these fields besides the usual ones.
    pub fn sends(&self, chat: i64, fields: Value) -> i64 {
        self.stage.world.update(|world| {
            let message = message(world, self.id, chat, fields);
            let id = message.get("message_id").and_then(Value::as_i64).unwrap_or_default();
            world.announce("message", message);
            id
        })
    }

    /// Changes the text of a message.
    pub fn edits(&self, chat: i64, message: i64, text: &str) {
        self.stage.world.update(|world| {
            let mut edited = world.messages.get(&(chat, message)).cloned().unwrap_or_default();
            if let Value::Object(fields) = &mut edited {
                fields.insert("text".to_owned(), json!(text));
                fields.insert("edit_date".to_owned(), json!(1_700_000_001));
            }
            world.announce("edited_message", edited);
        });
    }

    /// Presses the button with this label below the newest message that has it; returns the id of the callback
    /// query.
    #[track_caller]
    pub fn presses(&self, chat: i64, words: &str) -> String {
        self.stage.world.update(|world| {
            let found = world.posted.iter().rev().filter(|posted| posted.chat == chat).find_map(|posted| {
                let button = posted.buttons.iter().find(|button| button.text == words)?;
                Some((posted.id, button.data.clone()))
            });
            let Some((message, data)) = found else { panic!("there is no button `{words}` in chat {chat}") };
            let id = format!("query{}", world.queries.len());
            world.queries.insert(id.clone(), None);
            let from = world.people.get(&self.id).cloned();
            let message = world.messages.get(&(chat, message)).cloned();
            let query =
                json!({"id": id, "from": from, "message": message, "chat_instance": "1", "data": data});
            world.announce("callback_query", query);
            id
        })
    }
}

fn message(world: &mut FakeTelegramState, person: i64, chat: i64, fields: Value) -> Value {
    let id = world.message_id();
    let place = world.chats.get(&chat).map(FakeTelegramChat::to_json);
    let place = place.unwrap_or_else(|| json!({"id": chat, "type": "private"}));
    let from = world.people.get(&person).cloned();
    let mut message = json!({"message_id": id, "from": from, "chat": place, "date": world.date()});
    if let (Value::Object(message), Value::Object(fields)) = (&mut message, fields) {
        message.extend(fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>());
    }
    world.messages.insert((chat, id), message.clone());
    message
}

/// Returns the commands and mentions in a text, as Telegram finds them.
fn entities(text: &str) -> Value {
    let mut found = Vec::new();
    let mut offset = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end().trim_end_matches([',', '.', '!', '?', ':']);
        let kind = match bare.chars().next() {
            Some('/') => "bot_command",
            Some('@') => "mention",
            _ => "",
        };
        if !kind.is_empty() && bare.len() > 1 {
            found.push(json!({"type": kind, "offset": offset, "length": bare.encode_utf16().count()}));
        }
        offset += word.encode_utf16().count();
    }
    Value::Array(found)
}
