//! Converts Telegram's updates to envelopes.
//!
//! Pure, except that it downloads files. A readable message always becomes an envelope: a file that cannot be
//! downloaded becomes a note.

use std::time::Duration;

use hermes_types::{ChatAddress, ChatKind, ChatPart, Envelope, Sender, Timestamp};

use super::entity::{self, CommandAddressee, TelegramIdentity};
use super::gate::{self, GateDecision, GateInput};
use super::wire::{CallbackQuery, TelegramChat, TelegramMessage, TelegramUpdate, TelegramUser};
use super::{TelegramChannel, media};

/// The age from which a message carries its own time; for newer ones the time of arrival counts.
const WAITED: Duration = Duration::from_mins(1);

impl TelegramChannel {
    /// Converts an update to an envelope, if it is meant for the bot.
    pub(super) async fn read_update(
        &self,
        update: &TelegramUpdate,
        me: &TelegramIdentity,
    ) -> Option<Envelope> {
        if let Some(query) = &update.callback_query {
            return self.read_press(query);
        }
        let message = update.message.as_deref().or(update.channel_post.as_deref())?;
        self.record_service_message(message);
        let own = message.from.as_ref().is_some_and(|user| user.id == me.id);
        if own {
            return None;
        }
        let (text, entities) = message.text_and_entities();
        let spoken = entity::parse_addressed_text(text, entities, me);
        let known_command = self.menu_name(&spoken.text).is_some();
        let asked = GateInput { message, text: &spoken, bot_id: me.id, known_command };
        let passage = gate::decide(&asked, &self.settings.gate, self.settings.bots);
        if passage == GateDecision::Ignore && !self.albums.contains(message) {
            return None;
        }
        self.albums.insert(message);
        let text = match spoken.command {
            CommandAddressee::None => spoken.text,
            _ => self.menu_name(&spoken.text).unwrap_or(spoken.text),
        };
        let found = media::gather_files(self, message).await;
        let quiet = self.debounce_delay(message, spoken.command);
        let texts = found.notes.into_iter().chain((!text.trim().is_empty()).then_some(text));
        let mut parts: Vec<ChatPart> = texts.map(|text| ChatPart::Text { text }).collect();
        parts.extend(found.files.into_iter().map(ChatPart::File));
        if parts.is_empty() {
            return None;
        }
        let replied = message.replied_message();
        let words_of = |message: &TelegramMessage| {
            Some(message.text_and_entities().0.to_owned()).filter(|text| !text.is_empty())
        };
        let place = self.place(message);
        Some(Envelope {
            platform: super::NAME.to_owned(),
            // Stays the same when Telegram restarts its update ids.
            platform_key: format!("{}:{}", message.chat.id, message.message_id),
            skill: self.topics.skill(&place),
            place,
            sender: sender(message),
            parts,
            message_id: Some(message.message_id.to_string()),
            reply_to: replied.map(|message| message.message_id.to_string()),
            reply_to_text: replied.and_then(words_of),
            quiet_ms: u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX),
            received_at: self.received_at(message.date),
        })
    }

    /// Converts a button press to a message with the button's text. It refers to the question, so that the answer
    /// can be matched to it.
    fn read_press(&self, query: &CallbackQuery) -> Option<Envelope> {
        let message = query.message.as_deref()?;
        let says = self.keyboard.text_for_data(query.data.as_deref()?)?;
        Some(Envelope {
            platform: super::NAME.to_owned(),
            platform_key: format!("callback:{}", query.id),
            place: self.place(message),
            sender: sender_of(&query.from),
            parts: vec![ChatPart::Text { text: says }],
            message_id: Some(message.message_id.to_string()),
            reply_to: Some(message.message_id.to_string()),
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            received_at: self.clock.now(),
        })
    }

    /// Records chat names and group migrations from service messages.
    fn record_service_message(&self, message: &TelegramMessage) {
        if let (Some(created), Some(thread)) = (&message.forum_topic_created, message.message_thread_id) {
            self.topics.record_name(message.chat.id, thread, &created.name);
        }
        if let Some(to) = message.migrate_to_chat_id {
            self.migrated_groups.insert(message.chat.id, to);
        }
    }

    fn place(&self, message: &TelegramMessage) -> ChatAddress {
        let chat = &message.chat;
        let thread = message.thread();
        ChatAddress {
            chat_id: chat.id.to_string(),
            chat_name: chat_name(chat),
            kind: match chat.kind.as_str() {
                "group" | "supergroup" => ChatKind::Group,
                "channel" => ChatKind::Channel,
                _ => ChatKind::Dm,
            },
            thread_id: thread.map(|thread| thread.to_string()),
            topic: thread.and_then(|thread| self.topics.name(chat.id, thread)),
            alt_id: None,
        }
    }

    /// Returns the program's name of a menu command: Telegram allows no dashes in names.
    fn menu_name(&self, text: &str) -> Option<String> {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (first, rest) = text.split_at(end);
        let typed = first.strip_prefix('/')?.to_lowercase();
        let command = self
            .commands
            .iter()
            .find(|command| command.name == typed || super::menu_word(&command.name) == typed)?;
        Some(format!("/{}{rest}", command.name))
    }

    /// Returns how long to wait for further parts: long texts and albums arrive as several messages.
    fn debounce_delay(&self, message: &TelegramMessage, command: CommandAddressee) -> Duration {
        if command != CommandAddressee::None {
            return Duration::ZERO;
        }
        if !message.photo.is_empty() || message.media_group_id.is_some() {
            return self.settings.media_debounce;
        }
        if message.text.is_some() { self.settings.text_debounce } else { Duration::ZERO }
    }

    fn received_at(&self, date: f64) -> Timestamp {
        let now = self.clock.now();
        let written = Timestamp(date);
        if date > 0.0 && now.since(written) > WAITED { written } else { now }
    }
}

fn chat_name(chat: &TelegramChat) -> Option<String> {
    let person = || {
        let (first, last) = (chat.first_name.as_deref()?, chat.last_name.as_deref().unwrap_or_default());
        Some(format!("{first} {last}").trim().to_owned())
    };
    chat.title.clone().or_else(person)
}

/// Returns the sender: a user, or a channel or group that writes in its own name.
fn sender(message: &TelegramMessage) -> Sender {
    if let Some(chat) = &message.sender_chat {
        return Sender {
            user_id: Some(chat.id.to_string()),
            user_name: chat_name(chat),
            ..Sender::default()
        };
    }
    message.from.as_ref().map(sender_of).unwrap_or_default()
}

fn sender_of(user: &TelegramUser) -> Sender {
    Sender {
        user_id: Some(user.id.to_string()),
        user_name: Some(user.name()).filter(|name| !name.is_empty()),
        alt_id: None,
        handle: user.username.clone(),
    }
}
