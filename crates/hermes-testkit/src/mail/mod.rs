//! An emulated mail server with one mailbox: IMAP and SMTP on two ports of the loopback interface, without encryption.
//!
//! Written from RFC 3501, RFC 2177 and RFC 5321; it shares no code with the channel. Mails that come in carry the results
//! of its checks, as a receiving server writes them.

mod imap;
mod smtp;

use std::fmt::Write as _;
use std::sync::Arc;

use data_encoding::BASE64;
use mail_parser::{MessageParser, MimeHeaders as _};

use crate::Error;
use crate::server_thread::ServerThread;
use crate::watched_value::WatchedValue;

/// The address and the password of the mailbox.
pub const ADDRESS: &str = "bot@fake.test";
pub const PASSWORD: &str = "mail-pass-word";
/// The name under which the server writes its results.
pub const SERVER: &str = "mx.fake.test";

/// A mail that was handed to the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentMail {
    pub from: String,
    pub to: String,
    pub raw: Vec<u8>,
}

impl SentMail {
    /// Returns a field of its head as a mail program shows it.
    pub fn field(&self, name: &str) -> Option<String> {
        let read = MessageParser::default().parse(&self.raw)?;
        let value = read.header_raw(name.to_owned())?;
        Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    pub fn subject(&self) -> String {
        let read = MessageParser::default().parse(&self.raw);
        read.and_then(|read| read.subject().map(str::to_owned)).unwrap_or_default()
    }

    /// Returns the plain part, with line ends of one byte.
    pub fn text(&self) -> String {
        let read = MessageParser::default().parse(&self.raw);
        let text = read.and_then(|read| read.body_text(0).map(std::borrow::Cow::into_owned));
        text.unwrap_or_default().replace("\r\n", "\n").trim_end().to_owned()
    }

    pub fn html(&self) -> String {
        let read = MessageParser::default().parse(&self.raw);
        read.and_then(|read| read.body_html(0).map(std::borrow::Cow::into_owned)).unwrap_or_default()
    }

    /// Returns its files: names and bytes.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let Some(read) = MessageParser::default().parse(&self.raw) else { return Vec::new() };
        let file = |part: &mail_parser::MessagePart<'_>| {
            (part.attachment_name().unwrap_or_default().to_owned(), part.contents().to_vec())
        };
        read.attachments().map(file).collect()
    }
}

/// Says how the next matching step fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailFault {
    /// The next IMAP sign-in gets this answer: `NO [UNAVAILABLE] later`.
    ImapSignIn(String),
    /// The next SMTP command of that name gets this reply: `450 later`.
    Reply(&'static str, String),
    /// The connection ends before the mail is taken.
    Cut,
    /// The mail is taken, but the connection ends before the reply.
    TakeAndCut,
}

#[derive(Debug, Clone)]
struct StoredMail {
    number: u32,
    raw: Vec<u8>,
    is_read: bool,
}

#[derive(Debug)]
struct MailState {
    validity: u32,
    next: u32,
    mails: Vec<StoredMail>,
    sent: Vec<SentMail>,
    faults: Vec<MailFault>,
    password: String,
    has_idle: bool,
    /// Counts the orders to end every IMAP connection.
    epoch: usize,
    /// The IMAP connections that were signed in.
    sign_ins: usize,
    /// How often waiting for mail began.
    waits: usize,
    count: u32,
}

impl MailState {
    fn add(&mut self, raw: Vec<u8>) -> u32 {
        let number = self.next;
        self.next += 1;
        self.mails.push(StoredMail { number, raw, is_read: false });
        number
    }

    fn take_fault(&mut self, wanted: impl Fn(&MailFault) -> bool) -> Option<MailFault> {
        let at = self.faults.iter().position(wanted)?;
        Some(self.faults.remove(at))
    }
}

/// A running server.
#[derive(Debug)]
pub struct FakeMail {
    state: Arc<WatchedValue<MailState>>,
    ports: (u16, u16),
    running: Option<(ServerThread, ServerThread)>,
}

impl FakeMail {
    pub fn start() -> Result<Self, Error> {
        let state = MailState {
            validity: 1000,
            next: 1,
            mails: Vec::new(),
            sent: Vec::new(),
            faults: Vec::new(),
            password: PASSWORD.to_owned(),
            has_idle: true,
            epoch: 0,
            sign_ins: 0,
            waits: 0,
            count: 0,
        };
        let mut server = Self { state: Arc::new(WatchedValue::new(state)), ports: (0, 0), running: None };
        server.start_again()?;
        Ok(server)
    }

    pub fn imap_port(&self) -> u16 {
        self.ports.0
    }

    pub fn smtp_port(&self) -> u16 {
        self.ports.1
    }

    /// Ends every connection and refuses new ones.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Listens again on the same ports, with its mails.
    pub fn start_again(&mut self) -> Result<(), Error> {
        let (imap_state, smtp_state) = (self.state.clone(), self.state.clone());
        let (imap_at, imap) =
            ServerThread::start("imap", self.ports.0, move |listener| imap::serve(listener, imap_state))?;
        let (smtp_at, smtp) =
            ServerThread::start("smtp", self.ports.1, move |listener| smtp::serve(listener, smtp_state))?;
        self.ports = (imap_at.port(), smtp_at.port());
        self.running = Some((imap, smtp));
        Ok(())
    }

    /// Puts a mail into the mailbox as it is.
    pub fn deliver(&self, raw: &str) -> u32 {
        let raw = raw.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
        self.state.update(|state| state.add(raw))
    }

    /// Receives a mail of a person, and returns its id.
    pub fn says(&self, from: &str, subject: &str, text: &str) -> String {
        self.receives(from, &[("Subject", subject)], text)
    }

    /// Receives an answer to a mail of the agent.
    pub fn answers(&self, from: &str, sent: &SentMail, text: &str) -> String {
        let id = sent.field("Message-ID").unwrap_or_default();
        let references = sent.field("References").unwrap_or_default();
        let quoted: String = sent.text().lines().fold(String::new(), |mut quoted, line| {
            let _ = writeln!(quoted, "> {line}");
            quoted
        });
        let text = format!("{text}\n\nOn Tue, 4 Nov 2025 at 10:00, <{ADDRESS}> wrote:\n{quoted}");
        let subject = sent.subject();
        let references = format!("{references} {id}");
        let fields =
            [("Subject", subject.as_str()), ("In-Reply-To", id.as_str()), ("References", references.trim())];
        self.receives(from, &fields, &text)
    }

    /// Receives a mail with these fields besides the usual ones.
    pub fn receives(&self, from: &str, fields: &[(&str, &str)], text: &str) -> String {
        let id = self.next_id(from);
        let mut raw = head(from, &id);
        for (name, value) in fields {
            let _ = writeln!(raw, "{name}: {value}");
        }
        let _ = write!(
            raw,
            "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n{}\n",
            lines(text.replace('\n', "\r\n").as_bytes())
        );
        self.deliver(&raw);
        id
    }

    /// Receives a mail with a file.
    pub fn shares(
        &self,
        from: &str,
        subject: &str,
        text: &str,
        (name, mime, bytes): (&str, &str, &[u8]),
    ) -> String {
        let id = self.next_id(from);
        let raw = format!(
            "{}Subject: {subject}\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"sep\"\n\n--sep\n\
             Content-Type: text/plain; charset=utf-8\n\n{text}\n--sep\nContent-Type: {mime}; name=\"{name}\"\n\
             Content-Disposition: attachment; filename=\"{name}\"\nContent-Transfer-Encoding: base64\n\n{}\n--sep--\n",
            head(from, &id),
            lines(bytes)
        );
        self.deliver(&raw);
        id
    }

    fn next_id(&self, from: &str) -> String {
        let count = self.state.update(|state| {
            state.count += 1;
            state.count
        });
        let domain = from.rsplit('@').next().unwrap_or_default();
        format!("m{count}@{domain}")
    }

    /// Puts the newest mail into the mailbox once more, as when it was also sent through a list.
    pub fn repeat_last(&self) {
        self.state.update(|state| {
            if let Some(raw) = state.mails.last().map(|mail| mail.raw.clone()) {
                state.add(raw);
            }
        });
    }

    /// Gives every mail a new number, as after a restored backup, and ends the connections.
    pub fn renumber(&self) {
        self.state.update(|state| {
            state.validity += 1;
            state.next = 1;
            for mail in std::mem::take(&mut state.mails) {
                let number = state.add(mail.raw);
                if let Some(stored) = state.mails.iter_mut().find(|stored| stored.number == number) {
                    stored.is_read = mail.is_read;
                }
            }
            state.epoch += 1;
        });
    }

    /// Marks every mail as read, as a person does in another program.
    pub fn read_all(&self) {
        self.state.update(|state| state.mails.iter_mut().for_each(|mail| mail.is_read = true));
    }

    /// Returns the mails to an address, oldest first.
    pub fn sent(&self, to: &str) -> Vec<SentMail> {
        self.state.read(|state| state.sent.iter().filter(|mail| mail.to == to).cloned().collect())
    }

    /// Returns the numbers of the mails that are marked as read.
    pub fn read_numbers(&self) -> Vec<u32> {
        self.state
            .read(|state| state.mails.iter().filter(|mail| mail.is_read).map(|mail| mail.number).collect())
    }

    pub fn set_password(&self, password: &str) {
        self.state.update(|state| password.clone_into(&mut state.password));
    }

    /// Takes the ability to tell about new mail away.
    pub fn without_idle(&self) {
        self.state.update(|state| state.has_idle = false);
    }

    pub fn fault(&self, fault: MailFault) {
        self.state.update(|state| state.faults.push(fault));
    }

    /// Ends every IMAP connection.
    pub fn drop_connections(&self) {
        self.state.update(|state| state.epoch += 1);
    }

    /// Waits until waiting for mail began that often since the start.
    pub async fn until_waiting(&self, count: usize) {
        self.state.until(|state| (state.waits >= count).then_some(())).await;
    }

    /// Waits until a mail is marked as read.
    pub async fn until_read(&self, number: u32) {
        let is_read = |mail: &StoredMail| mail.number == number && mail.is_read;
        self.state.until(|state| state.mails.iter().any(is_read).then_some(())).await;
    }

    pub fn sign_ins(&self) -> usize {
        self.state.read(|state| state.sign_ins)
    }

    #[track_caller]
    pub fn until_sent_blocking(&self, to: &str, part: &str) -> SentMail {
        self.state.until_blocking(part, |state| {
            state.sent.iter().find(|mail| mail.to == to && mail.text().contains(part)).cloned()
        })
    }
}

/// Returns the fields that every mail of a person has when it has arrived.
fn head(from: &str, id: &str) -> String {
    let domain = from.rsplit('@').next().unwrap_or_default();
    format!(
        "Return-Path: <{from}>\nAuthentication-Results: {SERVER};\n dmarc=pass (p=none) header.from={domain};\n \
         spf=pass smtp.mailfrom={from}\nReceived: from out.{domain} by {SERVER}; Tue, 4 Nov 2025 10:00:00 +0000\n\
         From: <{from}>\nTo: <{ADDRESS}>\nMessage-ID: <{id}>\nDate: Tue, 4 Nov 2025 10:00:00 +0000\n"
    )
}

fn lines(bytes: &[u8]) -> String {
    bytes.chunks(57).map(|line| BASE64.encode(line)).collect::<Vec<_>>().join("\n")
}
