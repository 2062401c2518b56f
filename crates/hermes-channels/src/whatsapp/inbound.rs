//! Converts messages of the bridge to envelopes. Pure.

use hermes_types::{AttachmentKind, ChatAddress, ChatKind, ChatPart, Envelope, Sender, Timestamp};
use serde_json::Value;

use super::NAME;
use super::settings::WhatsAppSettings;
use crate::choices::IncomingReaction;

/// A message as the bridge hands it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BridgedMessage {
    pub(super) ack_id: Option<String>,
    id: String,
    chat: String,
    chat_alt: Option<String>,
    chat_name: Option<String>,
    author: String,
    author_alt: Option<String>,
    author_name: Option<String>,
    is_group: bool,
    pub(super) text: String,
    pub(super) file: Option<BridgedFile>,
    quote: Option<(String, Option<String>)>,
    at: u64,
}

/// A file that the bridge has fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BridgedFile {
    /// The path, if it was fetched.
    pub(super) path: Option<String>,
    pub(super) kind: AttachmentKind,
    pub(super) mime: Option<String>,
    pub(super) name: Option<String>,
}

/// Returns the id with which an item of the queue is acknowledged.
pub(super) fn ack_id(item: &Value) -> Option<String> {
    item.get("ackId").and_then(Value::as_str).map(str::to_owned)
}

/// Parses an item. Returns `None` for what is no message for the bot.
pub(super) fn parse(item: &Value, settings: &WhatsAppSettings) -> Option<BridgedMessage> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let owned = |key: &str| text(key).map(str::to_owned);
    let flag = |key: &str| item.get(key).and_then(Value::as_bool).unwrap_or_default();
    // Reactions and deletions are no messages of their own; `parse_reaction` reads reactions.
    if !matches!(text("event"), None | Some("message" | "edit")) {
        return None;
    }
    let (chat, author) = (owned("chatId")?, owned("senderId")?);
    if ["status@", "@broadcast", "@newsletter"].iter().any(|part| chat.contains(part)) {
        return None;
    }
    let file = flag("hasMedia").then(|| {
        let paths = item.get("mediaUrls").and_then(Value::as_array).into_iter().flatten();
        let path = paths.filter_map(Value::as_str).find(|path| path.starts_with('/'));
        BridgedFile {
            path: path.map(str::to_owned),
            kind: match text("mediaType") {
                Some("image") => AttachmentKind::Image,
                Some("video") => AttachmentKind::Video,
                Some("audio") => AttachmentKind::Audio,
                Some("ptt") => AttachmentKind::Voice,
                _ => AttachmentKind::Document,
            },
            mime: owned("mimeType"),
            name: owned("fileName"),
        }
    });
    // Without a caption the body only says that there is a file.
    let said = match &file {
        Some(found) if found.path.is_some() => owned("caption").unwrap_or_default(),
        _ => owned("body").unwrap_or_default(),
    };
    if said.trim().is_empty() && file.is_none() {
        return None;
    }
    let message = BridgedMessage {
        ack_id: ack_id(item),
        id: owned("messageId")?,
        chat,
        chat_alt: owned("chatAltId"),
        chat_name: owned("chatName"),
        author,
        author_alt: owned("senderAltId"),
        author_name: owned("senderName"),
        is_group: flag("isGroup"),
        text: said,
        file,
        quote: owned("quotedId").map(|id| (id, owned("quotedText"))),
        at: item.get("timestamp").and_then(Value::as_u64).unwrap_or_default(),
    };
    let is_called = flag("mentionsMe") || flag("quotesMe");
    message.concerns_us(is_called, settings).then_some(message)
}

/// Parses a reaction. Returns `None` for other items, and for one that is taken back.
pub(super) fn parse_reaction(item: &Value) -> Option<IncomingReaction> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text("event") != Some("reaction") {
        return None;
    }
    let (chat, author, id) = (text("chatId")?, text("senderId")?, text("messageId")?);
    Some(IncomingReaction {
        key: format!("{chat}|{author}|{id}"),
        chat: by_number(chat, text("chatAltId")).0.to_owned(),
        target: text("targetId")?.to_owned(),
        emoji: text("emoji")?.to_owned(),
        sender: sender(author, text("senderAltId"), text("senderName")),
        at: sent_at(item.get("timestamp").and_then(Value::as_u64).unwrap_or_default()),
    })
}

fn sender(author: &str, alt: Option<&str>, name: Option<&str>) -> Sender {
    let (author, alt) = by_number(author, alt);
    Sender {
        user_id: Some(author.to_owned()),
        user_name: name.map(str::to_owned),
        alt_id: alt.map(str::to_owned),
        handle: None,
    }
}

fn sent_at(seconds: u64) -> Timestamp {
    #[expect(clippy::cast_precision_loss, reason = "seconds since the epoch fit a double")]
    Timestamp(seconds as f64)
}

impl BridgedMessage {
    /// Tells whether a message of a group is for the bot.
    fn concerns_us(&self, is_called: bool, settings: &WhatsAppSettings) -> bool {
        !self.is_group
            || !settings.require_mention
            || is_called
            || self.text.starts_with('/')
            || settings.free_chats.iter().any(|chat| chat == "*" || *chat == self.chat)
            || settings.patterns.iter().any(|pattern| pattern.is_match(&self.text))
    }

    pub(super) fn envelope(&self, parts: Vec<ChatPart>) -> Envelope {
        let kind = if self.is_group { ChatKind::Group } else { ChatKind::Dm };
        let (chat, chat_alt) = by_number(&self.chat, self.chat_alt.as_deref());
        let mut place = ChatAddress::new(kind, chat);
        place.chat_name.clone_from(&self.chat_name);
        place.alt_id = chat_alt.map(str::to_owned);
        Envelope {
            platform: NAME.to_owned(),
            platform_key: format!("{}|{}|{}", self.chat, self.author, self.id),
            place,
            sender: sender(&self.author, self.author_alt.as_deref(), self.author_name.as_deref()),
            parts,
            message_id: Some(self.id.clone()),
            reply_to: self.quote.as_ref().map(|(id, _)| id.clone()),
            reply_to_text: self.quote.as_ref().and_then(|(_, text)| text.clone()),
            skill: None,
            quiet_ms: 0,
            received_at: sent_at(self.at),
        }
    }
}

/// Returns the address with the number first: the same person must not have two conversations.
fn by_number<'a>(id: &'a str, alt: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    match alt {
        Some(alt) if id.ends_with("@lid") && alt.ends_with("@s.whatsapp.net") => (alt, Some(id)),
        alt => (id, alt),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::options::Options;

    fn settings(more: &[(&str, &str)]) -> WhatsAppSettings {
        let pairs = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        WhatsAppSettings::read(&Options::new(pairs.collect(), Value::Null)).unwrap()
    }

    fn item(more: &Value) -> Value {
        let mut item = json!({
            "ackId": "a-1", "messageId": "3A1", "chatId": "49@s.whatsapp.net", "senderId": "49@s.whatsapp.net", "senderName": "Ann",
            "chatName": "Ann", "isGroup": false, "body": "hello", "hasMedia": false, "mediaType": "", "mediaUrls": [],
            "timestamp": 1_763_560_000, "event": "message",
        });
        for (key, value) in more.as_object().unwrap() {
            item[key] = value.clone();
        }
        item
    }

    fn said(more: &Value, with: &[(&str, &str)]) -> Option<String> {
        parse(&item(more), &settings(with)).map(|message| message.text)
    }

    #[test]
    fn messages_and_what_is_none() {
        assert_eq!(said(&json!({}), &[]).as_deref(), Some("hello"));
        assert_eq!(said(&json!({"event": "edit", "body": "better"}), &[]).as_deref(), Some("better"));
        assert_eq!(said(&json!({"event": "reaction", "emoji": "x"}), &[]), None);
        assert_eq!(said(&json!({"event": "delete"}), &[]), None);
        assert_eq!(said(&json!({"chatId": "status@broadcast"}), &[]), None);
        assert_eq!(said(&json!({"body": " "}), &[]), None);
        let photo = json!({"hasMedia": true, "mediaType": "image", "mediaUrls": ["/m/1.jpg"], "body": "[image received]"});
        assert_eq!(said(&photo, &[]).as_deref(), Some(""));
        let missing = json!({"hasMedia": true, "mediaType": "image", "body": "[image received]", "mediaError": "too large"});
        assert_eq!(said(&missing, &[]).as_deref(), Some("[image received]"));
    }

    #[test]
    fn groups_may_need_a_mention() {
        let group = |more: Value| {
            let mut all = json!({"chatId": "1@g.us", "isGroup": true});
            for (key, value) in more.as_object().unwrap() {
                all[key] = value.clone();
            }
            all
        };
        let needed = ("WHATSAPP_REQUIRE_MENTION", "true");
        assert!(said(&group(json!({})), &[]).is_some());
        assert!(said(&group(json!({})), &[needed]).is_none());
        assert!(said(&group(json!({"mentionsMe": true})), &[needed]).is_some());
        assert!(said(&group(json!({"quotesMe": true})), &[needed]).is_some());
        assert!(said(&group(json!({"body": "/new"})), &[needed]).is_some());
        assert!(said(&group(json!({})), &[needed, ("WHATSAPP_MENTION_PATTERNS", "^hel")]).is_some());
        assert!(said(&group(json!({})), &[needed, ("WHATSAPP_FREE_RESPONSE_CHATS", "1@g.us")]).is_some());
    }

    #[test]
    fn a_person_is_known_by_their_number() {
        let hidden = json!({
            "chatId": "7@lid", "chatAltId": "49@s.whatsapp.net", "senderId": "7@lid", "senderAltId": "49@s.whatsapp.net",
        });
        let envelope = parse(&item(&hidden), &settings(&[])).unwrap().envelope(Vec::new());
        assert_eq!(envelope.place.chat_id, "49@s.whatsapp.net");
        assert_eq!(envelope.sender.user_id.as_deref(), Some("49@s.whatsapp.net"));
        assert_eq!(envelope.sender.alt_id.as_deref(), Some("7@lid"));
        assert_eq!(envelope.platform_key, "7@lid|7@lid|3A1");
    }

    proptest! {
        #[test]
        fn nothing_panics(key in "[a-zA-Z]{1,12}", text in ".{0,20}") {
            for value in [json!(text), json!(null), json!([text]), json!({"x": 1}), json!(-1)] {
                if let Some(message) = parse(&item(&json!({&key: value})), &settings(&[])) {
                    message.envelope(Vec::new());
                }
            }
        }
    }
}
