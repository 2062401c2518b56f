//! Mentions and commands in a text, whose positions Telegram counts in UTF-16 code units.

use super::wire::{MessageEntity, TelegramUser};

/// The bot's id and user name.
#[derive(Debug, Clone)]
pub(super) struct TelegramIdentity {
    pub(super) id: i64,
    pub(super) username: String,
}

impl From<&TelegramUser> for TelegramIdentity {
    fn from(user: &TelegramUser) -> Self {
        Self { id: user.id, username: user.username.clone().unwrap_or_default().to_lowercase() }
    }
}

/// The text of a message, and whom it addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressedText {
    /// The text without the bot's mention, and without its name behind a command.
    pub(super) text: String,
    pub(super) mentioned: bool,
    pub(super) command: CommandAddressee,
}

/// Says whether the text begins with a command, and which bot it addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandAddressee {
    None,
    /// The command names no bot, so it addresses every bot in the chat.
    Anyone,
    ThisBot,
    OtherBot,
}

pub(super) fn parse_addressed_text(
    text: &str,
    entities: &[MessageEntity],
    me: &TelegramIdentity,
) -> AddressedText {
    let (command, body) = command(text, me);
    if command != CommandAddressee::None {
        return AddressedText { text: body, mentioned: command == CommandAddressee::ThisBot, command };
    }
    let units: Vec<u16> = text.encode_utf16().collect();
    let ours: Vec<&MessageEntity> =
        entities.iter().filter(|entity| mentions_bot(entity, &units, me)).collect();
    let kept: Vec<u16> = units
        .iter()
        .enumerate()
        .filter(|(at, _)| !ours.iter().any(|entity| covers(entity, *at)))
        .map(|(_, unit)| *unit)
        .collect();
    let bare = String::from_utf16_lossy(&kept).trim().to_owned();
    // A message that is only a mention keeps it as its text.
    let text = if ours.is_empty() || bare.is_empty() { text.to_owned() } else { bare };
    AddressedText { text, mentioned: !ours.is_empty(), command }
}

fn covers(entity: &MessageEntity, at: usize) -> bool {
    at >= entity.offset && at < entity.offset.saturating_add(entity.length)
}

fn mentions_bot(entity: &MessageEntity, units: &[u16], me: &TelegramIdentity) -> bool {
    match entity.kind.as_str() {
        "mention" => {
            let end = entity.offset.saturating_add(entity.length);
            let name = String::from_utf16_lossy(units.get(entity.offset..end).unwrap_or_default());
            name.strip_prefix('@').is_some_and(|name| is_bot_name(name, me))
        }
        "text_mention" => entity.user.as_ref().is_some_and(|user| user.id == me.id),
        _ => false,
    }
}

fn is_bot_name(name: &str, me: &TelegramIdentity) -> bool {
    !me.username.is_empty() && name.to_lowercase() == me.username
}

/// Converts `/name@bot rest` to `/name rest`.
fn command(text: &str, me: &TelegramIdentity) -> (CommandAddressee, String) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (first, rest) = text.split_at(end);
    if !first.strip_prefix('/').is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphanumeric())) {
        return (CommandAddressee::None, text.to_owned());
    }
    match first.split_once('@') {
        None => (CommandAddressee::Anyone, text.to_owned()),
        Some((name, bot)) if is_bot_name(bot, me) => (CommandAddressee::ThisBot, format!("{name}{rest}")),
        Some(_) => (CommandAddressee::OtherBot, text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(text: &str, entities: serde_json::Value) -> AddressedText {
        let me = TelegramIdentity { id: 1, username: "hermes_bot".to_owned() };
        parse_addressed_text(text, &serde_json::from_value::<Vec<MessageEntity>>(entities).unwrap(), &me)
    }

    #[test]
    fn mentions_are_counted_in_utf16() {
        let said = spoken(
            "𝄞𝄞 @Hermes_Bot, hello",
            serde_json::json!([{"type": "mention", "offset": 5, "length": 11}]),
        );
        assert_eq!((said.text.as_str(), said.mentioned), ("𝄞𝄞 , hello", true));
        let said = spoken("@other hello", serde_json::json!([{"type": "mention", "offset": 0, "length": 6}]));
        assert_eq!((said.text.as_str(), said.mentioned), ("@other hello", false));
        let named =
            serde_json::json!([{"type": "text_mention", "offset": 0, "length": 6, "user": {"id": 1}}]);
        assert_eq!(spoken("Hermes hi", named).text, "hi");
        let alone =
            spoken("@hermes_bot", serde_json::json!([{"type": "mention", "offset": 0, "length": 11}]));
        assert_eq!((alone.text.as_str(), alone.mentioned), ("@hermes_bot", true));
        let wild = serde_json::json!([{"type": "mention", "offset": 9_000_000_000_u64, "length": 9_000_000_000_u64}]);
        assert!(!spoken("x", wild).mentioned);
    }

    #[test]
    fn commands_know_whose_they_are() {
        for (text, command, words) in [
            ("/new", CommandAddressee::Anyone, "/new"),
            ("/model@Hermes_bot gpt", CommandAddressee::ThisBot, "/model gpt"),
            ("/new@other_bot", CommandAddressee::OtherBot, "/new@other_bot"),
            ("/ not one", CommandAddressee::None, "/ not one"),
            ("/etc/passwd@x is a file", CommandAddressee::OtherBot, "/etc/passwd@x is a file"),
        ] {
            let said = spoken(text, serde_json::json!([]));
            assert_eq!((said.command, said.text.as_str()), (command, words));
        }
    }
}
