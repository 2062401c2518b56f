//! An emulated Twilio: the messages of one account, and signed webhooks for those that people send.
//!
//! Written from the documentation of the API; it shares no code with the channel.

use std::collections::{BTreeMap, VecDeque};

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha1::Sha1;

use crate::Error;
use crate::http::ReceivedRequest;
use crate::platform::{
    EmulatedPlatform, EmulatedReply, PlatformCall, PlatformFault, PlatformServer, SentWebhook, form_fields,
    query_fields, seconds_now,
};

/// The account.
pub const ACCOUNT: &str = "AC00000000000000000000000000000001";
pub const AUTH_TOKEN: &str = "twilio-test-token";
/// The number of the agent.
pub const NUMBER: &str = "+15550001111";

/// An SMS that the agent sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeSms {
    pub sid: String,
    pub to: String,
    pub body: String,
    /// The address of its file.
    pub media_url: Option<String>,
    /// Seconds since the epoch.
    created: u64,
}

/// A message of a person, until Hermes answered its webhook.
#[derive(Debug, Clone)]
struct ReceivedSms {
    id: u64,
    fields: Vec<(String, String)>,
}

#[derive(Debug)]
struct FakeTwilioState {
    token: String,
    /// The address that webhooks are sent to, and the one that is signed.
    hook: (String, String),
    sent: Vec<FakeSms>,
    /// Everything that people sent, as it is listed.
    received: Vec<Value>,
    waiting: VecDeque<ReceivedSms>,
    /// The status and body of each answered webhook.
    answers: Vec<(u16, String)>,
    last: Option<Vec<(String, String)>>,
    /// The files of messages by their paths below the account: their types, and where they are kept.
    media: BTreeMap<String, (String, String)>,
    /// The message whose webhook waits for its answer.
    asked: Option<ReceivedSms>,
    forge_next: bool,
    count: u64,
}

/// A running server.
#[derive(Debug)]
pub struct FakeTwilio(PlatformServer<FakeTwilioState>);

impl FakeTwilio {
    pub fn start() -> Result<Self, Error> {
        let world = FakeTwilioState {
            token: AUTH_TOKEN.to_owned(),
            hook: Default::default(),
            sent: Vec::new(),
            received: Vec::new(),
            waiting: VecDeque::new(),
            answers: Vec::new(),
            last: None,
            media: BTreeMap::new(),
            asked: None,
            forge_next: false,
            count: 0,
        };
        Ok(Self(PlatformServer::start("twilio", 0, world)?))
    }

    pub fn base_url(&self) -> String {
        self.0.base_url()
    }

    /// Sets the address of webhooks, and the public address that is signed.
    pub fn set_webhook(&self, url: &str, signed: &str) {
        self.0.update(|world| world.hook = (url.to_owned(), signed.to_owned()));
    }

    /// Sends an SMS from a number to the agent, and returns its id.
    pub fn says(&self, from: &str, text: &str) -> String {
        self.sends(from, &[("Body", text), ("NumMedia", "0")])
    }

    /// Sends a file by MMS, which is kept at an address of another server, and returns the id of the message.
    pub fn shares(&self, from: &str, text: &str, mime: &str, kept_at: &str) -> String {
        let (base, count) = (self.base_url(), self.0.read(|world| world.count + 1));
        let path = format!("/Messages/SM{count:032}/Media/ME{count:032}");
        let url = format!("{base}/2010-04-01/Accounts/{ACCOUNT}{path}");
        self.0.update(|world| world.media.insert(path, (mime.to_owned(), kept_at.to_owned())));
        self.sends(
            from,
            &[("Body", text), ("NumMedia", "1"), ("MediaUrl0", &url), ("MediaContentType0", mime)],
        )
    }

    /// Sends a message with these fields.
    pub fn sends(&self, from: &str, more: &[(&str, &str)]) -> String {
        self.0.update(|world| {
            world.count += 1;
            let sid = format!("SM{:032}", world.count);
            let mut fields: Vec<(String, String)> = [
                ("ToCountry", "US"),
                ("MessageSid", sid.as_str()),
                ("SmsMessageSid", sid.as_str()),
                ("AccountSid", ACCOUNT),
                ("From", from),
                ("To", NUMBER),
                ("ApiVersion", "2010-04-01"),
            ]
            .into_iter()
            .chain(more.iter().copied())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
            let field = |name: &str| more.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            let date = email_date(seconds_now());
            world.received.push(json!({
                "sid": sid, "from": from, "to": NUMBER, "body": field("Body").unwrap_or_default(),
                "num_media": field("NumMedia").unwrap_or("0"), "direction": "inbound", "status": "received",
                "date_created": date, "date_sent": date,
            }));
            // Twilio sends the fields in no particular order.
            fields.rotate_left(2);
            world.enqueue(fields);
            sid
        })
    }

    /// Sends the last message again, as after a lost response.
    pub fn repeat_last(&self) {
        self.0.update(|world| {
            if let Some(fields) = world.last.clone() {
                world.enqueue(fields);
            }
        });
    }

    /// Signs the next webhook with another token.
    pub fn forge_next(&self) {
        self.0.update(|world| world.forge_next = true);
    }

    /// Changes the valid token.
    pub fn change_token(&self, token: &str) {
        self.0.update(|world| token.clone_into(&mut world.token));
    }

    /// Returns what the agent sent to a number.
    pub fn sent(&self, to: &str) -> Vec<FakeSms> {
        self.0.read(|world| world.sent.iter().filter(|sms| sms.to == to).cloned().collect())
    }

    /// Returns the status and body of each answered webhook.
    pub fn answers(&self) -> Vec<(u16, String)> {
        self.0.read(|world| world.answers.clone())
    }

    pub async fn until_answered(&self, count: usize) -> Vec<(u16, String)> {
        self.0.until(|world| (world.answers.len() >= count).then(|| world.answers.clone())).await
    }

    #[track_caller]
    pub fn until_answered_blocking(&self, count: usize) -> Vec<(u16, String)> {
        self.0.until_blocking("answered webhooks", |world| {
            (world.answers.len() >= count).then(|| world.answers.clone())
        })
    }

    #[track_caller]
    pub fn until_sent_blocking(&self, to: &str, part: &str) -> FakeSms {
        self.0.until_blocking(part, |world| {
            world.sent.iter().find(|sms| sms.to == to && sms.body.contains(part)).cloned()
        })
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
    }

    pub fn calls(&self, part: &str) -> Vec<PlatformCall> {
        self.0.calls(part)
    }

    pub fn stop(&mut self) {
        self.0.stop();
        self.0.update(|world| {
            if let Some(asked) = world.asked.take() {
                world.waiting.push_front(asked);
            }
        });
    }

    pub fn start_again(&mut self) -> Result<(), Error> {
        self.0.start_again()
    }
}

impl FakeTwilioState {
    fn enqueue(&mut self, fields: Vec<(String, String)>) {
        self.count += 1;
        self.last = Some(fields.clone());
        self.waiting.push_back(ReceivedSms { id: self.count, fields });
    }

    fn create(&mut self, body: &[u8]) -> EmulatedReply {
        let fields = form_fields(body);
        let field =
            |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let (Some(from), Some(to)) = (field("From"), field("To").map(str::to_owned)) else {
            return refusal(400, 21604, "A 'To' phone number is required.");
        };
        let text = field("Body").unwrap_or_default();
        if from != NUMBER {
            return refusal(
                400,
                21606,
                "The 'From' phone number provided is not a valid message-capable number.",
            );
        }
        if !to.starts_with('+') || !to.chars().skip(1).all(|c| c.is_ascii_digit()) {
            return refusal(400, 21211, &format!("The 'To' number {to} is not a valid phone number."));
        }
        if text.is_empty() && field("MediaUrl").is_none() {
            return refusal(400, 21602, "Message body is required.");
        }
        if text.chars().count() > 1600 {
            return refusal(400, 21617, "The concatenated message body exceeds the 1600 character limit.");
        }
        self.count += 1;
        let sms = FakeSms {
            sid: format!("SM{:032}", self.count),
            to,
            body: text.to_owned(),
            media_url: field("MediaUrl").map(str::to_owned),
            created: seconds_now(),
        };
        let shown = sms.to_json();
        self.sent.push(sms);
        EmulatedReply::json(201, &shown)
    }

    /// Redirects to where a file is kept.
    fn media(&self, path: &str) -> EmulatedReply {
        match self.media.get(path) {
            Some((_, kept_at)) => EmulatedReply {
                headers: vec![("location", kept_at.clone())],
                ..EmulatedReply::bytes(307, "text/plain", b"")
            },
            None => refusal(404, 20404, "The requested resource was not found"),
        }
    }

    fn list_media(&self, message: &str) -> EmulatedReply {
        let of_it = format!("/Messages/{message}/Media/");
        let found: Vec<Value> = self
            .media
            .iter()
            .filter(|(path, _)| path.starts_with(&of_it))
            .map(|(path, (mime, _))| {
                json!({"content_type": mime, "uri": format!("/2010-04-01/Accounts/{ACCOUNT}{path}.json")})
            })
            .collect();
        EmulatedReply::json(200, &json!({"media_list": found, "page": 0}))
    }

    fn list(&self, target: &str) -> EmulatedReply {
        let query = query_fields(target);
        let wanted = query.iter().find(|(name, _)| name == "To").map(|(_, value)| value.clone());
        let sent = self.sent.iter().map(FakeSms::to_json);
        let all: Vec<Value> = self.received.iter().cloned().chain(sent).collect();
        let is_wanted = |sms: &&Value| wanted.as_ref().is_none_or(|to| sms["to"] == to.as_str());
        let found: Vec<&Value> = all.iter().rev().filter(is_wanted).collect();
        EmulatedReply::json(200, &json!({"messages": found, "page": 0, "page_size": 50}))
    }
}

impl FakeSms {
    fn to_json(&self) -> Value {
        json!({
            "sid": self.sid, "to": self.to, "from": NUMBER, "body": self.body, "status": "queued",
            "direction": "outbound-api", "account_sid": ACCOUNT, "date_created": email_date(self.created),
        })
    }
}

impl EmulatedPlatform for FakeTwilioState {
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let expected = format!("Basic {}", BASE64.encode(format!("{ACCOUNT}:{}", self.token).as_bytes()));
        if request.header("authorization") != Some(expected.as_str()) {
            return refusal(401, 20003, "Authenticate");
        }
        let path = request.target.split('?').next().unwrap_or_default();
        let account = format!("/2010-04-01/Accounts/{ACCOUNT}");
        match (request.method.as_str(), path.strip_prefix(&account)) {
            ("GET", Some(".json")) => {
                EmulatedReply::json(200, &json!({"sid": ACCOUNT, "status": "active", "type": "Full"}))
            }
            ("POST", Some("/Messages.json")) => self.create(&request.body),
            ("GET", Some("/Messages.json")) => self.list(&request.target),
            ("GET", Some(path)) if path.ends_with("/Media.json") => {
                let message =
                    path.strip_prefix("/Messages/").and_then(|rest| rest.strip_suffix("/Media.json"));
                self.list_media(message.unwrap_or_default())
            }
            ("GET", Some(path)) => self.media(path),
            _ => refusal(404, 20404, "The requested resource was not found"),
        }
    }

    fn next_webhook(&mut self) -> Option<SentWebhook> {
        if self.hook.0.is_empty() {
            return None;
        }
        let received = self.waiting.pop_front()?;
        self.asked = Some(received.clone());
        let ReceivedSms { id, fields } = received;
        let token = if std::mem::take(&mut self.forge_next) { "another token" } else { &self.token };
        let signature = sign(token, &self.hook.1, &fields);
        Some(SentWebhook {
            id,
            url: self.hook.0.clone(),
            mime: "application/x-www-form-urlencoded",
            headers: vec![
                ("x-twilio-signature", signature),
                ("i-twilio-idempotency-token", format!("t{id}")),
            ],
            body: encode(&fields).into_bytes(),
        })
    }

    /// A message whose request failed is only listed from now on.
    fn webhook_answered(&mut self, _: u64, status: u16, body: &str) {
        self.asked = None;
        self.answers.push((status, body.to_owned()));
    }
}

fn refusal(status: u16, code: u32, message: &str) -> EmulatedReply {
    let more = format!("https://www.twilio.com/docs/errors/{code}");
    EmulatedReply::json(
        status,
        &json!({"code": code, "message": message, "more_info": more, "status": status}),
    )
}

/// Signs the address followed by each field, ordered by name.
fn sign(token: &str, url: &str, fields: &[(String, String)]) -> String {
    let mut sorted = fields.to_vec();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(token.as_bytes()) else {
        panic!("a key may have any length")
    };
    mac.update(url.as_bytes());
    for (name, value) in &sorted {
        mac.update(format!("{name}{value}").as_bytes());
    }
    BASE64.encode(&mac.finalize().into_bytes())
}

fn encode(fields: &[(String, String)]) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
                b' ' => "+".to_owned(),
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Formats a time as e-mails do.
fn email_date(seconds: u64) -> String {
    let days = seconds / 86_400;
    let weekday =
        ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from(days % 7).unwrap_or_default()];
    let (mut year, mut left) = (1970, days);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} +0000", left + 1, names[month])
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}
