//! Which messages of a group are for the bot.
//!
//! Direct chats have no gate. Who may speak at all is not decided here.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::entity::{Command, Spoken};
use super::settings::{Bots, GateSettings};
use super::wire::Message;

/// Whether a message goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    Open,
    Closed,
}

/// Albums that were let in. Only one of their pictures carries the words, and with them the mention.
#[derive(Debug, Default)]
pub(super) struct Albums(Mutex<VecDeque<String>>);

impl Albums {
    const REMEMBERED: usize = 64;

    pub(super) fn holds(&self, message: &Message) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        message.media_group_id.as_ref().is_some_and(|id| known.contains(id))
    }

    pub(super) fn let_in(&self, message: &Message) {
        let Some(id) = &message.media_group_id else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back(id.clone());
        if known.len() > Self::REMEMBERED {
            known.pop_front();
        }
    }
}

/// What is known beside the words.
pub(super) struct Asked<'a> {
    pub(super) message: &'a Message,
    pub(super) spoken: &'a Spoken,
    pub(super) me: i64,
    /// Whether the command, if it is one, is in the bot's menu.
    pub(super) known_command: bool,
}

pub(super) fn pass(asked: &Asked<'_>, settings: &GateSettings, bots: Bots) -> Passage {
    let open = asked.spoken.command != Command::Foreign
        && bot_may(asked, bots)
        && (asked.message.chat.kind == "private"
            || place_allowed(asked.message, settings) && addressed(asked, settings));
    if open { Passage::Open } else { Passage::Closed }
}

fn bot_may(asked: &Asked<'_>, bots: Bots) -> bool {
    let message = asked.message;
    // Admins who stay anonymous, and channels, write through a bot of Telegram's.
    let other = message.from.as_ref().is_some_and(|user| user.is_bot) && message.sender_chat.is_none();
    match bots {
        _ if !other => true,
        Bots::None => false,
        Bots::Mentions => asked.spoken.mentioned || answers_me(asked),
        Bots::All => true,
    }
}

fn place_allowed(message: &Message, settings: &GateSettings) -> bool {
    let chat = message.chat.id.to_string();
    let thread = message.thread().map_or_else(|| "general".to_owned(), |thread| thread.to_string());
    let in_chat = format!("{chat}:{thread}");
    let lists = |list: &[String]| list.iter().any(|entry| *entry == thread || *entry == in_chat);
    (settings.allowed_chats.is_empty() || settings.allowed_chats.contains(&chat))
        && (settings.allowed_topics.is_empty() || lists(&settings.allowed_topics))
        && !lists(&settings.ignored_threads)
}

fn addressed(asked: &Asked<'_>, settings: &GateSettings) -> bool {
    !settings.require_mention
        || asked.spoken.mentioned
        || asked.spoken.command == Command::Open && asked.known_command
        || answers_me(asked)
        || settings.free_chats.contains(&asked.message.chat.id.to_string())
        || settings.patterns.iter().any(|pattern| pattern.is_match(&asked.spoken.text))
}

fn answers_me(asked: &Asked<'_>) -> bool {
    let replied = asked.message.replied().and_then(|replied| replied.from.as_ref());
    replied.is_some_and(|user| user.id == asked.me)
}
