//! Converts callbacks to messages. Pure.

use hermes_types::{AttachmentKind, ChatAddress, ChatKind, ChatPart, Envelope, Sender, Timestamp};
use serde_json::Value;

use super::NAME;
use super::chats::KnownChat;
use super::settings::DingTalkSettings;

/// A message to the robot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DingTalkMessage {
    id: String,
    pub(super) chat: KnownChat,
    title: Option<String>,
    sender: Sender,
    pub(super) text: String,
    pub(super) files: Vec<DingTalkFile>,
    reply_to: Option<String>,
    reply_to_text: Option<String>,
    mentioned: bool,
    created_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DingTalkFile {
    pub(super) code: String,
    pub(super) kind: AttachmentKind,
    pub(super) name: Option<String>,
    pub(super) mime: Option<&'static str>,
}

/// Parses the data of a callback. Returns `None` for what is no message with a content.
pub(super) fn parse_message(data: &Value) -> Option<DingTalkMessage> {
    let text = |pointer: &str| {
        data.pointer(pointer).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    };
    let owned = |pointer: &str| text(pointer).map(str::to_owned);
    let (id, sender) = (text("/msgId")?, text("/senderId")?);
    let is_group = text("/conversationType") == Some("2");
    let (said, files) = content(data);
    if said.is_empty() && files.is_empty() {
        return None;
    }
    let chat = KnownChat {
        id: text("/conversationId").unwrap_or(sender).to_owned(),
        webhook: owned("/sessionWebhook").unwrap_or_default(),
        expires: data.get("sessionWebhookExpiredTime").and_then(Value::as_f64).unwrap_or_default(),
        robot: owned("/robotCode").unwrap_or_default(),
        staff: owned("/senderStaffId").filter(|_| !is_group),
        is_group,
    };
    Some(DingTalkMessage {
        id: id.to_owned(),
        chat,
        title: owned("/conversationTitle").filter(|_| is_group),
        sender: Sender {
            user_id: Some(sender.to_owned()),
            user_name: owned("/senderNick"),
            alt_id: owned("/senderStaffId"),
            handle: None,
        },
        text: said,
        files,
        reply_to: owned("/originalMsgId").or_else(|| owned("/text/repliedMsg/msgId")),
        reply_to_text: owned("/text/repliedMsg/content/text"),
        mentioned: data.get("isInAtList").and_then(Value::as_bool).unwrap_or_default(),
        created_ms: data.get("createAt").and_then(Value::as_f64).filter(|at| *at > 0.0),
    })
}

/// Returns the text and the files of a message.
fn content(data: &Value) -> (String, Vec<DingTalkFile>) {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
    };
    let none = Value::Null;
    let content = data.get("content").unwrap_or(&none);
    let file = |value: &Value, kind: AttachmentKind, mime: Option<&'static str>| {
        let code = text(value, "downloadCode");
        let name = Some(text(value, "fileName")).filter(|name| !name.is_empty());
        (!code.is_empty()).then_some(DingTalkFile { code, kind, name, mime })
    };
    match data.get("msgtype").and_then(Value::as_str).unwrap_or_default() {
        "picture" => {
            (String::new(), file(content, AttachmentKind::Image, Some("image/png")).into_iter().collect())
        }
        "audio" => {
            // DingTalk recognises the words itself.
            let words = text(content, "recognition");
            let recording = file(content, AttachmentKind::Voice, Some("audio/amr"));
            (words.clone(), recording.filter(|_| words.is_empty()).into_iter().collect())
        }
        "video" => {
            (String::new(), file(content, AttachmentKind::Video, Some("video/mp4")).into_iter().collect())
        }
        "file" => (String::new(), file(content, AttachmentKind::Document, None).into_iter().collect()),
        "richText" => {
            let parts: Vec<&Value> =
                content.get("richText").and_then(Value::as_array).into_iter().flatten().collect();
            let words: Vec<String> =
                parts.iter().map(|part| text(part, "text")).filter(|words| !words.is_empty()).collect();
            let pictures =
                parts.iter().filter_map(|part| file(part, AttachmentKind::Image, Some("image/png")));
            (words.join("\n"), pictures.collect())
        }
        _ => (data.get("text").map(|value| text(value, "content")).unwrap_or_default(), Vec::new()),
    }
}

impl DingTalkMessage {
    /// Tells whether the message is meant for the robot.
    pub(super) fn is_relevant(&self, settings: &DingTalkSettings) -> bool {
        if !self.chat.is_group {
            return true;
        }
        let listed = |list: &[String]| list.contains(&self.chat.id);
        if !settings.allowed_chats.is_empty() && !listed(&settings.allowed_chats) {
            return false;
        }
        !settings.require_mention
            || self.mentioned
            || listed(&settings.free_chats)
            || settings.patterns.iter().any(|pattern| pattern.is_match(&self.text))
    }

    pub(super) fn envelope(&self, parts: Vec<ChatPart>, now: Timestamp) -> Envelope {
        let kind = if self.chat.is_group { ChatKind::Group } else { ChatKind::Dm };
        let mut place = ChatAddress::new(kind, &self.chat.id);
        place.chat_name = self.title.clone().or_else(|| self.sender.user_name.clone());
        Envelope {
            platform: NAME.to_owned(),
            platform_key: self.id.clone(),
            place,
            sender: self.sender.clone(),
            parts,
            message_id: Some(self.id.clone()),
            reply_to: self.reply_to.clone(),
            reply_to_text: self.reply_to_text.clone(),
            skill: None,
            quiet_ms: 0,
            received_at: self.created_ms.map_or(now, |ms| Timestamp(ms / 1000.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::options::Options;

    fn message(more: &Value) -> Option<DingTalkMessage> {
        let mut data = json!({
            "msgId": "m1", "senderId": "$:LWCP_v1:$a", "senderStaffId": "staff1", "senderNick": "Ann",
            "conversationId": "cid1", "conversationType": "2", "conversationTitle": "Team", "createAt": 1500,
            "msgtype": "text", "text": {"content": " hi "}, "isInAtList": false, "robotCode": "robot",
        });
        for (key, value) in more.as_object().unwrap() {
            data[key] = value.clone();
        }
        parse_message(&data)
    }

    #[test]
    fn each_kind_of_content() {
        let read = |kind: &str, content: Value| {
            let message = message(&json!({"msgtype": kind, "text": null, "content": content}))?;
            Some((message.text, message.files.iter().map(|file| file.kind).collect::<Vec<_>>()))
        };
        let said = |text: &str, kinds: &[AttachmentKind]| Some((text.to_owned(), kinds.to_vec()));
        assert_eq!(read("picture", json!({"downloadCode": "c"})), said("", &[AttachmentKind::Image]));
        assert_eq!(read("audio", json!({"downloadCode": "c", "recognition": "words"})), said("words", &[]));
        assert_eq!(read("audio", json!({"downloadCode": "c"})), said("", &[AttachmentKind::Voice]));
        assert_eq!(
            read("file", json!({"downloadCode": "c", "fileName": "a.pdf"})),
            said("", &[AttachmentKind::Document])
        );
        let rich =
            json!({"richText": [{"text": "a"}, {"type": "picture", "downloadCode": "c"}, {"text": "b"}]});
        assert_eq!(read("richText", rich), said("a\nb", &[AttachmentKind::Image]));
        assert_eq!(read("unknown", json!({})), None);
    }

    #[test]
    fn groups_by_the_settings() {
        let relevant = |variables: &[(&str, &str)], mentioned: bool| {
            let mut all = vec![("DINGTALK_CLIENT_ID", "a"), ("DINGTALK_CLIENT_SECRET", "b")];
            all.extend(variables);
            let pairs = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let settings = DingTalkSettings::read(&Options::new(pairs.collect(), Value::Null)).unwrap();
            message(&json!({"isInAtList": mentioned})).unwrap().is_relevant(&settings)
        };
        let needed = ("DINGTALK_REQUIRE_MENTION", "true");
        assert!(relevant(&[], false));
        assert!(!relevant(&[needed], false));
        assert!(relevant(&[needed], true));
        assert!(relevant(&[needed, ("DINGTALK_FREE_RESPONSE_CHATS", "cid1")], false));
        assert!(relevant(&[needed, ("DINGTALK_MENTION_PATTERNS", "^h")], false));
        assert!(!relevant(&[("DINGTALK_ALLOWED_CHATS", "cid2")], true));
    }

    proptest! {
        #[test]
        fn nothing_that_could_arrive_panics(kind in "text|picture|audio|richText|file|x", text in ".{0,10}") {
            for content in [json!(null), json!(text), json!({"richText": text}), json!([text])] {
                message(&json!({"msgtype": kind, "text": content, "content": content}));
            }
        }
    }
}
