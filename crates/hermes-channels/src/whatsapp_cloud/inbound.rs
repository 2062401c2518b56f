//! Converts webhooks to messages. Pure.

use hermes_types::{AttachmentKind, ChatAddress, ChatKind, ChatPart, Envelope, Sender, Timestamp};
use serde_json::Value;

use crate::choices::IncomingReaction;

/// A message of a person.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WhatsAppMessage {
    pub(super) id: String,
    /// The digits of the sender's number.
    pub(super) from: String,
    name: Option<String>,
    pub(super) parts: Vec<ChatPart>,
    pub(super) file: Option<WhatsAppMedia>,
    /// The message that is reacted to, and the emoji.
    reaction: Option<(String, String)>,
    reply_to: Option<String>,
    /// Seconds since the epoch, where WhatsApp says when it was sent.
    sent_at: Option<f64>,
}

/// A file that is still at WhatsApp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WhatsAppMedia {
    pub(super) id: String,
    pub(super) kind: AttachmentKind,
    pub(super) mime: Option<String>,
    pub(super) name: Option<String>,
}

/// Returns the messages to this number.
pub(super) fn messages(body: &Value, phone_number_id: &str) -> Vec<WhatsAppMessage> {
    let mut found = Vec::new();
    for value in values(body) {
        let to = value.pointer("/metadata/phone_number_id").and_then(Value::as_str);
        if to.is_some_and(|id| id != phone_number_id) {
            continue;
        }
        for message in list(value, "messages") {
            // A message with a group is dropped: the API answers people only.
            if message.get("chat").is_none()
                && let Some(message) = parse(message, value)
            {
                found.push(message);
            }
        }
    }
    found
}

/// Describes the messages that did not arrive. WhatsApp reports them later than it takes them.
pub(super) fn failed_statuses(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for status in values(body).into_iter().flat_map(|value| list(value, "statuses")) {
        for error in list(status, "errors") {
            let code = error.get("code").and_then(Value::as_u64).unwrap_or_default();
            let title = error.get("title").and_then(Value::as_str).unwrap_or("no reason given");
            let meaning = super::outbound::meaning(code).unwrap_or(title);
            found.push(format!("WhatsApp did not deliver a message: {meaning} (error {code})"));
        }
    }
    found
}

fn values(body: &Value) -> Vec<&Value> {
    if body.get("object").and_then(Value::as_str) != Some("whatsapp_business_account") {
        return Vec::new();
    }
    let changes = list(body, "entry").into_iter().flat_map(|entry| list(entry, "changes"));
    changes
        .filter(|change| change.get("field").and_then(Value::as_str) == Some("messages"))
        .filter_map(|change| change.get("value"))
        .collect()
}

fn list<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().collect()
}

fn text_at(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn parse(message: &Value, value: &Value) -> Option<WhatsAppMessage> {
    let (id, from) = (text_at(message, "/id")?, text_at(message, "/from")?);
    let kind = text_at(message, "/type")?;
    let mut parts = Vec::new();
    let (mut file, mut reaction) = (None, None);
    match kind.as_str() {
        "text" => parts.extend(text_at(message, "/text/body").map(part)),
        "button" => parts.extend(text_at(message, "/button/text").map(part)),
        // The id of a button is the text it stands for.
        "interactive" => {
            let said = text_at(message, "/interactive/button_reply/id")
                .or_else(|| text_at(message, "/interactive/list_reply/id"));
            parts.extend(said.map(part));
        }
        "image" | "video" | "audio" | "voice" | "document" | "sticker" => {
            parts.extend(text_at(message, &format!("/{kind}/caption")).map(part));
            file = media(message, &kind);
        }
        "location" => parts.extend(location(message.get("location")?).map(part)),
        "contacts" => parts.extend(contacts(message).map(part)),
        // One that is taken back has no emoji.
        "reaction" => {
            reaction =
                Some((text_at(message, "/reaction/message_id")?, text_at(message, "/reaction/emoji")?));
        }
        // They are no messages of their own.
        "system" | "ephemeral" => return None,
        other => parts.push(part(format!(
            "[The user sent a message of a kind that is not taken here: {}]",
            hermes_text::head(other, 40)
        ))),
    }
    let contact = list(value, "contacts")
        .into_iter()
        .find(|contact| contact.get("wa_id").and_then(Value::as_str) == Some(from.as_str()));
    Some(WhatsAppMessage {
        id,
        name: contact.and_then(|contact| text_at(contact, "/profile/name")),
        from,
        parts,
        file,
        reaction,
        reply_to: text_at(message, "/context/id"),
        sent_at: text_at(message, "/timestamp").and_then(|text| text.parse().ok()),
    })
}

fn part(text: String) -> ChatPart {
    ChatPart::Text { text }
}

fn media(message: &Value, kind: &str) -> Option<WhatsAppMedia> {
    let is_note = message.pointer("/audio/voice").and_then(Value::as_bool) == Some(true);
    Some(WhatsAppMedia {
        id: text_at(message, &format!("/{kind}/id"))?,
        kind: match kind {
            "image" | "sticker" => AttachmentKind::Image,
            "video" => AttachmentKind::Video,
            "voice" => AttachmentKind::Voice,
            "audio" if is_note => AttachmentKind::Voice,
            "audio" => AttachmentKind::Audio,
            _ => AttachmentKind::Document,
        },
        mime: text_at(message, &format!("/{kind}/mime_type")),
        name: text_at(message, &format!("/{kind}/filename")),
    })
}

fn location(place: &Value) -> Option<String> {
    let number = |key: &str| place.get(key).and_then(Value::as_f64);
    let (latitude, longitude) = (number("latitude")?, number("longitude")?);
    let mut lines = vec![format!("[The user shared a location: {latitude}, {longitude}]")];
    lines.extend(text_at(place, "/name"));
    lines.extend(text_at(place, "/address"));
    lines.push(format!("https://www.google.com/maps/search/?api=1&query={latitude},{longitude}"));
    Some(lines.join("\n"))
}

fn contacts(message: &Value) -> Option<String> {
    let mut lines = Vec::new();
    for contact in list(message, "contacts") {
        let name = text_at(contact, "/name/formatted_name").unwrap_or_default();
        let phones: Vec<String> =
            list(contact, "phones").into_iter().filter_map(|phone| text_at(phone, "/phone")).collect();
        lines.push(format!("[The user shared a contact: {name} {}]", phones.join(", ")));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

impl WhatsAppMessage {
    /// Returns the reaction to another message that this is.
    pub(super) fn reaction(&self, now: Timestamp) -> Option<IncomingReaction> {
        let (target, emoji) = self.reaction.clone()?;
        let envelope = self.envelope(Vec::new(), now);
        Some(IncomingReaction {
            key: envelope.platform_key,
            chat: envelope.place.chat_id,
            target,
            emoji,
            sender: envelope.sender,
            at: envelope.received_at,
        })
    }

    pub(super) fn envelope(&self, parts: Vec<ChatPart>, now: Timestamp) -> Envelope {
        // WhatsApp repeats a request for days: a message is as old as its sender knows it.
        let received_at = self.sent_at.filter(|at| *at < now.seconds()).map_or(now, Timestamp);
        let mut place = ChatAddress::new(ChatKind::Dm, &self.from);
        place.chat_name.clone_from(&self.name);
        Envelope {
            platform: super::NAME.to_owned(),
            platform_key: self.id.clone(),
            place,
            sender: Sender {
                user_id: Some(self.from.clone()),
                user_name: self.name.clone(),
                alt_id: None,
                // As people write numbers into allow lists.
                handle: Some(format!("+{}", self.from)),
            },
            parts,
            message_id: Some(self.id.clone()),
            reply_to: self.reply_to.clone(),
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            received_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn hook(message: &Value) -> Value {
        let value = json!({
            "metadata": {"phone_number_id": "7"},
            "contacts": [{"wa_id": "49", "profile": {"name": "Ann"}}], "messages": [message],
        });
        json!({"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages", "value": value}]}]})
    }

    fn texts(message: &Value) -> Vec<String> {
        let found = messages(&hook(message), "7");
        found.iter().map(|message| message.envelope(message.parts.clone(), Timestamp(0.0)).text()).collect()
    }

    #[test]
    fn each_kind_of_message() {
        let said = |kind: &str, content: Value| json!({"id": "w1", "from": "49", "timestamp": "1", "type": kind, kind: content});
        assert_eq!(texts(&said("text", json!({"body": "hi"}))), ["hi"]);
        let pressed =
            json!({"type": "button_reply", "button_reply": {"id": "/approve #1", "title": "Allow"}});
        assert_eq!(texts(&said("interactive", pressed)), ["/approve #1"]);
        let place = texts(&said("location", json!({"latitude": 52.5, "longitude": 13.25, "name": "Zoo"})));
        assert!(place[0].contains("52.5, 13.25") && place[0].contains("Zoo"), "{place:?}");
        assert!(texts(&said("order", json!({})))[0].contains("not taken here: order"));
        assert!(texts(&said("reaction", json!({"emoji": "x"}))).is_empty());
        let mut group = said("text", json!({"body": "hi"}));
        group["chat"] = json!({"id": "g"});
        assert!(texts(&group).is_empty());
        assert!(messages(&hook(&said("text", json!({"body": "hi"}))), "8").is_empty(), "another number");
        let note = messages(&hook(&said("audio", json!({"id": "m", "voice": true}))), "7");
        assert_eq!(note[0].file.as_ref().unwrap().kind, AttachmentKind::Voice);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let key =
                "object|entry|changes|value|field|messages|id|from|type|text|body|location|contacts|audio";
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(key, inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_that_could_arrive_panics(value in json_value()) {
            messages(&value, "7");
            messages(&hook(&value), "7");
            failed_statuses(&value);
        }
    }
}
