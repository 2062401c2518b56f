//! A MarkdownV2 parser with Telegram's own error messages, written from its published rules.
//!
//! It shares no code with any renderer. It accepts only texts in which every reserved character is escaped and
//! every entity is closed in the order it was opened.

use serde::Serialize;

/// A text and its entities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormattedText {
    pub text: String,
    pub entities: Vec<FakeTelegramEntity>,
}

/// A range of a text, in UTF-16 code units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FakeTelegramEntity {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub offset: usize,
    pub length: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

const RESERVED: &str = "_*[]()~`>#+-=|{}.!";

/// Parses a text, or returns Telegram's error message.
pub fn parse_markdown_v2(source: &str) -> Result<FormattedText, String> {
    let mut parser = Parser {
        source: source.chars().collect(),
        at: 0,
        length: 0,
        open: Vec::new(),
        read: FormattedText::default(),
    };
    while parser.at < parser.source.len() {
        parser.step()?;
    }
    parser.finish()
}

struct Parser {
    source: Vec<char>,
    at: usize,
    /// The length of the text so far.
    length: usize,
    open: Vec<OpenEntity>,
    read: FormattedText,
}

struct OpenEntity {
    kind: &'static str,
    begun_at: usize,
    offset: usize,
    language: Option<String>,
}

impl Parser {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.source.get(self.at + ahead).copied()
    }

    fn byte_offset(&self, at: usize) -> usize {
        self.source.iter().take(at).map(|c| c.len_utf8()).sum()
    }

    fn says(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(c) = self.peek(0) else { return Ok(()) };
        if c == '\\' && self.peek(1).is_some_and(|next| (1..=126).contains(&u32::from(next))) {
            self.at += 1;
            self.take_visible();
            return Ok(());
        }
        let inside = self.open.last().map_or("", |open| open.kind);
        if matches!(inside, "code" | "pre") {
            let end = if inside == "code" { "`" } else { "```" };
            if self.says(end) {
                self.at += end.len();
                self.close(None);
            } else if c == '`' {
                // Code within code: a backtick that should have been escaped.
                self.begin(c)?;
            } else {
                self.take_visible();
            }
            return Ok(());
        }
        match c {
            '\n' => self.line_end(),
            c if !RESERVED.contains(c) => self.take_visible(),
            _ if self.ends(inside) => self.end(inside)?,
            _ => self.begin(c)?,
        }
        Ok(())
    }

    /// Ends a quote after the last line that begins with its mark.
    fn line_end(&mut self) {
        let quoted = self.open.last().is_some_and(|open| open.kind == "blockquote");
        if quoted && self.peek(1) == Some('>') {
            self.take_visible();
            self.at += 1;
            return;
        }
        self.take_visible();
        if quoted {
            self.close(None);
        }
    }

    fn ends(&self, inside: &str) -> bool {
        match inside {
            "bold" => self.says("*"),
            "italic" => self.says("_") && !self.says("__"),
            "underline" => self.says("__"),
            "strikethrough" => self.says("~"),
            "spoiler" => self.says("||"),
            "text_link" | "custom_emoji" => self.says("]"),
            _ => false,
        }
    }

    fn end(&mut self, inside: &str) -> Result<(), String> {
        self.at += if matches!(inside, "underline" | "spoiler") { 2 } else { 1 };
        let url =
            if inside == "text_link" && self.peek(0) == Some('(') { Some(self.address()?) } else { None };
        self.close(url);
        Ok(())
    }

    fn address(&mut self) -> Result<String, String> {
        self.at += 1;
        let begun_at = self.byte_offset(self.at);
        let mut url = String::new();
        loop {
            match self.peek(0) {
                None => return Err(format!("Can't find end of a URL at byte offset {begun_at}")),
                Some(')') => break,
                Some('\\') if self.peek(1).is_some() => self.at += 1,
                Some(_) => {}
            }
            url.extend(self.peek(0));
            self.at += 1;
        }
        self.at += 1;
        Ok(url)
    }

    fn begin(&mut self, c: char) -> Result<(), String> {
        let at_line_start = self.at == 0 || self.source.get(self.at - 1) == Some(&'\n');
        let (kind, signs) = match c {
            '_' if self.says("__") => ("underline", 2),
            '_' => ("italic", 1),
            '*' => ("bold", 1),
            '~' => ("strikethrough", 1),
            '|' if self.says("||") => ("spoiler", 2),
            '[' => ("text_link", 1),
            '!' if self.says("![") => ("custom_emoji", 2),
            '`' if self.says("```") => ("pre", 3),
            '`' => ("code", 1),
            '>' if at_line_start && self.open.is_empty() => ("blockquote", 1),
            _ => return Err(reserved(c)),
        };
        let begun_at = self.byte_offset(self.at);
        self.at += signs;
        let language = (kind == "pre").then(|| self.language()).flatten();
        self.open.push(OpenEntity { kind, begun_at, offset: self.length, language });
        Ok(())
    }

    /// Reads the language after the mark of a code block and skips the line break, which is not part of the block.
    fn language(&mut self) -> Option<String> {
        let mut end = self.at;
        while self.source.get(end).is_some_and(|c| !c.is_whitespace() && *c != '`') {
            end += 1;
        }
        let named = end > self.at && self.source.get(end).is_some_and(|c| *c != '`');
        let language = named.then(|| self.source.get(self.at..end).unwrap_or_default().iter().collect());
        if named {
            self.at = end;
        }
        if self.peek(0) == Some('\n') {
            self.at += 1;
        }
        language
    }

    fn take_visible(&mut self) {
        if let Some(c) = self.peek(0) {
            self.read.text.push(c);
            self.length += c.len_utf16();
            self.at += 1;
        }
    }

    fn close(&mut self, url: Option<String>) {
        let Some(open) = self.open.pop() else { return };
        let length = self.length - open.offset;
        let needs_url = open.kind == "text_link" && url.is_none();
        // An entity without text, or a link without a URL, is dropped.
        if length > 0 && !needs_url {
            let OpenEntity { kind, offset, language, .. } = open;
            self.read.entities.push(FakeTelegramEntity { kind, offset, length, url, language });
        }
    }

    fn finish(mut self) -> Result<FormattedText, String> {
        if self.open.last().is_some_and(|open| open.kind == "blockquote") {
            self.close(None);
        }
        if let Some(open) = self.open.last() {
            return Err(format!("Can't find end of {} entity at byte offset {}", named(open), open.begun_at));
        }
        self.read.entities.sort_by_key(|entity| (entity.offset, usize::MAX - entity.length));
        Ok(self.read)
    }
}

/// Returns its name in error messages.
fn named(open: &OpenEntity) -> &'static str {
    match open.kind {
        "bold" => "Bold",
        "italic" => "Italic",
        "underline" => "Underline",
        "strikethrough" => "Strikethrough",
        "spoiler" => "Spoiler",
        "text_link" => "TextUrl",
        "custom_emoji" => "CustomEmoji",
        "code" => "Code",
        _ if open.language.is_some() => "PreCode",
        _ => "Pre",
    }
}

fn reserved(c: char) -> String {
    format!("Character '{c}' is reserved and must be escaped with the preceding '\\'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_documentation_shows_is_accepted() {
        let source = "*bold \\*text*\n_italic \\*text_\n__underline__\n~strikethrough~\n||spoiler||\n\
                      *bold _italic bold ~italic bold strikethrough ||italic bold strikethrough spoiler||~ \
                      __underline italic bold___ bold*\n[inline URL](http://www.example.com/)\n`inline fixed-width code`\n\
                      ```\npre-formatted fixed-width code block\n```\n```python\npre-formatted\n```\n>quotation\n>goes on\nend";
        let read = parse_markdown_v2(source).unwrap();
        assert!(read.text.contains("bold *text\nitalic *text\nunderline\n"), "{}", read.text);
        let kinds: Vec<&str> = read.entities.iter().map(|entity| entity.kind).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "bold").count(), 2, "{kinds:?}");
        assert!(read.entities.iter().any(|entity| entity.language.as_deref() == Some("python")));
        assert!(read.text.ends_with("quotation\ngoes on\nend"));
    }

    #[test]
    fn what_it_complains_about() {
        for (source, complaint) in [
            ("a.b", "Character '.' is reserved and must be escaped with the preceding '\\'"),
            ("a > b", "Character '>' is reserved and must be escaped with the preceding '\\'"),
            ("a|b", "Character '|' is reserved and must be escaped with the preceding '\\'"),
            ("*bold", "Can't find end of Bold entity at byte offset 0"),
            ("`x", "Can't find end of Code entity at byte offset 0"),
            ("[x](http", "Can't find end of a URL at byte offset 4"),
            // The star inside italics opens another bold, which the last underscore finds open.
            ("*a _b* c_", "Can't find end of Italic entity at byte offset 8"),
        ] {
            let said = parse_markdown_v2(source).unwrap_err();
            assert_eq!(said, complaint, "{source}");
        }
    }

    #[test]
    fn offsets_count_as_utf16_does() {
        let read = parse_markdown_v2("𝄞 *x*").unwrap();
        assert_eq!((read.entities.len(), read.entities.first().map(|entity| entity.offset)), (1, Some(3)));
    }
}
