//! Telegram's objects, with the fields that are used. Unknown fields are ignored.

use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct TelegramUser {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
    #[serde(default)]
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
    pub(super) username: Option<String>,
}

impl TelegramUser {
    pub(super) fn name(&self) -> String {
        let last = self.last_name.as_deref().unwrap_or_default();
        format!("{} {last}", self.first_name).trim().to_owned()
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct TelegramChat {
    pub(super) id: i64,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) title: Option<String>,
    pub(super) first_name: Option<String>,
    pub(super) last_name: Option<String>,
    #[serde(default)]
    pub(super) is_forum: bool,
}

/// An update. At most one of its fields is set.
#[derive(Debug, Deserialize)]
pub(super) struct TelegramUpdate {
    pub(super) message: Option<Box<TelegramMessage>>,
    pub(super) channel_post: Option<Box<TelegramMessage>>,
    pub(super) callback_query: Option<Box<CallbackQuery>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallbackQuery {
    pub(super) id: String,
    pub(super) from: TelegramUser,
    pub(super) message: Option<Box<TelegramMessage>>,
    pub(super) data: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TelegramMessage {
    pub(super) message_id: i64,
    pub(super) message_thread_id: Option<i64>,
    #[serde(default)]
    pub(super) is_topic_message: bool,
    pub(super) from: Option<TelegramUser>,
    pub(super) sender_chat: Option<TelegramChat>,
    pub(super) chat: TelegramChat,
    #[serde(default)]
    pub(super) date: f64,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) entities: Vec<MessageEntity>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) caption_entities: Vec<MessageEntity>,
    pub(super) reply_to_message: Option<Box<TelegramMessage>>,
    pub(super) media_group_id: Option<String>,
    #[serde(default)]
    pub(super) photo: Vec<TelegramFile>,
    pub(super) voice: Option<TelegramFile>,
    pub(super) audio: Option<TelegramFile>,
    pub(super) video: Option<TelegramFile>,
    pub(super) video_note: Option<TelegramFile>,
    pub(super) animation: Option<TelegramFile>,
    pub(super) document: Option<TelegramFile>,
    pub(super) sticker: Option<Sticker>,
    pub(super) location: Option<Location>,
    pub(super) venue: Option<Venue>,
    pub(super) contact: Option<IgnoredAny>,
    pub(super) poll: Option<IgnoredAny>,
    pub(super) dice: Option<IgnoredAny>,
    pub(super) story: Option<IgnoredAny>,
    pub(super) forum_topic_created: Option<ForumTopicCreated>,
    pub(super) migrate_to_chat_id: Option<i64>,
}

impl TelegramMessage {
    /// Returns the text or caption, and its entities.
    pub(super) fn text_and_entities(&self) -> (&str, &[MessageEntity]) {
        match (&self.text, &self.caption) {
            (Some(text), _) => (text, &self.entities),
            (None, Some(caption)) => (caption, &self.caption_entities),
            (None, None) => ("", &[]),
        }
    }

    /// Returns the topic of the message. Outside forums Telegram also numbers reply chains this way.
    pub(super) fn thread(&self) -> Option<i64> {
        let topical = self.is_topic_message || self.chat.is_forum || self.chat.kind == "private";
        self.message_thread_id.filter(|_| topical)
    }

    /// Returns the message it replies to, except the first message of a topic.
    pub(super) fn replied_message(&self) -> Option<&TelegramMessage> {
        let replied = self.reply_to_message.as_deref()?;
        (replied.forum_topic_created.is_none()).then_some(replied)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct MessageEntity {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    /// The offset in UTF-16 code units.
    #[serde(default)]
    pub(super) offset: usize,
    #[serde(default)]
    pub(super) length: usize,
    pub(super) user: Option<TelegramUser>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct TelegramFile {
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
    pub(super) file: TelegramFile,
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
pub(super) struct ForumTopicCreated {
    #[serde(default)]
    pub(super) name: String,
}

/// A message the bot sent, with the fields that are used.
#[derive(Debug, Deserialize)]
pub(super) struct SentMessage {
    pub(super) message_id: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct FilePath {
    pub(super) file_path: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ForumTopic {
    pub(super) message_thread_id: i64,
}

/// The envelope of every API response.
#[derive(Debug, Deserialize)]
pub(super) struct ApiResponse<T> {
    #[serde(default)]
    pub(super) ok: bool,
    pub(super) result: Option<T>,
    pub(super) error_code: Option<u16>,
    pub(super) description: Option<String>,
    pub(super) parameters: Option<ResponseParameters>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseParameters {
    pub(super) retry_after: Option<u64>,
    pub(super) migrate_to_chat_id: Option<i64>,
}
