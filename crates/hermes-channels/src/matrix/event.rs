//! Reads events of rooms. Pure.

use hermes_types::{AttachmentKind, Timestamp};
use serde_json::Value;

/// A message of a person.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatrixMessage {
    pub(super) id: String,
    pub(super) sender: String,
    pub(super) at: Timestamp,
    pub(super) body: MatrixBody,
    /// The root of the thread it is in.
    pub(super) thread: Option<String>,
    /// The message it replies to; not the one that programs without threads show.
    pub(super) reply_to: Option<String>,
    /// The users it mentions, as its sender's program says; `None` where it says nothing.
    pub(super) mentions: Option<Vec<String>>,
    /// The markup of its text, which names people by links.
    pub(super) markup: String,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MatrixBody {
    Text(String),
    File(MatrixFile),
}

/// A file on the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatrixFile {
    pub(super) kind: AttachmentKind,
    pub(super) address: String,
    /// The description by which an encrypted file is decrypted.
    pub(super) encryption: Option<Value>,
    pub(super) name: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) caption: String,
}

/// An event that matters here.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RoomEvent {
    Message(Box<MatrixMessage>),
    /// A reaction to a message.
    Reaction {
        id: String,
        sender: String,
        at: Timestamp,
        to: String,
        key: String,
    },
    Encrypted {
        id: String,
        sender: String,
    },
}

/// Reads an event. Returns `None` for the bot's own, for what other bots announce, for edits and for everything that nobody
/// writes.
pub(super) fn parse(event: &Value, me: &str) -> Option<RoomEvent> {
    let text = |key: &str| event.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (id, sender) = (text("event_id")?, text("sender")?);
    // A state event is no message; a redacted one has no content.
    if sender == me || event.get("state_key").is_some() {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since the epoch fit a double")]
    let at =
        Timestamp(event.get("origin_server_ts").and_then(Value::as_u64).unwrap_or_default() as f64 / 1000.0);
    let content = event.get("content")?;
    let (id, sender) = (id.to_owned(), sender.to_owned());
    match text("type")? {
        "m.room.encrypted" => {
            // The relation of an edit is not encrypted.
            (relation(content, "m.replace").is_none()).then_some(RoomEvent::Encrypted { id, sender })
        }
        "m.reaction" => {
            let relation = content.get("m.relates_to")?;
            let of = |key: &str| relation.get(key).and_then(Value::as_str).map(str::to_owned);
            let (to, key) = (of("event_id")?, of("key")?);
            Some(RoomEvent::Reaction { id, sender, at, to, key })
        }
        kind @ ("m.room.message" | "m.sticker") => {
            if relation(content, "m.replace").is_some() {
                return None;
            }
            let body = parse_body(content, kind == "m.sticker")?;
            let reply = content.pointer("/m.relates_to/m.in_reply_to/event_id").and_then(Value::as_str);
            let thread = relation(content, "m.thread");
            let shown_for_others = thread.is_some()
                && content
                    .pointer("/m.relates_to/is_falling_back")
                    .and_then(Value::as_bool)
                    .unwrap_or_default();
            let mentions = content.get("m.mentions").map(|mentions| {
                let users = mentions.get("user_ids").and_then(Value::as_array).into_iter().flatten();
                users.filter_map(Value::as_str).map(str::to_owned).collect()
            });
            let markup = content.get("formatted_body").and_then(Value::as_str).unwrap_or_default().to_owned();
            let reply_to = reply.filter(|_| !shown_for_others).map(str::to_owned);
            let body = match body {
                MatrixBody::Text(text) if reply_to.is_some() => MatrixBody::Text(without_quote(&text)),
                body => body,
            };
            let message = MatrixMessage { id, sender, at, body, thread, reply_to, mentions, markup };
            Some(RoomEvent::Message(Box::new(message)))
        }
        _ => None,
    }
}

/// Tells whether an event belongs to the verification of a device.
pub(super) fn is_of_verification(event: &Value) -> bool {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let message = event.pointer("/content/msgtype").and_then(Value::as_str).unwrap_or_default();
    kind.starts_with("m.key.verification.")
        || kind == "m.room.message" && message == "m.key.verification.request"
}

/// Returns the event that a content relates to in that way.
fn relation(content: &Value, kind: &str) -> Option<String> {
    let relation = content.get("m.relates_to")?;
    let is_wanted = relation.get("rel_type").and_then(Value::as_str) == Some(kind);
    relation.get("event_id").and_then(Value::as_str).filter(|_| is_wanted).map(str::to_owned)
}

fn parse_body(content: &Value, is_sticker: bool) -> Option<MatrixBody> {
    let text = |key: &str| content.get(key).and_then(Value::as_str);
    let body = text("body").unwrap_or_default();
    let kind = match text("msgtype") {
        _ if is_sticker => AttachmentKind::Image,
        Some("m.text") => return Some(MatrixBody::Text(body.to_owned())),
        Some("m.emote") => return Some(MatrixBody::Text(format!("* {body}"))),
        Some("m.location") => return Some(MatrixBody::Text(location_text(content, body))),
        Some("m.image") => AttachmentKind::Image,
        Some("m.video") => AttachmentKind::Video,
        Some("m.audio") if content.get("org.matrix.msc3245.voice").is_some() => AttachmentKind::Voice,
        Some("m.audio") => AttachmentKind::Audio,
        Some("m.file") => AttachmentKind::Document,
        // `m.notice` is what bots write, which must not be answered.
        _ => return None,
    };
    let encryption = content.get("file").filter(|file| file.is_object());
    let address = match encryption {
        Some(file) => file.get("url").and_then(Value::as_str),
        None => text("url"),
    };
    // Where a file name is given beside the body, the body is a caption.
    let (name, caption) = match text("filename") {
        Some(name) if name != body => (Some(name), body),
        Some(name) => (Some(name), ""),
        None => (Some(body).filter(|body| !body.is_empty()), ""),
    };
    let info = content.get("info");
    Some(MatrixBody::File(MatrixFile {
        kind,
        address: address?.to_owned(),
        encryption: encryption.cloned(),
        name: name.map(str::to_owned),
        mime: info.and_then(|info| info.get("mimetype")?.as_str()).map(str::to_owned),
        size: info.and_then(|info| info.get("size")?.as_u64()),
        caption: caption.to_owned(),
    }))
}

/// Returns the words for a location: `geo:51.5,-0.1;u=35`.
fn location_text(content: &Value, body: &str) -> String {
    let geo = content.get("geo_uri").and_then(Value::as_str).unwrap_or_default();
    let place = geo.strip_prefix("geo:").unwrap_or(geo).split(';').next().unwrap_or_default();
    let (latitude, longitude) = place.split_once(',').unwrap_or((place, ""));
    let longitude = longitude.split(',').next().unwrap_or_default();
    let named = if body.is_empty() { String::new() } else { format!("{body}\n") };
    format!("[The user sent a location]\n{named}Latitude: {latitude}\nLongitude: {longitude}")
}

/// Removes the quotation that older programs put before a reply.
fn without_quote(text: &str) -> String {
    if !text.starts_with("> ") {
        return text.to_owned();
    }
    let mut lines = text.lines().skip_while(|line| line.starts_with('>'));
    let first = lines.next().unwrap_or_default();
    let rest: Vec<&str> = (!first.is_empty()).then_some(first).into_iter().chain(lines).collect();
    rest.join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn event(kind: &str, content: &Value) -> Value {
        json!({
            "type": kind, "event_id": "$1", "sender": "@ann:x", "origin_server_ts": 1500, "content": content,
        })
    }

    fn message(content: &Value) -> Option<MatrixMessage> {
        match parse(&event("m.room.message", content), "@bot:x") {
            Some(RoomEvent::Message(message)) => Some(*message),
            _ => None,
        }
    }

    #[test]
    fn what_nobody_wrote_is_left_out() {
        let mut own = event("m.room.message", &json!({"msgtype": "m.text", "body": "x"}));
        assert!(parse(&own, "@bot:x").is_some());
        own["sender"] = json!("@bot:x");
        assert_eq!(parse(&own, "@bot:x"), None);
        for content in [
            json!({}),
            json!({"msgtype": "m.notice", "body": "x"}),
            json!({"msgtype": "m.image", "body": "x"}),
            json!({"msgtype": "m.text", "body": "* y", "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}}),
        ] {
            assert_eq!(message(&content), None, "{content}");
        }
        assert_eq!(parse(&event("m.room.topic", &json!({"topic": "x"})), "@bot:x"), None);
    }

    #[test]
    fn replies_and_threads() {
        let quoted = json!({
            "msgtype": "m.text", "body": "> <@bot:x> first\n> second\n\nyes\n> no quote",
            "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}},
        });
        let reply = message(&quoted).unwrap();
        assert_eq!(reply.body, MatrixBody::Text("yes\n> no quote".to_owned()));
        assert_eq!((reply.reply_to.as_deref(), reply.thread), (Some("$0"), None));
        let mut relation = json!({
            "rel_type": "m.thread", "event_id": "$root", "is_falling_back": true, "m.in_reply_to": {"event_id": "$9"},
        });
        let within = |relation: &Value| {
            message(&json!({"msgtype": "m.text", "body": "> x", "m.relates_to": relation}))
        };
        let first = within(&relation).unwrap();
        assert_eq!((first.reply_to, first.thread.as_deref()), (None, Some("$root")));
        assert_eq!(first.body, MatrixBody::Text("> x".to_owned()));
        relation["is_falling_back"] = json!(false);
        assert_eq!(within(&relation).unwrap().reply_to.as_deref(), Some("$9"));
    }

    #[test]
    fn files_and_places() {
        let file = |content: &Value| match message(content).unwrap().body {
            MatrixBody::File(file) => file,
            body @ MatrixBody::Text(_) => panic!("{body:?}"),
        };
        let voice = file(&json!({
            "msgtype": "m.audio", "body": "Voice message", "url": "mxc://x/1", "org.matrix.msc3245.voice": {},
            "info": {"mimetype": "audio/ogg", "size": 9},
        }));
        assert_eq!(
            (voice.kind, voice.mime.as_deref(), voice.size),
            (AttachmentKind::Voice, Some("audio/ogg"), Some(9))
        );
        let picture = file(&json!({
            "msgtype": "m.image", "body": "look at this", "filename": "cat.png", "file": {"url": "mxc://x/2", "v": "v2"},
        }));
        assert_eq!((picture.name.as_deref(), picture.caption.as_str()), (Some("cat.png"), "look at this"));
        assert_eq!((picture.address.as_str(), picture.encryption.is_some()), ("mxc://x/2", true));
        let place =
            message(&json!({"msgtype": "m.location", "body": "Home", "geo_uri": "geo:51.5,-0.12,3;u=35"}));
        let text = "[The user sent a location]\nHome\nLatitude: 51.5\nLongitude: -0.12";
        assert_eq!(place.unwrap().body, MatrixBody::Text(text.to_owned()));
    }

    #[test]
    fn reactions_and_encrypted_events() {
        let relation = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": "✅"}});
        let Some(RoomEvent::Reaction { to, key, .. }) = parse(&event("m.reaction", &relation), "@bot:x")
        else {
            panic!("a reaction");
        };
        assert_eq!((to.as_str(), key.as_str()), ("$0", "✅"));
        let sealed = parse(&event("m.room.encrypted", &json!({"ciphertext": "x"})), "@bot:x");
        assert_eq!(sealed, Some(RoomEvent::Encrypted { id: "$1".to_owned(), sender: "@ann:x".to_owned() }));
    }

    proptest! {
        #[test]
        fn no_event_panics(text in "[> \n:;,a-zü$!@]{0,20}", kind in "m\\.(room\\.(message|encrypted)|reaction|sticker)") {
            for msgtype in ["m.text", "m.location", "m.image"] {
                let content = json!({
                    "msgtype": msgtype, "body": text, "geo_uri": text, "url": text, "file": text, "m.mentions": text,
                    "m.relates_to": {"m.in_reply_to": {"event_id": text}, "event_id": text, "key": text},
                });
                parse(&event(&kind, &content), "@bot:x");
            }
        }
    }
}
