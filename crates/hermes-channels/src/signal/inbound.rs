//! Converts events to messages. Pure.

use hermes_types::{ChatAddress, ChatKind, ChatPart, Envelope, Sender, Timestamp};
use serde_json::Value;

use super::settings::SignalSettings;
use super::{GROUP, NAME};
use crate::choices::IncomingReaction;

/// A message for the bot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SignalMessage {
    /// The time at which it was sent, in milliseconds; with its author it is the id.
    pub(super) timestamp: u64,
    /// The number of the author, or their UUID.
    author: String,
    uuid: Option<String>,
    name: Option<String>,
    pub(super) group: Option<String>,
    group_name: Option<String>,
    pub(super) text: String,
    pub(super) files: Vec<SignalFile>,
    quote: Option<(String, Option<String>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignalFile {
    pub(super) id: String,
    pub(super) mime: Option<String>,
    pub(super) name: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) is_note: bool,
}

/// What is known about the account itself.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnAccount {
    /// Its other id, once the daemon has said it.
    pub(super) uuid: Option<String>,
    /// The times of its newest messages.
    pub(super) sent: Vec<u64>,
}

/// Parses an event. Returns `None` for what is no message for the bot.
pub(super) fn parse_event(
    event: &Value,
    settings: &SignalSettings,
    own: &OwnAccount,
) -> Option<SignalMessage> {
    let envelope = event.get("envelope").unwrap_or(event);
    let text = |key: &str| envelope.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let author = text("sourceNumber").or_else(|| text("sourceUuid")).or_else(|| text("source"))?;
    let is_story = envelope.get("storyMessage").is_some_and(|story| !story.is_null());
    if is_story && settings.ignore_stories {
        return None;
    }
    if let Some(sync) = present(envelope.get("syncMessage")) {
        return parse_note_to_self(sync, author, envelope, settings, own);
    }
    let is_own = |id: &str| id == settings.account || own.uuid.as_deref() == Some(id);
    if is_own(author) || text("source").is_some_and(is_own) {
        return None;
    }
    let data = present(envelope.get("dataMessage"))
        .or_else(|| present(envelope.pointer("/editMessage/dataMessage")))?;
    parse_data(data, author, envelope, settings, own)
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// Parses a message that the user of the account wrote to themself on another device.
fn parse_note_to_self(
    sync: &Value,
    author: &str,
    envelope: &Value,
    settings: &SignalSettings,
    own: &OwnAccount,
) -> Option<SignalMessage> {
    let data = present(sync.get("sentMessage"))?;
    let to = ["destinationNumber", "destination"].into_iter().find_map(|key| data.get(key)?.as_str())?;
    let timestamp = data.get("timestamp").and_then(Value::as_u64)?;
    if to != settings.account || own.sent.contains(&timestamp) || present(data.get("groupInfo")).is_some() {
        return None;
    }
    parse_data(data, author, envelope, settings, own)
}

/// Parses a reaction to a message of the bot, also one in Note to Self. Returns `None` for other events, and for one that is taken
/// back.
pub(super) fn parse_reaction(
    event: &Value,
    settings: &SignalSettings,
    own: &OwnAccount,
) -> Option<IncomingReaction> {
    let envelope = event.get("envelope").unwrap_or(event);
    let data = present(envelope.get("dataMessage")).or_else(|| {
        let sent = present(envelope.pointer("/syncMessage/sentMessage"))?;
        let to = ["destinationNumber", "destination"].into_iter().find_map(|key| sent.get(key)?.as_str())?;
        (to == settings.account).then_some(sent)
    })?;
    let reaction = present(data.get("reaction"))?;
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let author = ["sourceNumber", "sourceUuid", "source"].into_iter().find_map(|key| text(envelope, key))?;
    let group = data.pointer("/groupInfo/groupId").and_then(Value::as_str);
    let is_own = |id: &str| id == settings.account || own.uuid.as_deref() == Some(id);
    let to_bot = ["targetAuthorNumber", "targetAuthorUuid", "targetAuthor"]
        .into_iter()
        .any(|key| text(reaction, key).is_some_and(|id| is_own(&id)));
    let is_taken_back = reaction.get("isRemove").and_then(Value::as_bool).unwrap_or_default();
    if is_taken_back || !to_bot || group.is_some_and(|group| !settings.allows_group(group)) {
        return None;
    }
    let at = data.get("timestamp").or_else(|| envelope.get("timestamp")).and_then(Value::as_u64)?;
    let target = reaction.get("targetSentTimestamp").and_then(Value::as_u64)?;
    Some(IncomingReaction {
        key: message_id(at, &author),
        chat: group.map_or_else(|| author.clone(), |group| format!("{GROUP}{group}")),
        target: message_id(target, &settings.account),
        emoji: text(reaction, "emoji")?,
        sender: Sender {
            user_id: Some(author),
            user_name: text(envelope, "sourceName"),
            alt_id: text(envelope, "sourceUuid"),
            handle: None,
        },
        at: sent_at(at),
    })
}

/// Converts Signal's time, which counts milliseconds.
fn sent_at(timestamp: u64) -> Timestamp {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since the epoch fit a double")]
    Timestamp(timestamp as f64 / 1000.0)
}

fn parse_data(
    data: &Value,
    author: &str,
    envelope: &Value,
    settings: &SignalSettings,
    own: &OwnAccount,
) -> Option<SignalMessage> {
    let text_at = |pointer: &str| {
        data.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let timestamp = data.get("timestamp").or_else(|| envelope.get("timestamp")).and_then(Value::as_u64)?;
    // They are no messages of their own; `parse_reaction` reads reactions.
    if present(data.get("reaction")).is_some() || present(data.get("remoteDelete")).is_some() {
        return None;
    }
    let group = text_at("/groupInfo/groupId");
    if let Some(group) = &group
        && !settings.allows_group(group)
    {
        return None;
    }
    let mut mentions = mentions(data);
    for mention in &mut mentions {
        mention.is_own = mention.name == settings.account || own.uuid.as_ref() == Some(&mention.name);
    }
    if group.is_some() && settings.require_mention && !mentions.iter().any(|mention| mention.is_own) {
        return None;
    }
    let message = data.get("message").and_then(Value::as_str).unwrap_or_default();
    let text = with_mentions(message, &mentions);
    let files = data.get("attachments").and_then(Value::as_array).into_iter().flatten();
    let files: Vec<SignalFile> = files.filter_map(parse_file).collect();
    if text.is_empty() && files.is_empty() {
        return None;
    }
    let quote = data.pointer("/quote/id").and_then(Value::as_u64).map(|id| {
        let by = text_at("/quote/authorNumber").or_else(|| text_at("/quote/author")).unwrap_or_default();
        (message_id(id, &by), text_at("/quote/text"))
    });
    let of_sender = |key: &str| {
        envelope.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    Some(SignalMessage {
        timestamp,
        author: author.to_owned(),
        uuid: of_sender("sourceUuid"),
        name: of_sender("sourceName"),
        group,
        group_name: text_at("/groupInfo/groupName"),
        text,
        files,
        quote,
    })
}

fn parse_file(file: &Value) -> Option<SignalFile> {
    let text = |key: &str| file.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(SignalFile {
        id: text("id").filter(|id| !id.is_empty())?,
        mime: text("contentType"),
        name: text("filename"),
        size: file.get("size").and_then(Value::as_u64),
        is_note: file.get("voiceNote").and_then(Value::as_bool).unwrap_or_default(),
    })
}

/// A mention: a range of the text, in UTF-16 units.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SignalMention {
    start: usize,
    length: usize,
    /// The number, or the UUID.
    name: String,
    /// True when it names the bot.
    is_own: bool,
}

fn mentions(data: &Value) -> Vec<SignalMention> {
    let listed = data.get("mentions").and_then(Value::as_array).into_iter().flatten();
    let read = |mention: &Value| {
        let number = |key: &str| mention.get(key)?.as_u64().and_then(|number| usize::try_from(number).ok());
        let name = ["number", "uuid"]
            .into_iter()
            .find_map(|key| mention.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()));
        let (start, length) = (number("start")?, number("length")?);
        Some(SignalMention { start, length, name: name?.to_owned(), is_own: false })
    };
    let mut found: Vec<SignalMention> = listed.filter_map(read).collect();
    found.sort_by_key(|mention| mention.start);
    found
}

/// Puts names in the places of mentions; that of the bot itself is left out.
fn with_mentions(text: &str, mentions: &[SignalMention]) -> String {
    let mut units: Vec<u16> = text.encode_utf16().collect();
    // From the end, so that earlier places stay the same.
    for mention in mentions.iter().rev() {
        let end = mention.start.saturating_add(mention.length);
        if end > units.len() || mention.length == 0 {
            continue;
        }
        let name = if mention.is_own { String::new() } else { format!("@{}", mention.name) };
        units.splice(mention.start..end, name.encode_utf16());
    }
    String::from_utf16_lossy(&units).trim().to_owned()
}

/// Returns the id of a message: reactions and quotes name time and author.
pub(super) fn message_id(timestamp: u64, author: &str) -> String {
    format!("{timestamp}|{author}")
}

/// Returns the time and the author of a message id.
pub(super) fn split_message_id(id: &str) -> Option<(u64, &str)> {
    let (timestamp, author) = id.split_once('|')?;
    Some((timestamp.parse().ok()?, author)).filter(|(_, author)| !author.is_empty())
}

impl SignalMessage {
    pub(super) fn envelope(&self, parts: Vec<ChatPart>) -> Envelope {
        let mut place = match &self.group {
            Some(group) => ChatAddress::new(ChatKind::Group, format!("{GROUP}{group}")),
            None => ChatAddress::new(ChatKind::Dm, &self.author),
        };
        let name = if self.group.is_some() { &self.group_name } else { &self.name };
        place.chat_name.clone_from(name);
        place.alt_id.clone_from(&self.group);
        let id = message_id(self.timestamp, &self.author);
        Envelope {
            platform: NAME.to_owned(),
            platform_key: id.clone(),
            place,
            sender: Sender {
                user_id: Some(self.author.clone()),
                user_name: self.name.clone(),
                alt_id: self.uuid.clone(),
                handle: None,
            },
            parts,
            message_id: Some(id),
            reply_to: self.quote.as_ref().map(|(id, _)| id.clone()),
            reply_to_text: self.quote.as_ref().and_then(|(_, text)| text.clone()),
            skill: None,
            quiet_ms: 0,
            received_at: sent_at(self.timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::options::Options;

    fn settings(more: &[(&str, &str)]) -> SignalSettings {
        let mut all = vec![("SIGNAL_HTTP_URL", "http://x"), ("SIGNAL_ACCOUNT", "+1")];
        all.extend(more);
        let pairs = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        SignalSettings::read(&Options::new(pairs.collect(), Value::Null)).unwrap()
    }

    fn event(data: &Value) -> Value {
        json!({"envelope": {"sourceNumber": "+2", "sourceUuid": "u-2", "sourceName": "Ann", "timestamp": 7, "dataMessage": data}})
    }

    fn texts(event: &Value, more: &[(&str, &str)]) -> Option<String> {
        let own = OwnAccount { uuid: Some("u-1".to_owned()), sent: vec![5] };
        parse_event(event, &settings(more), &own).map(|message| message.text)
    }

    #[test]
    fn what_is_no_message_for_the_bot_is_left_out() {
        let said = |data: Value| texts(&event(&data), &[]);
        assert_eq!(said(json!({"timestamp": 7, "message": "hi"})).as_deref(), Some("hi"));
        assert_eq!(said(json!({"timestamp": 7, "message": null})), None);
        assert_eq!(said(json!({"timestamp": 7, "message": "x", "reaction": {"emoji": "x"}})), None);
        assert_eq!(said(json!({"timestamp": 7, "message": "x", "remoteDelete": {"timestamp": 1}})), None);
        let own =
            json!({"envelope": {"sourceNumber": "+1", "timestamp": 7, "dataMessage": {"message": "x"}}});
        assert_eq!(texts(&own, &[]), None);
        let story = json!({"envelope": {"sourceNumber": "+2", "timestamp": 7, "storyMessage": {}, "dataMessage": {"message": "x"}}});
        assert_eq!(texts(&story, &[]), None);
        assert_eq!(texts(&story, &[("SIGNAL_IGNORE_STORIES", "false")]).as_deref(), Some("x"));
        let edit = json!({"envelope": {"source": "+2", "timestamp": 8, "editMessage": {"targetSentTimestamp": 7, "dataMessage": {"message": "better"}}}});
        assert_eq!(texts(&edit, &[]).as_deref(), Some("better"));
    }

    #[test]
    fn groups_are_listed() {
        let said = event(&json!({"message": "hi", "groupInfo": {"groupId": "g=", "groupName": "Home"}}));
        assert_eq!(texts(&said, &[]), None);
        assert_eq!(texts(&said, &[("SIGNAL_GROUP_ALLOWED_USERS", "h=")]), None);
        for listed in ["g=", "*", "group:g="] {
            assert!(texts(&said, &[("SIGNAL_GROUP_ALLOWED_USERS", listed)]).is_some(), "{listed}");
        }
        let all = ("SIGNAL_GROUP_ALLOWED_USERS", "*");
        assert_eq!(texts(&said, &[all, ("SIGNAL_REQUIRE_MENTION", "true")]), None);
        let message =
            parse_event(&said, &settings(&[all]), &OwnAccount::default()).unwrap().envelope(Vec::new());
        assert_eq!(
            (message.place.chat_id.as_str(), message.place.alt_id.as_deref()),
            ("group:g=", Some("g="))
        );
        assert_eq!(
            (message.sender.user_id.as_deref(), message.sender.alt_id.as_deref()),
            (Some("+2"), Some("u-2"))
        );
    }

    #[test]
    fn mentions_are_counted_in_utf16() {
        let text = "𝄞 \u{FFFC} and \u{FFFC}!";
        let mentions = json!([
            {"start": 3, "length": 1, "number": "+3"}, {"start": 9, "length": 1, "uuid": "u-9"}, {"start": 90, "length": 1, "uuid": "x"},
        ]);
        let said = event(&json!({"message": text, "mentions": mentions}));
        assert_eq!(texts(&said, &[]).as_deref(), Some("𝄞 @+3 and @u-9!"));
        let called = json!({"message": "\u{FFFC} hi", "mentions": [{"start": 0, "length": 1, "number": "+1"}], "groupInfo": {"groupId": "g"}});
        let wanted = [("SIGNAL_GROUP_ALLOWED_USERS", "*"), ("SIGNAL_REQUIRE_MENTION", "true")];
        assert_eq!(texts(&event(&called), &wanted).as_deref(), Some("hi"));
        // An account that hides its number is named by its other id.
        let hidden = json!({"message": "\u{FFFC} hi", "mentions": [{"start": 0, "length": 1, "uuid": "u-1"}], "groupInfo": {"groupId": "g"}});
        assert_eq!(texts(&event(&hidden), &wanted).as_deref(), Some("hi"));
    }

    #[test]
    fn notes_to_self_without_echoes() {
        let note = |to: &str, timestamp: u64| {
            let sent = json!({"destinationNumber": to, "timestamp": timestamp, "message": "note"});
            texts(
                &json!({"envelope": {"sourceNumber": "+1", "timestamp": timestamp, "syncMessage": {"sentMessage": sent}}}),
                &[],
            )
        };
        assert_eq!(note("+1", 9).as_deref(), Some("note"));
        assert_eq!(note("+1", 5), None, "an echo");
        assert_eq!(note("+2", 9), None, "to somebody else");
    }

    proptest! {
        #[test]
        fn no_mention_panics(text in ".{0,20}", start in 0_usize..30, length in 0_usize..30) {
            let mentions = json!([{"start": start, "length": length, "number": "+3"}, {"start": 1, "length": 2, "number": "+4"}]);
            texts(&event(&json!({"message": text, "mentions": mentions})), &[]);
        }
    }
}
