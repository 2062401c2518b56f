//! What Telegram sends, as far as it is read here. Unknown fields are ignored.
#![expect(clippy::struct_field_names, reason = "the names are Telegram's")]

use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
    #[serde(default)]
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
    pub(super) username: Option<String>,
}

impl User {
    pub(super) fn name(&self) -> String {
        let last = self.last_name.as_deref().unwrap_or_default();
        format!("{} {last}", self.first_name).trim().to_owned()
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Chat {
    pub(super) id: i64,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) title: Option<String>,
    pub(super) first_name: Option<String>,
    pub(super) last_name: Option<String>,
    #[serde(default)]
    pub(super) is_forum: bool,
}

/// What happened. At most one of these is there.
#[derive(Debug, Deserialize)]
pub(super) struct Update {
    pub(super) message: Option<Box<Message>>,
    pub(super) channel_post: Option<Box<Message>>,
    pub(super) callback_query: Option<Box<CallbackQuery>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallbackQuery {
    pub(super) id: String,
    pub(super) from: User,
    pub(super) message: Option<Box<Message>>,
    pub(super) data: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) message_id: i64,
    pub(super) message_thread_id: Option<i64>,
    #[serde(default)]
    pub(super) is_topic_message: bool,
    pub(super) from: Option<User>,
    pub(super) sender_chat: Option<Chat>,
    pub(super) chat: Chat,
    #[serde(default)]
    pub(super) date: f64,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) entities: Vec<Entity>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) caption_entities: Vec<Entity>,
    pub(super) reply_to_message: Option<Box<Message>>,
    pub(super) media_group_id: Option<String>,
    #[serde(default)]
    pub(super) photo: Vec<File>,
    pub(super) voice: Option<File>,
    pub(super) audio: Option<File>,
    pub(super) video: Option<File>,
    pub(super) video_note: Option<File>,
    pub(super) animation: Option<File>,
    pub(super) document: Option<File>,
    pub(super) sticker: Option<Sticker>,
    pub(super) location: Option<Location>,
    pub(super) venue: Option<Venue>,
    pub(super) contact: Option<IgnoredAny>,
    pub(super) poll: Option<IgnoredAny>,
    pub(super) dice: Option<IgnoredAny>,
    pub(super) story: Option<IgnoredAny>,
    pub(super) forum_topic_created: Option<TopicCreated>,
    pub(super) migrate_to_chat_id: Option<i64>,
}

impl Message {
    /// What was written, and what stands out in it.
    pub(super) fn words(&self) -> (&str, &[Entity]) {
        match (&self.text, &self.caption) {
            (Some(text), _) => (text, &self.entities),
            (None, Some(caption)) => (caption, &self.caption_entities),
            (None, None) => ("", &[]),
        }
    }

    /// The topic it was written in. Outside of forums Telegram numbers chains of answers in the same way.
    pub(super) fn thread(&self) -> Option<i64> {
        let topical = self.is_topic_message || self.chat.is_forum || self.chat.kind == "private";
        self.message_thread_id.filter(|_| topical)
    }

    /// The message it answers. The first message of a topic is not meant.
    pub(super) fn replied(&self) -> Option<&Message> {
        let replied = self.reply_to_message.as_deref()?;
        (replied.forum_topic_created.is_none()).then_some(replied)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Entity {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    /// In UTF-16 code units.
    #[serde(default)]
    pub(super) offset: usize,
    #[serde(default)]
    pub(super) length: usize,
    pub(super) user: Option<User>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct File {
    pub(super) file_id: String,
    pub(super) file_size: Option<u64>,
    pub(super) file_name: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) duration: Option<f64>,
    #[serde(default)]
    pub(super) width: u64,
    #[serde(default)]
    pub(super) height: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Sticker {
    #[serde(flatten)]
    pub(super) file: File,
    pub(super) emoji: Option<String>,
    pub(super) set_name: Option<String>,
    #[serde(default)]
    pub(super) is_animated: bool,
    #[serde(default)]
    pub(super) is_video: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Location {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Venue {
    pub(super) location: Location,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) address: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct TopicCreated {
    #[serde(default)]
    pub(super) name: String,
}

/// What the bot said, in as much as it matters.
#[derive(Debug, Deserialize)]
pub(super) struct Sent {
    pub(super) message_id: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct FilePath {
    pub(super) file_path: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Topic {
    pub(super) message_thread_id: i64,
}

/// Every answer of the API.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<T> {
    #[serde(default)]
    pub(super) ok: bool,
    pub(super) result: Option<T>,
    pub(super) error_code: Option<u16>,
    pub(super) description: Option<String>,
    pub(super) parameters: Option<Parameters>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Parameters {
    pub(super) retry_after: Option<u64>,
    pub(super) migrate_to_chat_id: Option<i64>,
}
