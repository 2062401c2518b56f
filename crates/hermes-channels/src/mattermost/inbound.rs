//! Converts posts to messages. Pure.

use hermes_types::{ChatAddress, ChatKind, ChatPart, Envelope, Sender, Timestamp};
use serde_json::Value;

use super::api::MattermostIdentity;
use super::outbound::emoji;
use super::settings::{MattermostSettings, ReplyMode};
use crate::choices::IncomingReaction;

/// A post of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MattermostPost {
    pub(super) id: String,
    pub(super) channel: String,
    pub(super) user: String,
    pub(super) root: Option<String>,
    pub(super) text: String,
    /// Milliseconds since the epoch.
    pub(super) created: i64,
    pub(super) files: Vec<MattermostFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MattermostFile {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) size: Option<u64>,
}

/// The channel of a post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MattermostPlace {
    pub(super) kind: ChatKind,
    pub(super) name: Option<String>,
}

impl MattermostPlace {
    /// Reads the letter of a channel's type.
    pub(super) fn new(kind: &str, name: Option<&str>) -> Self {
        let kind = match kind {
            "D" => ChatKind::Dm,
            "O" => ChatKind::Channel,
            _ => ChatKind::Group,
        };
        let name = name.filter(|name| !name.is_empty() && kind != ChatKind::Dm);
        Self { kind, name: name.map(str::to_owned) }
    }
}

/// Parses a post. Returns `None` for the bot's own, for those of other bots and integrations, and for those of the
/// system.
pub(super) fn parse_post(post: &Value, me: &MattermostIdentity) -> Option<MattermostPost> {
    let text = |key: &str| post.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let flagged = |name: &str| {
        let flag = post.get("props").and_then(|props| props.get(name));
        flag.is_some_and(|flag| flag == "true" || flag == true)
    };
    let deleted = post.get("delete_at").and_then(Value::as_i64).is_some_and(|at| at > 0);
    if text("type").is_some() || deleted || flagged("from_bot") || flagged("from_webhook") {
        return None;
    }
    let user = text("user_id").filter(|user| *user != me.id)?;
    let infos = post.pointer("/metadata/files").and_then(Value::as_array);
    let info = |id: &str| {
        infos.into_iter().flatten().find(|info| info.get("id").and_then(Value::as_str) == Some(id))
    };
    let ids = post.get("file_ids").and_then(Value::as_array).into_iter().flatten();
    let files = ids.filter_map(Value::as_str).map(|id| parse_file(id, info(id)));
    Some(MattermostPost {
        id: text("id")?.to_owned(),
        channel: text("channel_id")?.to_owned(),
        user: user.to_owned(),
        root: text("root_id").map(str::to_owned),
        text: text("message").unwrap_or_default().to_owned(),
        created: post.get("create_at").and_then(Value::as_i64).unwrap_or_default(),
        files: files.collect(),
    })
}

/// Reads what is known about a file.
pub(super) fn parse_file(id: &str, info: Option<&Value>) -> MattermostFile {
    let text = |key: &str| info?.get(key).and_then(Value::as_str).map(str::to_owned);
    MattermostFile {
        id: id.to_owned(),
        name: text("name"),
        mime: text("mime_type"),
        size: info.and_then(|info| info.get("size")).and_then(Value::as_u64),
    }
}

/// Tells whether a post is meant for the bot.
pub(super) fn is_relevant(
    post: &MattermostPost,
    place: &MattermostPlace,
    settings: &MattermostSettings,
    me: &MattermostIdentity,
) -> bool {
    if place.kind == ChatKind::Dm {
        return true;
    }
    let listed = |list: &[String]| list.contains(&post.channel);
    if !settings.allowed_channels.is_empty() && !listed(&settings.allowed_channels) {
        return false;
    }
    !settings.require_mention || listed(&settings.free_channels) || mention(&post.text, me).is_some()
}

/// Returns where the text mentions the bot, by its name or its id.
fn mention(text: &str, me: &MattermostIdentity) -> Option<(usize, usize)> {
    // ASCII only, so that positions stay the same.
    let lower = text.to_ascii_lowercase();
    for name in [&me.username, &me.id] {
        let wanted = format!("@{}", name.to_ascii_lowercase());
        let mut from = 0;
        while let Some(at) = lower.get(from..).and_then(|rest| rest.find(&wanted)) {
            let (start, end) = (from + at, from + at + wanted.len());
            let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            let next = lower.get(end..).unwrap_or_default();
            // `@hermes.` ends a sentence; `@hermes.old` is another name.
            let after = next.strip_prefix('.').unwrap_or(next).chars().next();
            let before = lower.get(..start).and_then(|head| head.chars().next_back());
            if !after.is_some_and(in_word) && !before.is_some_and(in_word) {
                return Some((start, end));
            }
            from = end;
        }
    }
    None
}

/// Returns the text without mentions of the bot, and with a command in its usual form.
pub(super) fn message_text(text: &str, me: &MattermostIdentity, commands: &[String]) -> String {
    let mut words = text.to_owned();
    while let Some((start, end)) = mention(&words, me) {
        words.replace_range(start..end, "");
    }
    let words = words.trim();
    match words.strip_prefix('!') {
        Some(rest)
            if rest
                .split_whitespace()
                .next()
                .is_some_and(|name| commands.iter().any(|known| known == name)) =>
        {
            format!("/{rest}")
        }
        _ => words.to_owned(),
    }
}

/// Parses an event about a reaction of a person.
pub(super) fn parse_reaction(frame: &Value, me: &MattermostIdentity) -> Option<IncomingReaction> {
    // The reaction is JSON within a text.
    let reaction: Value = serde_json::from_str(frame.pointer("/data/reaction")?.as_str()?).ok()?;
    let text = |key: &str| reaction.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (user, post, name) = (text("user_id")?, text("post_id")?, text("emoji_name")?);
    let chat = frame.pointer("/broadcast/channel_id")?.as_str()?.to_owned();
    let created = reaction.get("create_at").and_then(Value::as_i64).unwrap_or_default();
    (user != me.id).then(|| IncomingReaction {
        key: format!("{post}|{user}|{name}|{created}"),
        chat,
        target: post.to_owned(),
        emoji: emoji(name).to_owned(),
        sender: Sender { user_id: Some(user.to_owned()), ..Sender::default() },
        at: sent_at(created),
    })
}

/// Converts a post to an envelope.
pub(super) fn envelope(
    post: &MattermostPost,
    place: &MattermostPlace,
    parts: Vec<ChatPart>,
    name: Option<String>,
    mode: ReplyMode,
) -> Envelope {
    let mut address = ChatAddress::new(place.kind, &post.channel);
    address.chat_name.clone_from(&place.name);
    address.thread_id.clone_from(&post.root);
    if mode == ReplyMode::Thread && place.kind != ChatKind::Dm {
        // A question opens a thread; the root of a thread is never itself a reply.
        address.thread_id.get_or_insert_with(|| post.id.clone());
    }
    Envelope {
        platform: super::NAME.to_owned(),
        platform_key: post.id.clone(),
        place: address,
        sender: Sender {
            user_id: Some(post.user.clone()),
            user_name: name.clone(),
            alt_id: None,
            handle: name,
        },
        parts,
        message_id: Some(post.id.clone()),
        reply_to: post.root.clone(),
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at: sent_at(post.created),
    }
}

/// Converts Mattermost's time, which counts milliseconds.
fn sent_at(created: i64) -> Timestamp {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since the epoch fit a double")]
    Timestamp(created as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn me() -> MattermostIdentity {
        MattermostIdentity { id: "bot1".to_owned(), username: "hermes".to_owned() }
    }

    fn post(more: &Value) -> Value {
        let mut post = json!({
            "id": "p1", "channel_id": "c1", "user_id": "u1", "root_id": "", "message": "hi", "create_at": 1500, "type": "",
        });
        for (key, value) in more.as_object().unwrap() {
            post[key] = value.clone();
        }
        post
    }

    #[test]
    fn what_no_person_wrote_is_left_out() {
        for more in [
            json!({"user_id": "bot1"}),
            json!({"type": "system_join_channel"}),
            json!({"props": {"from_bot": "true"}}),
            json!({"props": {"from_webhook": "true"}}),
            json!({"delete_at": 3}),
            json!({"id": null}),
        ] {
            assert_eq!(parse_post(&post(&more), &me()), None, "{more}");
        }
        assert!(parse_post(&post(&json!({})), &me()).is_some());
    }

    #[test]
    fn mentions_are_whole_names() {
        for (text, expected) in [
            ("@hermes hi", Some("hi")),
            ("hi @Hermes.", Some("hi .")),
            ("@bot1: now", Some(": now")),
            ("@hermes-old hi", None),
            ("@hermes.old hi", None),
            ("a@hermes hi", None),
            ("hermes hi", None),
            ("ü@hermes", None),
            ("@hermes !new please", Some("/new please")),
        ] {
            let found = mention(text, &me()).map(|_| message_text(text, &me(), &["new".to_owned()]));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn threads_by_the_mode() {
        let threads = |root: &str, kind: &str, mode: ReplyMode| {
            let post = parse_post(&post(&json!({"root_id": root})), &me()).unwrap();
            envelope(&post, &MattermostPlace::new(kind, None), Vec::new(), None, mode).place.thread_id
        };
        let some = |id: &str| Some(id.to_owned());
        assert_eq!(threads("", "O", ReplyMode::Channel), None);
        assert_eq!(threads("r", "O", ReplyMode::Channel), some("r"));
        assert_eq!(threads("", "O", ReplyMode::Thread), some("p1"));
        assert_eq!(threads("r", "P", ReplyMode::Thread), some("r"));
        assert_eq!(threads("", "D", ReplyMode::Thread), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(@hermes|@BOT1|@|[a-zü .!/-]){0,12}") {
            message_text(&text, &me(), &["new".to_owned()]);
            parse_post(&post(&json!({"message": text, "file_ids": [text], "props": text})), &me());
        }
    }
}
