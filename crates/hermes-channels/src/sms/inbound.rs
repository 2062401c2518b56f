//! Incoming messages: forms that Twilio signed. Pure; the comparison takes constant time.

use data_encoding::BASE64;
use hermes_net::Url;
use hermes_types::{ChatAddress, ChatKind, ChatPart, Envelope, PlatformResponse, Sender, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use subtle::ConstantTimeEq as _;

use super::settings::{SmsSettings, WebhookCheck};
use crate::rest::decode_form;

/// An MMS has at most ten files.
const MAX_FILES: usize = 10;

/// The fields of a request.
pub(super) type SmsForm = Vec<(String, String)>;

pub(super) fn read_form(body: &[u8]) -> Option<SmsForm> {
    let form = decode_form(std::str::from_utf8(body).ok()?);
    (!form.is_empty()).then_some(form)
}

/// Tells whether Twilio sent this form. The signature covers the address of the webhook and all fields.
pub(super) fn is_genuine(form: &SmsForm, signature: Option<&str>, settings: &SmsSettings) -> bool {
    let url = match &settings.check {
        WebhookCheck::Signature(url) => url,
        WebhookCheck::Off => return true,
        WebhookCheck::Impossible => return false,
    };
    let given = signature.unwrap_or_default().as_bytes();
    let mut fields: Vec<&(String, String)> = form.iter().collect();
    fields.sort();
    let mut genuine = false;
    // Twilio signs the address with or without its default port.
    for address in spellings(url) {
        // HMAC accepts a key of any length, so this cannot fail.
        let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(settings.token.expose().as_bytes()) else {
            return false;
        };
        mac.update(address.as_bytes());
        for (name, value) in &fields {
            mac.update(name.as_bytes());
            mac.update(value.as_bytes());
        }
        let expected = BASE64.encode(&mac.finalize().into_bytes());
        genuine |= bool::from(given.ct_eq(expected.as_bytes()));
    }
    genuine
}

fn spellings(url: &Url) -> Vec<String> {
    let plain = url.as_str().to_owned();
    let (Some(host), Some(port), None) = (url.host_str(), url.port_or_known_default(), url.port()) else {
        return vec![plain];
    };
    let with_port = plain.replacen(host, &format!("{host}:{port}"), 1);
    vec![plain, with_port]
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SmsFile {
    /// Its address at Twilio, if the form has it.
    pub(super) url: Option<String>,
    pub(super) mime: Option<String>,
}

fn field<'a>(form: &'a SmsForm, name: &str) -> Option<&'a str> {
    let value = form.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
    value.filter(|text| !text.is_empty())
}

pub(super) fn message_id(form: &SmsForm) -> Option<&str> {
    ["MessageSid", "SmsMessageSid", "SmsSid"].into_iter().find_map(|name| field(form, name))
}

/// Returns how many files a message has.
pub(super) fn file_count(form: &SmsForm) -> usize {
    let said = field(form, "NumMedia").and_then(|count| count.parse::<usize>().ok());
    said.unwrap_or_default().min(MAX_FILES)
}

/// Returns the files of a message.
pub(super) fn files(form: &SmsForm) -> Vec<SmsFile> {
    let file = |at: usize| SmsFile {
        url: field(form, &format!("MediaUrl{at}")).map(str::to_owned),
        mime: field(form, &format!("MediaContentType{at}")).map(str::to_owned),
    };
    (0..file_count(form)).map(file).collect()
}

/// Converts a message to an envelope without its files. Returns `None` for what is not a message of somebody else.
pub(super) fn envelope(form: &SmsForm, settings: &SmsSettings, received_at: Timestamp) -> Option<Envelope> {
    let from = field(form, "From")?;
    if from == settings.number {
        return None;
    }
    let id = message_id(form)?;
    let parts: Vec<ChatPart> =
        field(form, "Body").map(|text| ChatPart::Text { text: text.to_owned() }).into_iter().collect();
    if parts.is_empty() && file_count(form) == 0 {
        return None;
    }
    Some(Envelope {
        platform: super::NAME.to_owned(),
        platform_key: id.to_owned(),
        place: ChatAddress::new(ChatKind::Dm, from),
        sender: Sender { user_id: Some(from.to_owned()), ..Sender::default() },
        parts,
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at,
    })
}

/// Returns the document that tells Twilio to send nothing itself.
pub(super) fn empty_answer() -> PlatformResponse {
    let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Response></Response>";
    PlatformResponse { status: 200, content_type: "application/xml", body: body.as_bytes().to_vec() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::Options;

    fn settings(url: &str, token: &str) -> SmsSettings {
        let variables = [
            ("TWILIO_ACCOUNT_SID", "AC1"),
            ("TWILIO_AUTH_TOKEN", token),
            ("TWILIO_PHONE_NUMBER", "+15550001"),
            ("SMS_WEBHOOK_URL", url),
        ];
        let pairs = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        SmsSettings::read(&Options::new(pairs.into_iter().collect(), serde_json::Value::Null)).unwrap()
    }

    fn form(pairs: &[(&str, &str)]) -> SmsForm {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The example of Twilio's documentation.
    #[test]
    fn the_signature_is_the_documented_one() {
        let form = form(&[
            ("CallSid", "CA1234567890ABCDE"),
            ("Caller", "+14158675309"),
            ("Digits", "1234"),
            ("From", "+14158675309"),
            ("To", "+18005551212"),
        ]);
        let right = Some("RSOYDt4T1cUTdK1PDd93/VVr8B8=");
        let settings = settings("https://mycompany.com/myapp.php?foo=1&bar=2", "12345");
        assert!(is_genuine(&form, right, &settings));
        assert!(!is_genuine(&form, Some("RSOYDt4T1cUTdK1PDd93/VVr8B9="), &settings));
        assert!(!is_genuine(&form, None, &settings));
        let mut changed = form.clone();
        changed[2].1 = "1235".to_owned();
        assert!(!is_genuine(&changed, right, &settings));
    }

    #[test]
    fn the_default_port_may_be_part_of_the_address() {
        let url = Url::parse("https://example.org/webhooks/twilio").unwrap();
        assert_eq!(
            spellings(&url),
            ["https://example.org/webhooks/twilio", "https://example.org:443/webhooks/twilio"]
        );
        assert_eq!(spellings(&Url::parse("https://example.org:8443/x").unwrap()).len(), 1);
    }

    #[test]
    fn what_is_no_message_is_left_out() {
        let settings = settings("https://example.org/x", "t");
        let read = |pairs: &[(&str, &str)]| envelope(&form(pairs), &settings, Timestamp(0.0));
        let sid = ("MessageSid", "SM1");
        assert!(read(&[("From", "+1"), sid]).is_none(), "without a body");
        assert!(read(&[("Body", "x"), sid]).is_none(), "without a sender");
        assert!(read(&[("From", "+15550001"), ("Body", "x"), sid]).is_none(), "its own number");
        let taken = read(&[("From", "+1"), ("Body", " hi "), sid]).unwrap();
        assert_eq!((taken.platform_key.as_str(), taken.text().as_str()), ("SM1", "hi"));
        let pictures = [("From", "+1"), ("NumMedia", "2"), ("MediaUrl1", "https://x"), sid];
        assert!(read(&pictures).unwrap().parts.is_empty());
        let urls: Vec<_> = files(&form(&pictures)).into_iter().map(|file| file.url).collect();
        assert_eq!(urls, [None, Some("https://x".to_owned())]);
        assert_eq!(files(&form(&[("NumMedia", "999999")])).len(), MAX_FILES);
    }

    proptest! {
        #[test]
        fn nothing_that_could_arrive_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let settings = settings("https://example.org/x", "t");
            if let Some(form) = read_form(&body) {
                is_genuine(&form, Some("x"), &settings);
                envelope(&form, &settings, Timestamp(0.0));
            }
        }
    }
}
