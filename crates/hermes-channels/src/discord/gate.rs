//! Which messages are meant for the bot. Pure.

use super::settings::{Bots, Rules};
use super::wire::{Message, Room};

/// Where a message was written, as far as the rules care.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'a> {
    /// None in a direct chat.
    pub(super) room: Option<&'a Room>,
    /// The bot already talks in this thread.
    pub(super) known_thread: bool,
}

/// Whether to answer.
pub(super) fn is_meant(message: &Message, bot: &str, spot: Spot<'_>, rules: &Rules) -> bool {
    if message.author.id == bot || message.author.id.is_empty() || !matches!(message.kind, 0 | 19) {
        return false;
    }
    let named = message.mentions.iter().any(|user| user.id == bot);
    if message.author.bot && !(rules.bots == Bots::Everything || rules.bots == Bots::Mentions && named) {
        return false;
    }
    let Some(room) = spot.room else { return true };
    let listed = |list: &[String]| is_listed(list, room);
    if listed(&rules.ignored) || !rules.allowed.is_empty() && !listed(&rules.allowed) {
        return false;
    }
    if named {
        return true;
    }
    if rules.ignore_no_mention && !message.mentions.is_empty() {
        return false;
    }
    let known_thread = spot.known_thread && !rules.thread_require_mention;
    !rules.require_mention || listed(&rules.free) || known_thread
}

/// Whether a list of ids names the channel, or the one its thread hangs on.
pub(super) fn is_listed(list: &[String], room: &Room) -> bool {
    list.iter().any(|id| *id == room.id || Some(id) == room.parent_id.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discord::wire::User;

    fn user(id: &str) -> User {
        User { id: id.to_owned(), ..User::default() }
    }

    struct Case {
        meant: bool,
        what: &'static str,
        change: fn(&mut Message, &mut Rules),
        known_thread: bool,
    }

    #[test]
    fn in_servers() {
        let cases = [
            Case { meant: false, what: "nobody is named", change: |_, _| {}, known_thread: false },
            Case {
                meant: true,
                what: "the bot is named",
                change: |m, _| m.mentions.push(user("bot")),
                known_thread: false,
            },
            Case { meant: true, what: "a known thread", change: |_, _| {}, known_thread: true },
            Case {
                meant: false,
                what: "a known thread with a need to be named",
                change: |_, r| r.thread_require_mention = true,
                known_thread: true,
            },
            Case {
                meant: true,
                what: "no need to be named",
                change: |_, r| r.require_mention = false,
                known_thread: false,
            },
            Case {
                meant: true,
                what: "a free parent",
                change: |_, r| r.free.push("parent".into()),
                known_thread: false,
            },
            Case {
                meant: false,
                what: "somebody else is named",
                change: |m, r| {
                    m.mentions.push(user("x"));
                    r.require_mention = false;
                },
                known_thread: true,
            },
            Case {
                meant: true,
                what: "somebody else is named, and that is fine",
                change: |m, r| {
                    m.mentions.push(user("x"));
                    r.ignore_no_mention = false;
                },
                known_thread: true,
            },
            Case {
                meant: true,
                what: "both are named",
                change: |m, _| {
                    m.mentions.push(user("x"));
                    m.mentions.push(user("bot"));
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "ignored",
                change: |m, r| {
                    m.mentions.push(user("bot"));
                    r.ignored.push("room".into());
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "not allowed",
                change: |m, r| {
                    m.mentions.push(user("bot"));
                    r.allowed.push("other".into());
                },
                known_thread: false,
            },
            Case {
                meant: true,
                what: "the parent is allowed",
                change: |m, r| {
                    m.mentions.push(user("bot"));
                    r.allowed.push("parent".into());
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "its own",
                change: |m, r| {
                    m.author.id = "bot".into();
                    r.require_mention = false;
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "a bot",
                change: |m, _| {
                    m.author.bot = true;
                    m.mentions.push(user("bot"));
                },
                known_thread: false,
            },
            Case {
                meant: true,
                what: "a bot that may name it",
                change: |m, r| {
                    m.author.bot = true;
                    m.mentions.push(user("bot"));
                    r.bots = Bots::Mentions;
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "a bot that does not name it",
                change: |m, r| {
                    m.author.bot = true;
                    r.require_mention = false;
                    r.bots = Bots::Mentions;
                },
                known_thread: false,
            },
            Case {
                meant: true,
                what: "any bot",
                change: |m, r| {
                    m.author.bot = true;
                    r.require_mention = false;
                    r.bots = Bots::Everything;
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "somebody joined",
                change: |m, r| {
                    m.kind = 7;
                    r.require_mention = false;
                },
                known_thread: false,
            },
            Case {
                meant: true,
                what: "a reply",
                change: |m, r| {
                    m.kind = 19;
                    r.require_mention = false;
                },
                known_thread: false,
            },
        ];
        for case in cases {
            let mut message = Message { author: user("a"), ..Message::default() };
            let mut rules = Rules { require_mention: true, ignore_no_mention: true, ..Rules::default() };
            (case.change)(&mut message, &mut rules);
            let room = Room { id: "room".into(), parent_id: Some("parent".into()), ..Room::default() };
            let spot = Spot { room: Some(&room), known_thread: case.known_thread };
            assert_eq!(is_meant(&message, "bot", spot, &rules), case.meant, "{}", case.what);
        }
    }

    #[test]
    fn direct_messages_need_no_mention_but_bots_are_left_alone() {
        let rules = Rules { require_mention: true, ignore_no_mention: true, ..Rules::default() };
        let spot = Spot { room: None, known_thread: false };
        let mut message = Message { author: user("a"), mentions: vec![user("x")], ..Message::default() };
        assert!(is_meant(&message, "bot", spot, &rules));
        message.author.bot = true;
        assert!(!is_meant(&message, "bot", spot, &rules));
    }
}
