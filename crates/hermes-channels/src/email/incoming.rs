//! A mail as it came, and what of it becomes a message. Pure.
//!
//! Everything in a mail was written by its sender. Invariant: no bytes make it panic; a part that cannot be read costs
//! that part only.

use std::panic::{AssertUnwindSafe, catch_unwind};

use data_encoding::HEXLOWER;
use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders as _, PartType};
use sha2::{Digest as _, Sha256};

use super::address::{message_id, normal_address};
use super::body;

/// Limits the files of one mail.
const MAX_FILES: usize = 20;
/// Limits the mails within mails that are read.
const DEEPEST: usize = 2;
const LONGEST_SUBJECT: usize = 300;
const LONGEST_TEXT: usize = 200_000;
/// Limits the ids of earlier mails that are kept.
const MAX_REFERENCES: usize = 20;

/// A mail that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct IncomingMail {
    /// The address of its author, in lower case; absent where it has none, or several.
    pub(super) sender: Option<String>,
    pub(super) sender_name: Option<String>,
    /// Its id without brackets; a digest of its bytes where it has none.
    pub(super) id: String,
    pub(super) has_id: bool,
    pub(super) in_reply_to: Option<String>,
    /// The ids of the mails before it, the oldest first.
    pub(super) references: Vec<String>,
    pub(super) subject: String,
    /// Its fields, by their names in lower case and in their order, unfolded.
    fields: Vec<(String, String)>,
    /// The text its author wrote, in Markdown.
    pub(super) text: String,
    pub(super) files: Vec<MailFile>,
    /// The number of files that are left out.
    pub(super) more_files: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MailFile {
    pub(super) name: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) bytes: Vec<u8>,
}

impl IncomingMail {
    /// Parses a mail. Returns `None` for what is none.
    pub(super) fn parse(raw: &[u8]) -> Option<Self> {
        // The parser is not ours: a mail that it does not survive must not end more than that mail.
        let read = catch_unwind(AssertUnwindSafe(|| {
            let message = MessageParser::default().parse(raw)?;
            Some(read_mail(&message, raw))
        }));
        read.ok().flatten()
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the values of a field that may be there several times, the topmost first.
    pub(super) fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the text for the agent: the subject of a new mail belongs to it.
    pub(super) fn message_text(&self) -> String {
        let text = self.text.trim();
        let subject = self.subject.trim();
        let is_reply = subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
        let shows_subject = !subject.is_empty() && !is_reply && !text.starts_with('/');
        match (text.is_empty(), shows_subject) {
            (true, true) => format!("[Subject: {subject}]"),
            (true, false) if self.files.is_empty() => "(empty email)".to_owned(),
            (true, false) => String::new(),
            (false, true) => format!("[Subject: {subject}]\n\n{text}"),
            (false, false) => text.to_owned(),
        }
    }
}

fn read_mail(message: &Message<'_>, raw: &[u8]) -> IncomingMail {
    let fields = read_fields(message);
    let authors: Vec<_> = message.from().into_iter().flat_map(mail_parser::Address::iter).collect();
    // A mail with several authors, or fields of them, says nothing about who wrote it.
    let is_single = authors.len() == 1 && fields.iter().filter(|(name, _)| name == "from").count() == 1;
    let author = authors.first().filter(|_| is_single);
    let own_id = message.message_id().and_then(message_id).map(str::to_owned);
    let in_reply_to = ids(message.in_reply_to()).pop();
    let answers_us = in_reply_to.as_deref().is_some_and(|id| id.starts_with(super::OWN_ID_START));
    let mut references = ids(message.references());
    let surplus = references.len().saturating_sub(MAX_REFERENCES);
    references.drain(..surplus);
    let mut contents = MailContents::default();
    contents.read(message, 0);
    let text = if answers_us { body::without_quote(&contents.text) } else { contents.text };
    IncomingMail {
        sender: author.and_then(|author| normal_address(author.address()?)),
        sender_name: author
            .and_then(|author| author.name())
            .map(one_line)
            .filter(|name| !name.is_empty())
            .map(|name| hermes_text::head(&name, 100).to_owned()),
        has_id: own_id.is_some(),
        id: own_id.unwrap_or_else(|| HEXLOWER.encode(&Sha256::digest(raw))),
        in_reply_to,
        references,
        subject: hermes_text::head(&one_line(message.subject().unwrap_or_default()), LONGEST_SUBJECT)
            .to_owned(),
        fields,
        text: hermes_text::head(&body::without_signature(&text), LONGEST_TEXT).to_owned(),
        files: contents.files,
        more_files: contents.more_files,
    }
}

/// Returns the fields of the head as they were written, each on one line.
fn read_fields(message: &Message<'_>) -> Vec<(String, String)> {
    let Some(root) = message.parts.first() else { return Vec::new() };
    let field = |header: &mail_parser::Header<'_>| {
        let from = usize::try_from(header.offset_start()).ok()?;
        let to = usize::try_from(header.offset_end()).ok()?;
        let value = String::from_utf8_lossy(message.raw_message.get(from..to)?).into_owned();
        Some((header.name().to_ascii_lowercase(), one_line(&value)))
    };
    root.headers.iter().filter_map(field).collect()
}

fn ids(value: &mail_parser::HeaderValue<'_>) -> Vec<String> {
    let texts: Vec<&str> = match value {
        mail_parser::HeaderValue::Text(text) => vec![text],
        mail_parser::HeaderValue::TextList(texts) => texts.iter().map(AsRef::as_ref).collect(),
        _ => Vec::new(),
    };
    texts.into_iter().filter_map(message_id).map(str::to_owned).collect()
}

/// Returns a text on one line, without control characters.
pub(super) fn one_line(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[derive(Debug, Default)]
struct MailContents {
    text: String,
    files: Vec<MailFile>,
    more_files: usize,
}

impl MailContents {
    fn read(&mut self, message: &Message<'_>, depth: usize) {
        let plain = Self::join(message, &message.text_body);
        let text = if plain.trim().is_empty() { Self::join(message, &message.html_body) } else { plain };
        self.push_text(&text);
        for id in &message.attachments {
            let part = usize::try_from(*id).ok().and_then(|at| message.parts.get(at));
            if let Some(part) = part {
                self.read_attachment(part, depth);
            }
        }
    }

    /// Returns the texts of these parts.
    fn join(message: &Message<'_>, parts: &[mail_parser::MessagePartId]) -> String {
        let text = |id: &mail_parser::MessagePartId| {
            let part = usize::try_from(*id).ok().and_then(|at| message.parts.get(at))?;
            match &part.body {
                PartType::Text(text) => Some(body::normal(text)),
                PartType::Html(markup) => Some(hermes_extract::read_markup(markup)),
                _ => None,
            }
        };
        parts.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
    }

    fn push_text(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() || self.text.len() > LONGEST_TEXT {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    fn read_attachment(&mut self, part: &MessagePart<'_>, depth: usize) {
        let bytes = match &part.body {
            PartType::Binary(bytes) | PartType::InlineBinary(bytes) => bytes.to_vec(),
            PartType::Text(text) | PartType::Html(text) => text.as_bytes().to_vec(),
            PartType::Message(inner) if depth < DEEPEST => {
                let from = inner.from().and_then(|from| from.first()).and_then(mail_parser::Addr::address);
                let (from, subject) = (from.unwrap_or("unknown"), inner.subject().unwrap_or_default());
                self.push_text(&format!("[Attached mail from {}: {}]", one_line(from), one_line(subject)));
                return self.read(inner, depth + 1);
            }
            PartType::Message(_) | PartType::Multipart(_) => return,
        };
        if bytes.is_empty() {
            return;
        }
        if self.files.len() >= MAX_FILES {
            self.more_files += 1;
            return;
        }
        let mime = part.content_type().map(|kind| {
            format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or("octet-stream")).to_ascii_lowercase()
        });
        let name = part.attachment_name().map(one_line).filter(|name| !name.is_empty());
        self.files.push(MailFile { name, mime, bytes });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> IncomingMail {
        IncomingMail::parse(text.replace('\n', "\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn heads_with_encoded_words_and_folded_lines() {
        let mail = parse(
            "From: =?UTF-8?Q?J=C3=BCrgen?= <Ann@Example.org>\nMessage-ID: <m1@example.org>\n\
             Subject: =?iso-8859-1?B?R3L832U=?=\n =?utf-8?q?_und_mehr?=\nReferences: <a@x>\n <b@x>\nIn-Reply-To: <b@x>\n\
             X-Long: a\n\tb\n\nhello\n",
        );
        assert_eq!(mail.sender.as_deref(), Some("ann@example.org"));
        assert_eq!(mail.sender_name.as_deref(), Some("Jürgen"));
        assert_eq!((mail.id.as_str(), mail.has_id), ("m1@example.org", true));
        assert_eq!(mail.subject, "Grüße und mehr");
        assert_eq!(
            (mail.references.join(" ").as_str(), mail.in_reply_to.as_deref()),
            ("a@x b@x", Some("b@x"))
        );
        assert_eq!(mail.field("x-long"), Some("a b"));
        assert_eq!(mail.text, "hello");
    }

    #[test]
    fn one_author_and_no_more() {
        for head in [
            "From: a@example.org, b@example.org",
            "From: a@example.org\nFrom: b@example.org",
            "From: nobody",
            "Sender: a@example.org",
        ] {
            assert_eq!(parse(&format!("{head}\nSubject: x\n\nhi\n")).sender, None, "{head}");
        }
        let mail = parse("From: \"boss@example.org\" <ann@evil.org>\n\nhi\n");
        assert_eq!(mail.sender.as_deref(), Some("ann@evil.org"));
    }

    #[test]
    fn texts_of_nested_parts() {
        let mail = parse(
            "From: a@x.org\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\n\
             Content-Type: multipart/alternative; boundary=i\n\n--i\nContent-Type: text/plain; charset=iso-8859-1\n\
             Content-Transfer-Encoding: quoted-printable\n\nGr=FC=DFe, =\nAnn\n--i\nContent-Type: text/html\n\n<p>never</p>\n--i--\n\
             --o\nContent-Type: application/pdf; name*=UTF-8''gr%C3%B6%C3%9Fe.pdf\nContent-Disposition: attachment\n\
             Content-Transfer-Encoding: base64\n\nJVBERg==\n\
             --o\nContent-Type: message/rfc822\n\nFrom: bob@y.org\nSubject: Inner\n\nwithin\n--o--\n",
        );
        assert_eq!(mail.text, "Grüße, Ann\n\n[Attached mail from bob@y.org: Inner]\n\nwithin");
        let file = &mail.files[0];
        assert_eq!(
            (file.name.as_deref(), file.mime.as_deref()),
            (Some("größe.pdf"), Some("application/pdf"))
        );
        assert_eq!(file.bytes, b"%PDF");
    }

    #[test]
    fn markup_becomes_markdown_without_what_nobody_sees() {
        let mail = parse(
            "From: a@x.org\nContent-Type: text/html; charset=utf-8\n\n<html><head><style>p{}</style></head><body>\
             <div style=\"display:none\">secret orders</div><p>Hello <b>you</b></p><ul><li>one</li></ul>\
             <a href=\"https://e.org\">link</a></body></html>\n",
        );
        assert!(
            mail.text.contains("Hello **you**") && mail.text.contains("[link](https://e.org)"),
            "{}",
            mail.text
        );
        assert!(!mail.text.contains("secret") && !mail.text.contains('{'), "{}", mail.text);
    }

    #[test]
    fn the_subject_belongs_to_a_new_mail() {
        let said =
            |head: &str, text: &str| parse(&format!("From: a@x.org\n{head}\n\n{text}\n")).message_text();
        assert_eq!(said("Subject: Lunch", "today?"), "[Subject: Lunch]\n\ntoday?");
        assert_eq!(said("Subject: RE: Lunch", "today?"), "today?");
        assert_eq!(said("Subject: Lunch", "/new"), "/new", "a command begins its message");
        assert_eq!(said("Subject: Lunch", ""), "[Subject: Lunch]");
        assert_eq!(said("X: y", " "), "(empty email)");
    }

    #[test]
    fn a_mail_without_an_id_is_known_by_its_bytes() {
        let mail = parse("From: a@x.org\n\nhi\n");
        assert!(!mail.has_id && mail.id.len() == 64, "{}", mail.id);
        assert_eq!(mail.id, parse("From: a@x.org\n\nhi\n").id);
        assert_ne!(mail.id, parse("From: a@x.org\n\nho\n").id);
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Some(mail) = IncomingMail::parse(&bytes) {
                mail.message_text();
            }
        }

        #[test]
        fn nothing_in_the_form_of_a_mail_panics(
            lines in prop::collection::vec(
                prop_oneof![
                    "(From|Subject|Message-ID|References|Content-Type|Content-Transfer-Encoding|Content-Disposition): [ -~]{0,40}",
                    Just("Content-Type: multipart/mixed; boundary=b".to_owned()),
                    Just("Content-Type: message/rfc822".to_owned()),
                    Just("Content-Transfer-Encoding: base64".to_owned()),
                    Just("Content-Transfer-Encoding: quoted-printable".to_owned()),
                    Just("Subject: =?utf-8?q?=C3?= =?x?b?!!?=".to_owned()),
                    Just("--b".to_owned()),
                    Just("--b--".to_owned()),
                    Just(String::new()),
                    Just("> quoted".to_owned()),
                    ".{0,60}",
                ],
                0..40,
            )
        ) {
            if let Some(mail) = IncomingMail::parse(lines.join("\r\n").as_bytes()) {
                mail.message_text();
            }
        }
    }
}
