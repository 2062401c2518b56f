//! Writes a mail: head, a plain and a marked-up form of the text, files. Pure.
//!
//! Invariants: lines are plain ASCII and short, apart from ids and addresses as others wrote them; nothing that comes in through a subject, a name or a text
//! can begin a field or a part of its own.

use std::fmt::Write as _;

use data_encoding::BASE64;
use hermes_text::dialect;

/// A mail to send.
#[derive(Debug, Clone, Default)]
pub(super) struct Letter<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) subject: &'a str,
    /// Its id, without brackets.
    pub(super) id: &'a str,
    pub(super) date: String,
    /// The ids before it, the oldest first.
    pub(super) references: &'a [String],
    /// The text, in Markdown.
    pub(super) text: &'a str,
    pub(super) files: Vec<LetterFile>,
}

#[derive(Debug, Clone)]
pub(super) struct LetterFile {
    pub(super) name: String,
    pub(super) mime: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// The longest line of a body, and of an encoded word.
const LINE: usize = 76;
const ENCODED_WORD: usize = 36;

impl Letter<'_> {
    /// Returns the mail with line ends as they are sent. `boundary` must not be guessable.
    pub(super) fn write(&self, boundary: &str) -> Vec<u8> {
        let mut out = self.head();
        let (outer, inner) = (format!("=_m{boundary}"), format!("=_a{boundary}"));
        if self.files.is_empty() {
            self.write_text(&mut out, &inner);
            return out.into_bytes();
        }
        field(&mut out, "Content-Type", &format!("multipart/mixed; boundary=\"{outer}\""));
        out.push_str("\r\n");
        if !self.text.trim().is_empty() {
            let _ = write!(out, "--{outer}\r\n");
            self.write_text(&mut out, &inner);
        }
        for file in &self.files {
            let _ = write!(out, "--{outer}\r\n");
            field(&mut out, "Content-Type", file.mime);
            field(&mut out, "Content-Disposition", &format!("attachment;{}", name_parameter(&file.name)));
            field(&mut out, "Content-Transfer-Encoding", "base64");
            out.push_str("\r\n");
            push_base64(&mut out, &file.bytes);
        }
        let _ = write!(out, "--{outer}--\r\n");
        out.into_bytes()
    }

    fn head(&self) -> String {
        let mut out = String::new();
        field(&mut out, "Date", &self.date);
        field(&mut out, "From", &format!("<{}>", self.from));
        field(&mut out, "To", &format!("<{}>", self.to));
        field(&mut out, "Subject", &encoded(self.subject));
        field(&mut out, "Message-ID", &format!("<{}>", self.id));
        if let Some(answered) = self.references.last() {
            field(&mut out, "In-Reply-To", &format!("<{answered}>"));
            let ids: Vec<String> = self.references.iter().map(|id| format!("<{id}>")).collect();
            field(&mut out, "References", &ids.join("\r\n "));
        }
        // Machines must not answer a machine.
        field(&mut out, "Auto-Submitted", "auto-replied");
        field(&mut out, "MIME-Version", "1.0");
        out
    }

    /// Writes the head and the body of the text in its two forms.
    fn write_text(&self, out: &mut String, boundary: &str) {
        field(out, "Content-Type", &format!("multipart/alternative; boundary=\"{boundary}\""));
        out.push_str("\r\n");
        let forms = [("plain", dialect::plain(self.text)), ("html", dialect::html(self.text))];
        for (kind, text) in forms {
            let _ = write!(out, "--{boundary}\r\n");
            field(out, "Content-Type", &format!("text/{kind}; charset=utf-8"));
            field(out, "Content-Transfer-Encoding", "quoted-printable");
            out.push_str("\r\n");
            push_quoted(out, &text);
        }
        let _ = write!(out, "--{boundary}--\r\n");
    }
}

fn field(out: &mut String, name: &str, value: &str) {
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{name}: {value}\r\n");
}

/// Returns a text for a field: as it is, or as encoded words.
fn encoded(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_ascii() && text.len() <= 60 && !text.contains("=?") {
        return text;
    }
    let mut words: Vec<String> = Vec::new();
    let mut piece = String::new();
    for c in text.chars() {
        if piece.len() + c.len_utf8() > ENCODED_WORD {
            words.push(std::mem::take(&mut piece));
        }
        piece.push(c);
    }
    words.push(piece);
    let word = |piece: String| format!("=?utf-8?B?{}?=", BASE64.encode(piece.as_bytes()));
    words.into_iter().map(word).collect::<Vec<_>>().join("\r\n ")
}

/// Returns the parameter with the name of a file: for old programs in ASCII, for others as it is.
fn name_parameter(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(120).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._-+()[]".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if plain == name && plain.len() <= 60 {
        return format!("\r\n filename=\"{plain}\"");
    }
    let mut pieces: Vec<String> = vec![String::new()];
    for byte in name.bytes() {
        let one = if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        };
        if pieces.last().is_some_and(|piece| piece.len() + one.len() > 50) {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(&one);
        }
    }
    let start = |at: usize| if at == 0 { "UTF-8''" } else { "" };
    let parameter = |(at, piece): (usize, String)| format!("\r\n filename*{at}*={}{piece}", start(at));
    pieces.into_iter().enumerate().map(parameter).collect::<Vec<_>>().join(";")
}

fn push_base64(out: &mut String, bytes: &[u8]) {
    for line in bytes.chunks(LINE / 4 * 3) {
        out.push_str(&BASE64.encode(line));
        out.push_str("\r\n");
    }
}

/// Writes a text as quoted-printable, with a line end at its end.
fn push_quoted(out: &mut String, text: &str) {
    for line in text.lines() {
        let mut length = 0;
        let bytes = line.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            let is_last = at + 1 == bytes.len();
            let is_plain = (33..=126).contains(byte) && *byte != b'=';
            let is_inner_blank = matches!(byte, b' ' | b'\t') && !is_last;
            // A dot at the start of a line, and "From", are changed by some servers on the way.
            let is_changed = length == 0 && matches!(byte, b'.' | b'F');
            let width = if (is_plain || is_inner_blank) && !is_changed { 1 } else { 3 };
            if length + width >= LINE {
                out.push_str("=\r\n");
                length = 0;
            }
            if width == 1 {
                out.push(char::from(*byte));
            } else {
                let _ = write!(out, "={byte:02X}");
            }
            length += width;
        }
        out.push_str("\r\n");
    }
}

/// Returns the subject of an answer.
pub(super) fn reply_subject(subject: &str) -> String {
    let subject = subject.trim();
    match subject.get(..3) {
        _ if subject.is_empty() => super::SUBJECT.to_owned(),
        Some(start) if start.eq_ignore_ascii_case("re:") => subject.to_owned(),
        _ => format!("Re: {subject}"),
    }
}

#[cfg(test)]
mod tests {
    use mail_parser::{MessageParser, MimeHeaders as _};
    use proptest::prelude::*;

    use super::*;

    fn letter<'a>(subject: &'a str, text: &'a str, references: &'a [String]) -> Letter<'a> {
        Letter {
            from: "bot@example.org",
            to: "ann@example.org",
            subject,
            id: "hermes-1@example.org",
            date: "Tue, 4 Nov 2025 10:00:00 +0000".to_owned(),
            references,
            text,
            files: Vec::new(),
        }
    }

    #[test]
    fn both_forms_and_files_are_read_by_others() {
        let references = ["a@x".to_owned(), "b@x".to_owned()];
        let text = format!("**Grüße**, {}\n.\nFrom here = there ", "wort ".repeat(40));
        let mut letter =
            letter("Über größe Dinge, die einen langen Betreff haben und noch länger", &text, &references);
        letter.files = vec![LetterFile {
            name: "größe \"1\".pdf".to_owned(),
            mime: "application/pdf",
            bytes: vec![7; 200],
        }];
        let raw = letter.write("b1");
        assert!(raw.split(|byte| *byte == b'\n').all(|line| line.len() <= 79 && line.is_ascii()));
        let read = MessageParser::default().parse(&raw).unwrap();
        assert_eq!(read.subject(), Some(letter.subject));
        assert_eq!(read.message_id(), Some("hermes-1@example.org"));
        assert_eq!(read.in_reply_to().as_text(), Some("b@x"));
        assert_eq!(read.references().as_text_list().unwrap().len(), 2);
        let plain = read.body_text(0).unwrap();
        assert!(plain.starts_with("Grüße, wort") && plain.contains("\r\n.\r\nFrom here = there"), "{plain}");
        assert!(read.body_html(0).unwrap().contains("<b>Grüße</b>"));
        let file = read.attachment(0).unwrap();
        assert_eq!((file.attachment_name(), file.contents()), (Some("größe \"1\".pdf"), &[7; 200][..]));
    }

    #[test]
    fn a_subject_cannot_begin_another_field() {
        let raw = letter("x\r\nBcc: evil@example.org", "hi", &[]).write("b");
        let read = MessageParser::default().parse(&raw).unwrap();
        assert!(read.bcc().is_none());
        assert_eq!(read.subject(), Some("x  Bcc: evil@example.org"));
    }

    #[test]
    fn subjects_of_answers() {
        assert_eq!(reply_subject("Lunch"), "Re: Lunch");
        assert_eq!(reply_subject("RE: Lunch"), "RE: Lunch");
        assert_eq!(reply_subject(" "), "Hermes Agent");
        assert_eq!(reply_subject("ü"), "Re: ü");
    }

    proptest! {
        #[test]
        fn every_text_arrives(text in "[ -~äß€𝄞\n]{0,300}", subject in "[ -~ä€]{1,100}") {
            let raw = letter(&subject, &text, &[]).write("b");
            let read = MessageParser::default().parse(&raw).unwrap();
            let wanted: Vec<String> = dialect::plain(&text).lines().map(str::to_owned).collect();
            let got = read.body_text(0).unwrap().replace("\r\n", "\n");
            let got: Vec<String> = got.lines().map(str::to_owned).collect();
            let (got, wanted) = (got.join("\n"), wanted.join("\n"));
            prop_assert_eq!(got.trim_end(), wanted.trim_end());
        }
    }
}
