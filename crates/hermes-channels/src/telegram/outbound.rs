//! Outgoing messages.
//!
//! A text that Telegram cannot parse as MarkdownV2 is sent again without markup; one for a deleted topic goes to
//! the chat; one for a migrated group goes to its new id. The caller handles all other refusals.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_text::dialect;
use hermes_types::{
    ChannelError, ChatAddress, ChatPart, DeliveryCertainty, DeliveryReceipt, LengthUnit, MessageStatus,
    OutgoingMessage,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::TelegramChannel;
use super::api::TelegramError;
use super::settings::QuoteMode;
use super::wire::SentMessage;
use crate::media::mime_of;
use crate::multipart::MultipartForm;

pub(super) const LIMIT: usize = 4096;
pub(super) const LONGEST_CAPTION: usize = 1024;
/// The space a truncated text leaves for its mark and its markup.
const TRUNCATION_MARGIN: usize = 20;
/// Limits the wait for an edit; one that would have to wait longer fails.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const MAX_QUOTED: usize = 1000;

/// The chat and topic of a message, as Telegram numbers them.
#[derive(Debug, Clone, Copy)]
pub(super) struct TelegramTarget {
    pub(super) chat: i64,
    pub(super) thread: Option<i64>,
    pub(super) reply_to: Option<i64>,
}

impl TelegramTarget {
    pub(super) fn fields(self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("chat_id".to_owned(), json!(self.chat));
        fields.extend(self.thread.map(|thread| ("message_thread_id".to_owned(), json!(thread))));
        if let Some(message) = self.reply_to {
            fields.insert("reply_to_message_id".to_owned(), json!(message));
            // The answer is sent even if the question was deleted.
            fields.insert("allow_sending_without_reply".to_owned(), json!(true));
        }
        fields
    }
}

/// The markup of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextMarkup {
    Markdown,
    Plain,
}

/// A message to send.
#[derive(Debug, Default)]
pub(super) struct TelegramPost<'a> {
    pub(super) method: &'static str,
    /// The field for the text, and the text in Markdown.
    pub(super) text: Option<(&'static str, &'a str)>,
    pub(super) file: Option<Upload<'a>>,
    /// Further fields.
    pub(super) extra_fields: Map<String, Value>,
}

/// A file to upload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upload<'a> {
    pub(super) field: &'static str,
    pub(super) name: &'a str,
    pub(super) bytes: &'a [u8],
}

impl TelegramPost<'_> {
    fn fields(&self, target: TelegramTarget, dress: TextMarkup) -> Map<String, Value> {
        let mut fields = target.fields();
        if let Some((name, markdown)) = self.text {
            let text = match dress {
                TextMarkup::Markdown => dialect::telegram(markdown),
                TextMarkup::Plain => dialect::plain(markdown),
            };
            fields.insert(name.to_owned(), json!(text));
            if dress == TextMarkup::Markdown {
                fields.insert("parse_mode".to_owned(), json!("MarkdownV2"));
            }
        }
        fields.extend(self.extra_fields.clone());
        fields
    }
}

/// The new ids of migrated groups.
#[derive(Debug, Default)]
pub(super) struct MigratedGroups(Mutex<HashMap<i64, i64>>);

impl MigratedGroups {
    pub(super) fn insert(&self, from: i64, to: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(from, to);
    }

    fn current_id(&self, chat: i64) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&chat).copied().unwrap_or(chat)
    }
}

/// The quoted message of each chat's current answer, for parts after the first.
#[derive(Debug, Default)]
pub(super) struct QuotedMessages(Mutex<HashMap<i64, (String, i64)>>);

impl QuotedMessages {
    /// Returns the message a part of an answer quotes. Parts of one answer share a key prefix.
    fn find(&self, mode: QuoteMode, chat: i64, reply: &OutgoingMessage) -> Option<i64> {
        let given = reply.reply_to.as_deref().and_then(|id| id.parse().ok());
        if mode != QuoteMode::All {
            return given.filter(|_| mode == QuoteMode::First);
        }
        let answer =
            reply.idempotency_key.rsplit_once(':').map_or(&*reply.idempotency_key, |(answer, _)| answer);
        let mut quoted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = given {
            if quoted.len() >= MAX_QUOTED {
                quoted.clear();
            }
            quoted.insert(chat, (answer.to_owned(), given));
        }
        quoted.get(&chat).filter(|(known, _)| known == answer).map(|(_, message)| *message)
    }
}

impl TelegramChannel {
    pub(super) async fn send_reply(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        let mut target = self.target(&reply.place)?;
        target.reply_to = self.quoted_messages.find(self.settings.quote_mode, target.chat, reply);
        let markup = self.keyboard.markup(reply);
        let mut message_ids = Vec::new();
        let mut caption = None;
        for (at, piece) in reply.pieces.iter().enumerate() {
            let sent = match piece {
                ChatPart::Text { text } if markup.is_none() && is_caption(text, reply.pieces.get(at + 1)) => {
                    caption = Some(text.as_str());
                    continue;
                }
                ChatPart::Text { text } => self.send_text(target, text, markup.as_ref()).await,
                ChatPart::File(file) => self.send_file(target, file, caption.take()).await,
                ChatPart::Picture(picture) => self.send_picture(target, picture).await,
            };
            message_ids.push(sent?.to_string());
        }
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    /// Sends a text message and returns its id.
    pub(super) async fn send_text(
        &self,
        target: TelegramTarget,
        text: &str,
        markup: Option<&Value>,
    ) -> Result<i64, ChannelError> {
        if dialect::plain(text).trim().is_empty() {
            return Err(ChannelError::Refused("there is no text in the message".to_owned()));
        }
        let more = markup.map(|markup| ("reply_markup".to_owned(), markup.clone())).into_iter().collect();
        let post = TelegramPost {
            method: "sendMessage",
            text: Some(("text", text)),
            file: None,
            extra_fields: more,
        };
        let sent: SentMessage = self.send_with_fallbacks(target, &post).await?;
        Ok(sent.message_id)
    }

    /// Sends a message, working around unparsable markup, a deleted topic, or a migrated group.
    pub(super) async fn send_with_fallbacks<T: DeserializeOwned>(
        &self,
        mut target: TelegramTarget,
        post: &TelegramPost<'_>,
    ) -> Result<T, TelegramError> {
        let mut dress = TextMarkup::Markdown;
        // Each workaround is used once, so this ends.
        loop {
            let error = match self.attempt(post, &post.fields(target, dress)).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            match &error {
                TelegramError::Refused { migrate_to: Some(chat), .. }
                    if self.migrated_groups.current_id(target.chat) != *chat =>
                {
                    self.migrated_groups.insert(target.chat, *chat);
                    target = TelegramTarget { chat: *chat, thread: None, reply_to: None };
                }
                error if target.thread.is_some() && error.description_contains("thread not found") => {
                    tracing::warn!("a topic no longer exists; the message goes to the chat itself");
                    target.thread = None;
                }
                error
                    if dress == TextMarkup::Markdown
                        && post.text.is_some()
                        && error.description_contains("can't parse") =>
                {
                    tracing::warn!(%error, "a message is sent without marks");
                    dress = TextMarkup::Plain;
                }
                _ => return Err(error),
            }
        }
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        post: &TelegramPost<'_>,
        fields: &Map<String, Value>,
    ) -> Result<T, TelegramError> {
        let Some(Upload { field, name, bytes }) = post.file else {
            return self.api.call(post.method, fields).await;
        };
        // Forms carry every value as text.
        let form = fields.iter().fold(MultipartForm::new(), |form, (name, value)| match value {
            Value::String(text) => form.text(name, text),
            other => form.text(name, &other.to_string()),
        });
        self.api.upload(post.method, form.file(field, name, mime_of(name), bytes)).await
    }

    pub(super) async fn edit_text(
        &self,
        place: &ChatAddress,
        message: &str,
        text: &str,
    ) -> Result<(), ChannelError> {
        let target = TelegramTarget { thread: None, ..self.target(place)? };
        let number: i64 = message.parse().map_err(|_| ChannelError::Refused("no such message".to_owned()))?;
        let mut text = Cow::Borrowed(text);
        let mut waited = false;
        // Each workaround is used once, so this ends.
        loop {
            match self.edit_once(target, number, &text).await {
                Err(error)
                    if error.description_contains("message is too long")
                        && matches!(text, Cow::Borrowed(_)) =>
                {
                    text = Cow::Owned(truncate(&text, LIMIT - TRUNCATION_MARGIN));
                }
                Err(TelegramError::Flood(after)) if !waited && after <= LONGEST_WAIT => {
                    waited = true;
                    self.clock.sleep(after).await;
                }
                Err(error) if !error.description_contains("message is not modified") => {
                    return Err(error.into());
                }
                _ => return Ok(()),
            }
        }
    }

    async fn edit_once(&self, target: TelegramTarget, message: i64, text: &str) -> Result<(), TelegramError> {
        let more = [("message_id".to_owned(), json!(message))].into_iter().collect();
        let post = TelegramPost {
            method: "editMessageText",
            text: Some(("text", text)),
            file: None,
            extra_fields: more,
        };
        self.send_with_fallbacks::<Value>(target, &post).await.map(drop)
    }

    pub(super) async fn send_typing(&self, place: &ChatAddress) {
        let Ok(target) = self.target(place) else { return };
        let mut fields = target.fields();
        fields.insert("action".to_owned(), json!("typing"));
        self.try_call("sendChatAction", &Value::Object(fields)).await;
    }

    pub(super) async fn set_reaction(&self, place: &ChatAddress, message: &str, mark: MessageStatus) {
        let (Ok(target), Ok(message)) = (self.target(place), message.parse::<i64>()) else { return };
        let emoji = match mark {
            MessageStatus::Processing => "👀",
            MessageStatus::Answered => "👍",
            MessageStatus::Failed => "👎",
        };
        let reaction = json!([{"type": "emoji", "emoji": emoji}]);
        let fields = json!({"chat_id": target.chat, "message_id": message, "reaction": reaction});
        self.try_call("setMessageReaction", &fields).await;
    }

    pub(super) fn target(&self, place: &ChatAddress) -> Result<TelegramTarget, ChannelError> {
        let wrong = || {
            ChannelError::Refused(format!("{} is not a chat of Telegram; chats have numbers", place.chat_id))
        };
        let chat: i64 = place.chat_id.trim().parse().map_err(|_| wrong())?;
        let thread = place.thread_id.as_deref().and_then(|thread| thread.parse().ok());
        Ok(TelegramTarget { chat: self.migrated_groups.current_id(chat), thread, reply_to: None })
    }
}

/// Tells whether a short text before a file becomes its caption.
fn is_caption(text: &str, next: Option<&ChatPart>) -> bool {
    matches!(next, Some(ChatPart::File(_))) && hermes_text::length(text, LengthUnit::Utf16) <= LONGEST_CAPTION
}

/// Shortens a text to the limit, with a mark that there is more.
pub(super) fn truncate(text: &str, room: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.len_utf16();
        used <= room
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
}
