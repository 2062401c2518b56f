//! Decides which messages of a group are meant for the bot.
//!
//! Direct chats are not filtered. Who may use the bot at all is not decided here.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::entity::{AddressedText, CommandAddressee};
use super::settings::{GateSettings, TelegramBotPolicy};
use super::wire::TelegramMessage;

/// The decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GateDecision {
    Accept,
    Ignore,
}

/// The albums that were accepted. Only one message of an album has the text, and with it the mention.
#[derive(Debug, Default)]
pub(super) struct AcceptedAlbums(Mutex<VecDeque<String>>);

impl AcceptedAlbums {
    const REMEMBERED: usize = 64;

    pub(super) fn contains(&self, message: &TelegramMessage) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        message.media_group_id.as_ref().is_some_and(|id| known.contains(id))
    }

    pub(super) fn insert(&self, message: &TelegramMessage) {
        let Some(id) = &message.media_group_id else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back(id.clone());
        if known.len() > Self::REMEMBERED {
            known.pop_front();
        }
    }
}

/// The inputs of the decision apart from the text.
pub(super) struct GateInput<'a> {
    pub(super) message: &'a TelegramMessage,
    pub(super) text: &'a AddressedText,
    pub(super) bot_id: i64,
    /// True when the command, if it is one, is in the bot's menu.
    pub(super) known_command: bool,
}

pub(super) fn decide(
    asked: &GateInput<'_>,
    settings: &GateSettings,
    bots: TelegramBotPolicy,
) -> GateDecision {
    let open = asked.text.command != CommandAddressee::OtherBot
        && is_bot_allowed(asked, bots)
        && (asked.message.chat.kind == "private"
            || is_chat_allowed(asked.message, settings) && is_addressed(asked, settings));
    if open { GateDecision::Accept } else { GateDecision::Ignore }
}

fn is_bot_allowed(asked: &GateInput<'_>, bots: TelegramBotPolicy) -> bool {
    let message = asked.message;
    // Anonymous admins and channels send through a bot account of Telegram.
    let other = message.from.as_ref().is_some_and(|user| user.is_bot) && message.sender_chat.is_none();
    match bots {
        _ if !other => true,
        TelegramBotPolicy::None => false,
        TelegramBotPolicy::Mentions => asked.text.mentioned || replies_to_bot(asked),
        TelegramBotPolicy::All => true,
    }
}

fn is_chat_allowed(message: &TelegramMessage, settings: &GateSettings) -> bool {
    let chat = message.chat.id.to_string();
    let thread = message.thread().map_or_else(|| "general".to_owned(), |thread| thread.to_string());
    let in_chat = format!("{chat}:{thread}");
    let lists = |list: &[String]| list.iter().any(|entry| *entry == thread || *entry == in_chat);
    (settings.allowed_chats.is_empty() || settings.allowed_chats.contains(&chat))
        && (settings.allowed_topics.is_empty() || lists(&settings.allowed_topics))
        && !lists(&settings.ignored_threads)
}

fn is_addressed(asked: &GateInput<'_>, settings: &GateSettings) -> bool {
    !settings.require_mention
        || asked.text.mentioned
        || asked.text.command == CommandAddressee::Anyone && asked.known_command
        || replies_to_bot(asked)
        || settings.free_chats.contains(&asked.message.chat.id.to_string())
        || settings.patterns.iter().any(|pattern| pattern.is_match(&asked.text.text))
}

fn replies_to_bot(asked: &GateInput<'_>) -> bool {
    let replied = asked.message.replied_message().and_then(|replied| replied.from.as_ref());
    replied.is_some_and(|user| user.id == asked.bot_id)
}
