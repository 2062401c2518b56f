//! Converts messages to envelopes. Pure.

use hermes_types::{ChatKind, ChatPart, Envelope, Sender};

use super::event::MatrixMessage;
use super::rooms::RoomFacts;
use super::settings::MatrixSettings;

/// Tells whether a message is meant for the bot.
pub(super) fn is_relevant(
    message: &MatrixMessage,
    text: &str,
    room: &str,
    facts: &RoomFacts,
    settings: &MatrixSettings,
    me: &str,
) -> bool {
    if facts.kind == ChatKind::Dm {
        return true;
    }
    let listed = |list: &[String]| list.iter().any(|entry| entry == room);
    if !settings.allowed_rooms.is_empty() && !listed(&settings.allowed_rooms) {
        return false;
    }
    if !settings.require_mention || listed(&settings.free_rooms) {
        return true;
    }
    let named = message.mentions.iter().flatten().any(|user| user == me);
    let linked = message.markup.contains(&format!("https://matrix.to/#/{me}\""));
    named || linked || mention(text, me, facts).is_some()
}

/// Returns where a text mentions the bot, by its id, its name, or the first part of its id after an `@`.
fn mention(text: &str, me: &str, facts: &RoomFacts) -> Option<(usize, usize)> {
    let short = me.split(':').next().unwrap_or(me);
    let name = facts.member_name(me).filter(|name| name.chars().count() > 1);
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let candidates = [Some(me.to_owned()), Some(short.to_owned()), name.map(|name| format!("@{name}"))];
    for wanted in candidates.into_iter().flatten() {
        if let Some(found) = find_word(text, &wanted, in_word) {
            return Some(found);
        }
    }
    // A name without its sign counts at the start only: `hermes: what is this?`
    let name = facts.member_name(me)?;
    let lower = text.to_lowercase();
    let rest = lower.strip_prefix(&name.to_lowercase())?;
    (lower.len() == text.len() && rest.starts_with([':', ','])).then_some((0, name.len() + 1))
}

fn find_word(text: &str, wanted: &str, in_word: impl Fn(char) -> bool) -> Option<(usize, usize)> {
    // ASCII only, so that positions stay the same.
    let (lower, wanted) = (text.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    let mut from = 0;
    while let Some(at) = lower.get(from..).and_then(|rest| rest.find(&wanted)) {
        let (start, end) = (from + at, from + at + wanted.len());
        let next = lower.get(end..).unwrap_or_default();
        // `@hermes:` may be followed by another server's name.
        let after = next.strip_prefix([':', '.']).unwrap_or(next).chars().next();
        let before = lower.get(..start).and_then(|head| head.chars().next_back());
        if !after.is_some_and(&in_word) && !before.is_some_and(&in_word) {
            return Some((start, end));
        }
        from = end;
    }
    None
}

/// Returns the text without the mention of the bot, and with a command in its usual form.
pub(super) fn message_text(text: &str, me: &str, facts: &RoomFacts, commands: &[String]) -> String {
    let mut words = text.trim().to_owned();
    if facts.kind != ChatKind::Dm
        && let Some((start, end)) = mention(&words, me, facts)
    {
        let (before, after) = (words.get(..start).unwrap_or_default(), words.get(end..).unwrap_or_default());
        let after = if before.trim().is_empty() { after.trim_start_matches([':', ',', ' ']) } else { after };
        format!("{before}{after}").trim().clone_into(&mut words);
    }
    // Programs keep what begins with `/` for themselves.
    if let Some(rest) = words.strip_prefix('!') {
        let name = rest.split_whitespace().next().unwrap_or_default().to_lowercase();
        if commands.contains(&name) {
            return format!("/{rest}");
        }
    }
    words
}

/// Converts a message to an envelope.
pub(super) fn envelope(
    message: &MatrixMessage,
    room: &str,
    facts: &RoomFacts,
    parts: Vec<ChatPart>,
    settings: &MatrixSettings,
) -> Envelope {
    let mut place = facts.address(room);
    place.thread_id.clone_from(&message.thread);
    if settings.auto_thread && facts.kind != ChatKind::Dm {
        place.thread_id.get_or_insert_with(|| message.id.clone());
    }
    Envelope {
        platform: super::NAME.to_owned(),
        platform_key: message.id.clone(),
        place,
        sender: sender(&message.sender, facts),
        parts,
        message_id: Some(message.id.clone()),
        reply_to: message.reply_to.clone(),
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at: message.at,
    }
}

/// Describes a member of a room. Only the id counts: everybody can choose any name.
pub(super) fn sender(user: &str, facts: &RoomFacts) -> Sender {
    let name = facts.member_name(user).unwrap_or_else(|| user.to_owned());
    Sender { user_id: Some(user.to_owned()), user_name: Some(name), alt_id: None, handle: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(kind: ChatKind) -> RoomFacts {
        RoomFacts {
            kind,
            name: None,
            topic: None,
            encryption: None,
            history_visibility: None,
            members: vec![
                ("@bot:x.org".to_owned(), Some("Hermes".to_owned())),
                ("@ann:x.org".to_owned(), None),
            ],
        }
    }

    #[test]
    fn mentions_are_whole_names() {
        let facts = facts(ChatKind::Group);
        for (text, expected) in [
            ("@bot:x.org hi", Some("hi")),
            ("hi @BOT:x.org.", Some("hi .")),
            ("@bot: now", Some("now")),
            ("@Hermes hi", Some("hi")),
            ("Hermes: hi", Some("hi")),
            ("hermes, hi", Some("hi")),
            ("hermes hi", None),
            ("@bot:y.org hi", None),
            ("@bottle hi", None),
            ("a@bot:x.org hi", None),
            ("@bot:x.org !new please", Some("/new please")),
        ] {
            let commands = ["new".to_owned()];
            let found = mention(text, "@bot:x.org", &facts)
                .map(|_| message_text(text, "@bot:x.org", &facts, &commands));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        let direct = self::facts(ChatKind::Dm);
        assert_eq!(message_text(" @bot hi", "@bot:x.org", &direct, &[]), "@bot hi");
    }
}
