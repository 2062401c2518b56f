//! Converts Slack's events to envelopes. Pure: names, files and threads are looked up elsewhere.

use hermes_types::{ChatAddress, ChatKind, ChatPart, Envelope, Sender, Timestamp};
use serde_json::Value;

use super::settings::{SlackBotPolicy, SlackSettings};

/// A message event, with the fields that are used.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlackMessage {
    pub(super) channel: String,
    pub(super) kind: ChatKind,
    pub(super) user: String,
    pub(super) ts: String,
    pub(super) thread_ts: Option<String>,
    pub(super) text: String,
    pub(super) files: Vec<SlackFile>,
    pub(super) by_bot: bool,
}

/// A file that was shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlackFile {
    pub(super) name: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) url: String,
}

/// The bot's ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlackIdentity {
    pub(super) user: String,
    pub(super) bot: Option<String>,
}

/// Returns the message of an event; `None` when it has none, or one of the bot's own.
pub(super) fn parse_message(event: &Value, own: &SlackIdentity) -> Option<SlackMessage> {
    let text_of = |key: &str| event.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text_of("type") != Some("message") {
        return None;
    }
    match text_of("subtype") {
        None | Some("file_share" | "thread_broadcast" | "me_message" | "bot_message") => {}
        Some(_) => return None,
    }
    let by_bot = text_of("bot_id").is_some() || text_of("subtype") == Some("bot_message");
    let user = text_of("user").or_else(|| text_of("bot_id"))?.to_owned();
    if user == own.user || (own.bot.is_some() && text_of("bot_id") == own.bot.as_deref()) {
        return None;
    }
    let channel = text_of("channel")?.to_owned();
    let files =
        event.get("files").and_then(Value::as_array).into_iter().flatten().filter_map(parse_file).collect();
    Some(SlackMessage {
        kind: chat_kind(&channel, text_of("channel_type")),
        channel,
        user,
        ts: text_of("ts")?.to_owned(),
        thread_ts: text_of("thread_ts").map(str::to_owned),
        text: text_of("text").unwrap_or_default().to_owned(),
        files,
        by_bot,
    })
}

fn parse_file(value: &Value) -> Option<SlackFile> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(SlackFile {
        name: text("name"),
        mime: text("mimetype"),
        size: value.get("size").and_then(Value::as_u64),
        url: text("url_private_download").or_else(|| text("url_private"))?,
    })
}

/// Returns the kind of chat; direct channels have their own id prefix.
pub(super) fn chat_kind(channel: &str, channel_type: Option<&str>) -> ChatKind {
    match channel_type {
        Some("im") => ChatKind::Dm,
        None if channel.starts_with('D') => ChatKind::Dm,
        _ => ChatKind::Group,
    }
}

/// Says whether a message is meant for the bot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageRelevance {
    Relevant,
    Irrelevant,
}

/// Decides by kind of chat, mention, and whether the bot takes part in the thread.
pub(super) fn relevance(
    message: &SlackMessage,
    settings: &SlackSettings,
    own: &SlackIdentity,
    in_thread: bool,
) -> MessageRelevance {
    let mentioned = mentions_bot(&message.text, own)
        || settings.patterns.iter().any(|pattern| pattern.is_match(&message.text));
    let bot_may = match settings.bots {
        SlackBotPolicy::None => false,
        SlackBotPolicy::Mentioning => mentioned,
        SlackBotPolicy::All => true,
    };
    if message.by_bot && !bot_may {
        return MessageRelevance::Irrelevant;
    }
    if message.kind == ChatKind::Dm {
        return MessageRelevance::Relevant;
    }
    let listed = |list: &[String]| list.contains(&message.channel);
    if !settings.allowed_channels.is_empty() && !listed(&settings.allowed_channels) {
        return MessageRelevance::Irrelevant;
    }
    let free = !settings.require_mention || listed(&settings.free_channels);
    let known = in_thread && !settings.strict_mention;
    if mentioned || free || known { MessageRelevance::Relevant } else { MessageRelevance::Irrelevant }
}

pub(super) fn mentions_bot(text: &str, own: &SlackIdentity) -> bool {
    text.contains(&format!("<@{}>", own.user)) || text.contains(&format!("<@{}|", own.user))
}

/// Returns the text without the bot's mention, and with markup decoded.
pub(super) fn message_text(text: &str, own: &SlackIdentity, commands: &[String]) -> String {
    let mut words = decode_markup(&without_mention(text, own)).trim().to_owned();
    // Slack does not allow slash commands in threads.
    if let Some(rest) = words.strip_prefix('!')
        && let Some(name) = rest.split_whitespace().next()
        && commands.iter().any(|command| command == name)
    {
        words = format!("/{rest}");
    }
    words
}

fn without_mention(text: &str, own: &SlackIdentity) -> String {
    let mut rest = text.replace(&format!("<@{}>", own.user), "");
    let labelled = format!("<@{}|", own.user);
    while let Some(begin) = rest.find(&labelled) {
        let Some(length) = rest.get(begin..).and_then(|tail| tail.find('>')) else { break };
        rest.replace_range(begin..=begin + length, "");
    }
    rest
}

/// Decodes links, channels and the three escaped characters. Mentions of others stay as they are: an answer can use
/// them.
fn decode_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once('<') {
        out.push_str(before);
        let Some((inner, after)) = tail.split_once('>') else {
            out.push('<');
            rest = tail;
            continue;
        };
        out.push_str(&decode_reference(inner));
        rest = after;
    }
    out.push_str(rest);
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn decode_reference(inner: &str) -> String {
    let (target, label) =
        inner.split_once('|').map_or((inner, None), |(target, label)| (target, Some(label)));
    match target.chars().next() {
        Some('#') => {
            format!("#{}", label.filter(|label| !label.is_empty()).unwrap_or(target.trim_start_matches('#')))
        }
        Some('@') => format!("<{target}>"),
        Some('!') => format!("@{}", label.unwrap_or(target.trim_start_matches('!')).trim_start_matches('@')),
        _ => match label {
            Some(label) if label != target && !target.ends_with(label) => format!("{label} ({target})"),
            _ => target.trim_start_matches("mailto:").to_owned(),
        },
    }
}

/// Converts a message to an envelope.
pub(super) fn message_envelope(
    message: &SlackMessage,
    parts: Vec<ChatPart>,
    received_at: Timestamp,
) -> Envelope {
    let mut place = ChatAddress::new(message.kind, &message.channel);
    // Each mention in a channel opens a thread; direct messages share one conversation.
    place.thread_id = match message.kind {
        ChatKind::Dm => message.thread_ts.clone(),
        _ => Some(message.thread_ts.clone().unwrap_or_else(|| message.ts.clone())),
    };
    Envelope {
        platform: "slack".to_owned(),
        platform_key: format!("{}:{}", message.channel, message.ts),
        place,
        sender: Sender { user_id: Some(message.user.clone()), ..Sender::default() },
        parts,
        message_id: Some(message.ts.clone()),
        reply_to: message.thread_ts.clone().filter(|thread| *thread != message.ts),
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at,
    }
}

/// Converts `/hermes …`, or a registered command, to a text message.
pub(super) fn command_envelope(
    payload: &Value,
    commands: &[String],
    received_at: Timestamp,
) -> Option<Envelope> {
    let text_of = |key: &str| payload.get(key).and_then(Value::as_str).unwrap_or_default();
    let (command, rest) = (text_of("command").trim_start_matches('/'), text_of("text").trim());
    let known = |name: &str| commands.iter().any(|command| command == name);
    let words = if known(command) {
        format!("/{command} {rest}").trim().to_owned()
    } else {
        match rest.split_whitespace().next() {
            None => "/help".to_owned(),
            Some(first) if known(first.trim_start_matches('/')) => {
                format!("/{}", rest.trim_start_matches('/'))
            }
            Some(_) => rest.to_owned(),
        }
    };
    let (channel, user, trigger) = (text_of("channel_id"), text_of("user_id"), text_of("trigger_id"));
    if channel.is_empty() || user.is_empty() || trigger.is_empty() {
        return None;
    }
    let mut place = ChatAddress::new(ChatKind::Dm, channel);
    place.chat_name = Some(text_of("channel_name").to_owned()).filter(|name| !name.is_empty());
    let name = Some(text_of("user_name").to_owned()).filter(|name| !name.is_empty());
    Some(Envelope {
        platform: "slack".to_owned(),
        platform_key: format!("slash:{trigger}"),
        place,
        sender: Sender { user_id: Some(user.to_owned()), user_name: name, ..Sender::default() },
        parts: vec![ChatPart::Text { text: words }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at,
    })
}

/// Converts a button press to a message with the button's text.
pub(super) fn button_envelope(payload: &Value, received_at: Timestamp) -> Option<Envelope> {
    let text_at =
        |pointer: &str| payload.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text_at("/type") != Some("block_actions") {
        return None;
    }
    let says = text_at("/actions/0/value")?;
    let channel = text_at("/channel/id").or_else(|| text_at("/container/channel_id"))?;
    let message = text_at("/message/ts").or_else(|| text_at("/container/message_ts"))?;
    let pressed = text_at("/actions/0/action_ts").or_else(|| text_at("/trigger_id"))?;
    let mut place = ChatAddress::new(chat_kind(channel, None), channel);
    place.thread_id =
        text_at("/message/thread_ts").or_else(|| text_at("/container/thread_ts")).map(str::to_owned);
    Some(Envelope {
        platform: "slack".to_owned(),
        platform_key: format!("action:{channel}:{message}:{pressed}"),
        place,
        sender: Sender {
            user_id: text_at("/user/id").map(str::to_owned),
            user_name: text_at("/user/name").or_else(|| text_at("/user/username")).map(str::to_owned),
            ..Sender::default()
        },
        parts: vec![ChatPart::Text { text: says.to_owned() }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::options::Options;

    fn own() -> SlackIdentity {
        SlackIdentity { user: "UBOT".to_owned(), bot: Some("BBOT".to_owned()) }
    }

    fn settings(variables: &[(&str, &str)]) -> SlackSettings {
        let mut all = vec![("SLACK_BOT_TOKEN", "xoxb-1"), ("SLACK_APP_TOKEN", "xapp-1")];
        all.extend(variables);
        let pairs = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        SlackSettings::read(&Options::new(pairs.collect(), Value::Null)).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "written in place by every caller")]
    fn said(fields: Value) -> Value {
        let mut event = json!({"type": "message", "channel": "C1", "user": "U1", "ts": "1.1", "text": "hi"});
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    }

    #[test]
    fn what_is_no_message_of_a_person_is_left_out() {
        for event in [
            json!({"type": "app_mention", "channel": "C1", "user": "U1", "ts": "1.1"}),
            said(json!({"subtype": "message_changed"})),
            said(json!({"subtype": "message_deleted"})),
            said(json!({"subtype": "channel_join"})),
            said(json!({"user": "UBOT"})),
            said(json!({"bot_id": "BBOT", "user": null})),
            said(json!({"channel": null})),
        ] {
            assert_eq!(parse_message(&event, &own()), None, "{event}");
        }
        let by_bot = parse_message(&said(json!({"bot_id": "B2"})), &own()).unwrap();
        assert_eq!(
            relevance(&by_bot, &settings(&[("SLACK_REQUIRE_MENTION", "false")]), &own(), false),
            MessageRelevance::Irrelevant
        );
        let all = settings(&[("SLACK_REQUIRE_MENTION", "false"), ("SLACK_ALLOW_BOTS", "all")]);
        assert_eq!(relevance(&by_bot, &all, &own(), false), MessageRelevance::Relevant);
    }

    #[test]
    fn channels_need_a_mention_or_a_reason() {
        let plain = parse_message(&said(json!({})), &own()).unwrap();
        let called = parse_message(&said(json!({"text": "<@UBOT> hi"})), &own()).unwrap();
        let direct = parse_message(&said(json!({"channel_type": "im", "channel": "D1"})), &own()).unwrap();
        let verdicts = |variables: &[(&str, &str)], in_thread| {
            [&plain, &called, &direct].map(|message| {
                relevance(message, &settings(variables), &own(), in_thread) == MessageRelevance::Relevant
            })
        };
        assert_eq!(verdicts(&[], false), [false, true, true]);
        assert_eq!(verdicts(&[], true), [true, true, true]);
        assert_eq!(verdicts(&[("SLACK_STRICT_MENTION", "true")], true), [false, true, true]);
        assert_eq!(verdicts(&[("SLACK_FREE_RESPONSE_CHANNELS", "C1")], false), [true, true, true]);
        assert_eq!(verdicts(&[("SLACK_ALLOWED_CHANNELS", "C2")], true), [false, false, true]);
        assert_eq!(verdicts(&[("SLACK_MENTION_PATTERNS", "^h.$")], false), [true, true, true]);
    }

    #[test]
    fn threads_and_keys() {
        let key = |fields: Value| {
            let message = parse_message(&said(fields), &own()).unwrap();
            let envelope = message_envelope(&message, Vec::new(), Timestamp(0.0));
            (envelope.platform_key, envelope.place.thread_id, envelope.reply_to)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(key(json!({})), ("C1:1.1".to_owned(), some("1.1"), None));
        assert_eq!(key(json!({"thread_ts": "0.9"})), ("C1:1.1".to_owned(), some("0.9"), some("0.9")));
        assert_eq!(key(json!({"channel_type": "im", "channel": "D1"})), ("D1:1.1".to_owned(), None, None));
    }

    #[test]
    fn words_are_what_the_person_sees() {
        let commands = ["new".to_owned()];
        for (text, expected) in [
            ("<@UBOT> hi", "hi"),
            ("hey <@UBOT|hermes>, look", "hey , look"),
            ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
            ("see <https://x.y|here> and <https://x.y>", "see here (https://x.y) and https://x.y"),
            ("<#C9|general> <!here> <@U7>", "#general @here <@U7>"),
            ("<mailto:a@b.c|a@b.c>", "a@b.c"),
            ("!new please", "/new please"),
            ("!important", "!important"),
            ("1 < 2", "1 < 2"),
        ] {
            assert_eq!(message_text(text, &own(), &commands), expected, "{text}");
        }
    }

    #[test]
    fn commands_and_buttons() {
        let commands = ["new".to_owned(), "title".to_owned(), "help".to_owned()];
        let says = |command: &str, text: &str| {
            let payload = json!({"command": command, "text": text, "channel_id": "C1", "user_id": "U1", "trigger_id": "t"});
            command_envelope(&payload, &commands, Timestamp(0.0)).unwrap().text()
        };
        assert_eq!(says("/hermes", ""), "/help");
        assert_eq!(says("/hermes", "title My chat"), "/title My chat");
        assert_eq!(says("/hermes", "what is up"), "what is up");
        assert_eq!(says("/new", ""), "/new");
        let payload = json!({
            "type": "block_actions", "user": {"id": "U1"}, "channel": {"id": "C1"},
            "message": {"ts": "5.5", "thread_ts": "1.1"}, "actions": [{"value": "/approve", "action_ts": "6.6"}],
        });
        let pressed = button_envelope(&payload, Timestamp(0.0)).unwrap();
        assert_eq!((pressed.text().as_str(), pressed.place.thread_id.as_deref()), ("/approve", Some("1.1")));
        assert_eq!(button_envelope(&json!({"type": "view_submission"}), Timestamp(0.0)), None);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "(<@UBOT[|>]?|<|>|&lt;|[a-z!#/ ]){0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(
                    prop_oneof![
                        "type|subtype|channel|user|ts|text|files|bot_id|actions|value|message|name",
                        "[a-z]{1,4}"
                    ],
                    inner,
                    0..6
                )
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_slack_could_send_panics(value in json_value()) {
            if let Some(message) = parse_message(&value, &own()) {
                message_text(&message.text, &own(), &["new".to_owned()]);
                message_envelope(&message, Vec::new(), Timestamp(0.0));
            }
            command_envelope(&value, &[], Timestamp(0.0));
            button_envelope(&value, Timestamp(0.0));
        }
    }
}
