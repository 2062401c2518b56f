//! Outgoing messages, and the refusals of the Graph API.

use hermes_text::dialect;
use hermes_types::{
    ChannelError, ChatPart, DeliveryCertainty, DeliveryReceipt, OutgoingMessage, QuickReply, WebImage,
};
use serde_json::{Value, json};

use super::WhatsAppCloudChannel;
use super::media::UploadedMedia;
use crate::choices;
use crate::fetch::fetch_picture;
use crate::rest::RestError;

const LONGEST_CAPTION: usize = 1024;
/// The limits of messages with buttons and lists.
const LONGEST_BODY: usize = 1024;
const MAX_BUTTONS: usize = 3;
const LONGEST_BUTTON: usize = 20;
const MAX_ROWS: usize = 10;
const LONGEST_ROW: usize = 24;
/// Graph's codes for tokens it does not take.
const UNAUTHORISED: [u64; 3] = [0, 190, 463];
/// Its codes for limits and passing trouble.
const PASSING: [u64; 12] =
    [1, 2, 4, 17, 80007, 130_429, 131_000, 131_016, 131_048, 131_056, 131_057, 133_016];

impl WhatsAppCloudChannel {
    pub(super) async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        let to = &reply.place.chat_id;
        let mut message_ids = Vec::new();
        let mut quoted = reply.reply_to.as_deref();
        for piece in &reply.pieces {
            let id = match piece {
                ChatPart::Text { text } => {
                    if let Some(interactive) = buttons(text, &reply.choices) {
                        self.send_as(to, "interactive", &interactive, quoted.take()).await?
                    } else {
                        let text = format!("{text}{}", choices::instruction(&reply.choices));
                        self.send_text(to, &text, quoted.take()).await?
                    }
                }
                ChatPart::File(file) => {
                    let uploaded = self.upload_file(file).await?;
                    self.send_media(to, &uploaded, None).await?
                }
                ChatPart::Picture(picture) => self.send_picture(to, picture).await?,
            };
            message_ids.push(id);
        }
        self.questions.remember(reply, &message_ids);
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    pub(super) async fn send_text(
        &self,
        to: &str,
        text: &str,
        quoted: Option<&str>,
    ) -> Result<String, ChannelError> {
        let text = json!({"body": dialect::whatsapp(text), "preview_url": true});
        self.send_as(to, "text", &text, quoted).await
    }

    /// Downloads and uploads a picture. If that fails, sends its address.
    async fn send_picture(&self, to: &str, picture: &WebImage) -> Result<String, ChannelError> {
        let why = match fetch_picture(&self.context.client, &*self.context.clock, &picture.url).await {
            Ok(file) => match self.upload_picture(&file.name, &file.bytes).await {
                Ok(uploaded) => return self.send_media(to, &uploaded, picture.caption.as_deref()).await,
                Err(ChannelError::Refused(why)) => why,
                Err(error) => return Err(error),
            },
            Err(why) => why,
        };
        tracing::warn!(why, "a picture is sent as its address");
        self.send_text(to, &picture.fallback_text(), None).await
    }

    async fn send_media(
        &self,
        to: &str,
        media: &UploadedMedia,
        caption: Option<&str>,
    ) -> Result<String, ChannelError> {
        let mut content = json!({"id": media.id});
        if media.shown_as == "document" {
            content["filename"] = json!(media.name);
        }
        // Sound has no caption.
        if let Some(caption) = caption.filter(|_| media.shown_as != "audio") {
            content["caption"] = json!(hermes_text::head(&dialect::whatsapp(caption), LONGEST_CAPTION));
        }
        self.send_as(to, media.shown_as, &content, None).await
    }

    async fn send_as(
        &self,
        to: &str,
        kind: &str,
        content: &Value,
        quoted: Option<&str>,
    ) -> Result<String, ChannelError> {
        let mut body = json!({
            "messaging_product": "whatsapp", "recipient_type": "individual", "to": to, "type": kind, kind: content,
        });
        if let Some(message) = quoted {
            body["context"] = json!({"message_id": message});
        }
        let answer = self.post_message(&body).await.map_err(RestError::into_send_error)?;
        let id = answer.pointer("/messages/0/id").and_then(Value::as_str);
        id.map(str::to_owned)
            .ok_or_else(|| ChannelError::DeliveryUnknown("WhatsApp returned no id of the message".to_owned()))
    }
}

/// Builds a message with buttons, or with a list where there are more choices than buttons. Returns `None` where the
/// choices do not fit; the text names them.
fn buttons(text: &str, choices: &[QuickReply]) -> Option<Value> {
    let body = dialect::whatsapp(text);
    let fits = choices.iter().all(|choice| (1..=200).contains(&choice.text.chars().count()));
    if choices.is_empty() || choices.len() > MAX_ROWS || body.chars().count() > LONGEST_BODY || !fits {
        return None;
    }
    let label = |choice: &QuickReply, most: usize| hermes_text::head(choice.label.trim(), most).to_owned();
    if choices.len() <= MAX_BUTTONS {
        let button = |choice: &QuickReply| {
            let reply = json!({"id": choice.text, "title": label(choice, LONGEST_BUTTON)});
            json!({"type": "reply", "reply": reply})
        };
        let buttons: Vec<Value> = choices.iter().map(button).collect();
        return Some(json!({"type": "button", "body": {"text": body}, "action": {"buttons": buttons}}));
    }
    let row = |choice: &QuickReply| json!({"id": choice.text, "title": label(choice, LONGEST_ROW)});
    let rows: Vec<Value> = choices.iter().map(row).collect();
    let action = json!({"button": "Choose", "sections": [{"title": "Choices", "rows": rows}]});
    Some(json!({"type": "list", "body": {"text": body}, "action": action}))
}

/// Returns what Graph says about a refusal.
pub(super) fn reason(body: &Value) -> Option<String> {
    let error = body.get("error")?;
    let code = error.get("code").and_then(Value::as_u64).unwrap_or_default();
    let detail =
        error.pointer("/error_data/details").or_else(|| error.get("message")).and_then(Value::as_str);
    Some(format!("{} (error {code})", meaning(code).or(detail).unwrap_or("no reason given")))
}

/// Says in plain words what the most frequent codes mean.
pub(super) fn meaning(code: u64) -> Option<&'static str> {
    Some(match code {
        131_047 => {
            "more than 24 hours have passed since the person last wrote; until they write again, WhatsApp takes only \
             template messages"
        }
        131_026 => {
            "the message cannot be delivered: the number has no WhatsApp, or has not accepted its terms"
        }
        131_030 => {
            "the number is not on the list of recipients of your test number; add it in Meta's console"
        }
        131_042 => "there is a problem with the payment method of your WhatsApp Business account",
        131_051 => "WhatsApp does not take this kind of message",
        132_000..=132_099 => {
            "there is a problem with a message template; check its name, language and parameters"
        }
        133_010 => "the phone number is not registered with the Cloud API",
        368 => "your WhatsApp Business account is blocked for violating a policy",
        _ => return None,
    })
}

/// Names a refusal for what can be done about it.
pub(super) fn explain(mut failure: RestError) -> RestError {
    let Some(code) = failure.body.pointer("/error/code").and_then(Value::as_u64) else { return failure };
    let said = reason(&failure.body).unwrap_or_default();
    if UNAUTHORISED.contains(&code) {
        let text =
            format!("WhatsApp does not take WHATSAPP_CLOUD_ACCESS_TOKEN (error {code}); create a new token");
        failure.error = ChannelError::Reauthorise(text);
    } else if PASSING.contains(&code) {
        if !matches!(failure.error, ChannelError::Retry { .. }) {
            failure.error = ChannelError::Retry { after: None, reason: said };
        }
    } else if failure.status != Some(429) {
        failure.error = ChannelError::Refused(said);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_become_buttons_or_a_list() {
        let choice = |label: &str| QuickReply { label: label.to_owned(), text: format!("/{label}") };
        let kinds = |count: usize| {
            let choices: Vec<QuickReply> = (0..count).map(|at| choice(&format!("choice {at}"))).collect();
            buttons("Which?", &choices).and_then(|value| value["type"].as_str().map(str::to_owned))
        };
        assert_eq!(kinds(0), None);
        assert_eq!(kinds(3).as_deref(), Some("button"));
        assert_eq!(kinds(4).as_deref(), Some("list"));
        assert_eq!(kinds(11), None);
        assert_eq!(buttons(&"x".repeat(1100), &[choice("a")]), None);
        let long = buttons("Which?", &[choice("a very long label indeed")]).unwrap();
        let title = long["action"]["buttons"][0]["reply"]["title"].as_str().unwrap();
        assert!(title.chars().count() <= 20, "{title}");
    }
}
