//! Decides which messages are meant for the bot. Pure.

use super::settings::{DiscordBotPolicy, MentionRules};
use super::wire::{ChannelInfo, DiscordMessage};

/// The location of a message, as far as the rules need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageLocation<'a> {
    /// The channel; `None` in a direct chat.
    pub(super) channel: Option<&'a ChannelInfo>,
    /// True when the bot already takes part in this thread.
    pub(super) known_thread: bool,
}

/// Tells whether to answer.
pub(super) fn is_for_bot(
    message: &DiscordMessage,
    bot: &str,
    spot: MessageLocation<'_>,
    rules: &MentionRules,
) -> bool {
    if message.author.id == bot || message.author.id.is_empty() || !matches!(message.kind, 0 | 19) {
        return false;
    }
    let named = message.mentions.iter().any(|user| user.id == bot);
    if message.author.bot
        && !(rules.bots == DiscordBotPolicy::Everything || rules.bots == DiscordBotPolicy::Mentions && named)
    {
        return false;
    }
    let Some(room) = spot.channel else { return true };
    let listed = |list: &[String]| is_listed(list, room);
    if listed(&rules.ignored_channels)
        || !rules.allowed_channels.is_empty() && !listed(&rules.allowed_channels)
    {
        return false;
    }
    if named {
        return true;
    }
    if rules.ignore_no_mention && !message.mentions.is_empty() {
        return false;
    }
    let known_thread = spot.known_thread && !rules.thread_require_mention;
    !rules.require_mention || listed(&rules.free_channels) || known_thread
}

/// Tells whether a list of ids contains the channel, or the parent of a thread.
pub(super) fn is_listed(list: &[String], room: &ChannelInfo) -> bool {
    list.iter().any(|id| *id == room.id || Some(id) == room.parent_id.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discord::wire::DiscordUser;

    fn user(id: &str) -> DiscordUser {
        DiscordUser { id: id.to_owned(), ..DiscordUser::default() }
    }

    struct Case {
        meant: bool,
        what: &'static str,
        change: fn(&mut DiscordMessage, &mut MentionRules),
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
                change: |_, r| r.free_channels.push("parent".into()),
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
                    r.ignored_channels.push("room".into());
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "not allowed",
                change: |m, r| {
                    m.mentions.push(user("bot"));
                    r.allowed_channels.push("other".into());
                },
                known_thread: false,
            },
            Case {
                meant: true,
                what: "the parent is allowed",
                change: |m, r| {
                    m.mentions.push(user("bot"));
                    r.allowed_channels.push("parent".into());
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
                    r.bots = DiscordBotPolicy::Mentions;
                },
                known_thread: false,
            },
            Case {
                meant: false,
                what: "a bot that does not name it",
                change: |m, r| {
                    m.author.bot = true;
                    r.require_mention = false;
                    r.bots = DiscordBotPolicy::Mentions;
                },
                known_thread: false,
            },
            Case {
                meant: true,
                what: "any bot",
                change: |m, r| {
                    m.author.bot = true;
                    r.require_mention = false;
                    r.bots = DiscordBotPolicy::Everything;
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
            let mut message = DiscordMessage { author: user("a"), ..DiscordMessage::default() };
            let mut rules =
                MentionRules { require_mention: true, ignore_no_mention: true, ..MentionRules::default() };
            (case.change)(&mut message, &mut rules);
            let room =
                ChannelInfo { id: "room".into(), parent_id: Some("parent".into()), ..ChannelInfo::default() };
            let spot = MessageLocation { channel: Some(&room), known_thread: case.known_thread };
            assert_eq!(is_for_bot(&message, "bot", spot, &rules), case.meant, "{}", case.what);
        }
    }

    #[test]
    fn direct_messages_need_no_mention_but_bots_are_left_alone() {
        let rules =
            MentionRules { require_mention: true, ignore_no_mention: true, ..MentionRules::default() };
        let spot = MessageLocation { channel: None, known_thread: false };
        let mut message =
            DiscordMessage { author: user("a"), mentions: vec![user("x")], ..DiscordMessage::default() };
        assert!(is_for_bot(&message, "bot", spot, &rules));
        message.author.bot = true;
        assert!(!is_for_bot(&message, "bot", spot, &rules));
    }
}
