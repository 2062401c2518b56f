//! Outgoing messages.

use data_encoding::BASE64;
use hermes_net::{HttpRequest, Method, header, parse_date};
use hermes_text::dialect;
use hermes_types::{
    ChannelError, ChatPart, DeliveryCertainty, DeliveryReceipt, OutgoingMessage, Secret, Timestamp,
};
use serde_json::Value;

use super::{SmsChannel, masked};
use crate::incoming_file::{file_name, file_note};
use crate::rest::{RestError, encode_form};

/// The number of messages searched for one that may have been sent.
const LOOK_BACK: &str = "50";
/// Twilio's codes for credentials it does not take.
const UNAUTHORISED: [u64; 2] = [20003, 20005];
/// Its codes for limits.
const LIMITED: [u64; 4] = [14107, 20429, 30001, 30022];

impl SmsChannel {
    /// Checks the credentials, so that wrong ones are known before the first message.
    pub(super) async fn check_credentials(&self) -> Result<(), ChannelError> {
        let path = format!("2010-04-01/Accounts/{}.json", self.settings.account);
        self.call(Method::GET, &path, None).await.map(drop).map_err(|failure| failure.error)
    }

    pub(super) async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        let mut message_ids = Vec::new();
        for sms in self.messages(reply) {
            message_ids.push(self.send_one(&reply.place.chat_id, &sms).await?);
        }
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    /// Retries a reply: Twilio lists what was sent to a number since the first attempt.
    pub(super) async fn deliver_again(
        &self,
        reply: &OutgoingMessage,
        since: Timestamp,
    ) -> Result<DeliveryReceipt, ChannelError> {
        let mut message_ids = Vec::new();
        let mut certainty = DeliveryCertainty::Once;
        for sms in self.messages(reply) {
            match self.find_sent(&reply.place.chat_id, &sms.text, since).await {
                Ok(Some(id)) => message_ids.push(id),
                Ok(None) => message_ids.push(self.send_one(&reply.place.chat_id, &sms).await?),
                Err(failure) if matches!(failure.error, ChannelError::Retry { .. }) => {
                    return Err(failure.error);
                }
                Err(_) => {
                    certainty = DeliveryCertainty::AtLeastOnce;
                    message_ids.push(self.send_one(&reply.place.chat_id, &sms).await?);
                }
            }
        }
        Ok(DeliveryReceipt { message_ids, certainty })
    }

    /// Returns the messages of a reply. SMS has no markup, and blank lines cost money.
    fn messages(&self, reply: &OutgoingMessage) -> Vec<OutgoingSms> {
        let message = |piece: &ChatPart| match piece {
            ChatPart::Text { text } => OutgoingSms { text: plain(text), media: None },
            ChatPart::Picture(picture) => OutgoingSms { text: picture.fallback_text(), media: None },
            ChatPart::File(file) => match self.offer(file) {
                Ok(url) => OutgoingSms { text: file_name(file).to_owned(), media: Some(url) },
                Err(why) => OutgoingSms { text: file_note(file, &why), media: None },
            },
        };
        reply.pieces.iter().map(message).filter(|sms| !sms.text.is_empty()).collect()
    }

    async fn send_one(&self, to: &str, sms: &OutgoingSms) -> Result<String, ChannelError> {
        let path = format!("2010-04-01/Accounts/{}/Messages.json", self.settings.account);
        let mut fields = vec![("From", self.settings.number.as_str()), ("To", to), ("Body", &sms.text)];
        fields.extend(sms.media.as_deref().map(|url| ("MediaUrl", url)));
        let form = encode_form(&fields);
        let answer = self.call(Method::POST, &path, Some(form)).await;
        let answer = answer.map_err(|failure| {
            tracing::debug!(to = masked(to), error = %failure.error, "an SMS was not sent");
            failure.into_send_error()
        })?;
        let id = answer.get("sid").and_then(Value::as_str).unwrap_or_default();
        Ok(id.to_owned())
    }

    /// Finds a message with this text among those sent to a number since the first attempt.
    async fn find_sent(&self, to: &str, text: &str, since: Timestamp) -> Result<Option<String>, RestError> {
        let query = encode_form(&[("To", to), ("From", &self.settings.number), ("PageSize", LOOK_BACK)]);
        let answer = self.list_messages(&query).await?;
        let messages = answer.get("messages").and_then(Value::as_array);
        let ours = |message: &&Value| {
            let made = message.get("date_created").and_then(Value::as_str).and_then(parse_date);
            // Twilio's times have no fractions.
            let recent = made.is_some_and(|made| made.seconds() >= since.seconds().floor());
            recent && message.get("body").and_then(Value::as_str) == Some(text)
        };
        let found = messages.into_iter().flatten().find(ours);
        Ok(found.and_then(|message| message.get("sid")).and_then(Value::as_str).map(str::to_owned))
    }

    /// Lists messages, the newest first.
    pub(super) async fn list_messages(&self, query: &str) -> Result<Value, RestError> {
        let path = format!("2010-04-01/Accounts/{}/Messages.json?{query}", self.settings.account);
        self.call(Method::GET, &path, None).await
    }

    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        form: Option<String>,
    ) -> Result<Value, RestError> {
        let request = self.request(method, path, form)?;
        self.rest.call(request).await.map_err(explain)
    }

    /// Builds a request with the credentials of the account.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        form: Option<String>,
    ) -> Result<HttpRequest, RestError> {
        let settings = &self.settings;
        let url = settings.base.join(path).map_err(|_| RestError::network(&hermes_net::Error::InvalidUrl))?;
        let pair = format!("{}:{}", settings.account, settings.token.expose());
        let basic = Secret::new(format!("Basic {}", BASE64.encode(pair.as_bytes())));
        let request = HttpRequest::new(method, url).secret_header(header::AUTHORIZATION, &basic);
        let request = request.and_then(|request| match form {
            Some(form) => {
                Ok(request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")?.body(form))
            }
            None => Ok(request),
        });
        request.map_err(|error| RestError::network(&error))
    }
}

/// A message to send, with the public address of its file.
struct OutgoingSms {
    text: String,
    media: Option<String>,
}

fn plain(markdown: &str) -> String {
    let text = dialect::plain(markdown);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.join("\n").trim().to_owned()
}

/// Returns what Twilio says about a refusal.
pub(super) fn reason(body: &Value) -> Option<String> {
    let message = body.get("message").and_then(Value::as_str)?;
    match body.get("code").and_then(Value::as_u64) {
        Some(code) => Some(format!("{message} (error {code})")),
        None => Some(message.to_owned()),
    }
}

/// Names a refusal for what can be done about it.
fn explain(mut failure: RestError) -> RestError {
    let code = failure.body.get("code").and_then(Value::as_u64).unwrap_or_default();
    let said = failure.error.to_string();
    if UNAUTHORISED.contains(&code) || failure.status == Some(401) {
        let text = "Twilio does not take the credentials; check TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN";
        failure.error = ChannelError::Reauthorise(text.to_owned());
    } else if LIMITED.contains(&code) && !matches!(failure.error, ChannelError::Retry { .. }) {
        failure.error = ChannelError::Retry { after: None, reason: said };
    } else if code == 21610 {
        let text = "Twilio: the recipient has unsubscribed with STOP; only START from their phone undoes it";
        failure.error = ChannelError::Refused(text.to_owned());
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_no_marks_and_no_blank_lines() {
        assert_eq!(
            plain("# Title\n\n**bold** and `code`\n\n\n[a](https://e.org)"),
            "Title\nbold and code\na (https://e.org)"
        );
    }
}
