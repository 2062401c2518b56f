//! Signal's texts: without marks, with styles beside them as ranges of UTF-16 units.

use super::block::{MarkdownBlock, read};
use super::span::{MarkdownSpan, SpanStyle, plain_text};

/// A text and its styles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StyledText {
    pub text: String,
    pub styles: Vec<StyledRange>,
}

/// A range of a text, in UTF-16 units, and its style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StyledRange {
    pub start: usize,
    pub length: usize,
    /// `BOLD`, `ITALIC`, `STRIKETHROUGH`, `SPOILER` or `MONOSPACE`.
    pub style: &'static str,
}

pub fn signal(markdown: &str) -> StyledText {
    let mut writer = StyledWriter::default();
    for (at, block) in read(markdown).into_iter().enumerate() {
        if at > 0 {
            writer.push("\n");
        }
        match block {
            MarkdownBlock::Line(spans) => writer.line(&spans),
            MarkdownBlock::Quote(spans) => {
                writer.push(">");
                writer.spans(&spans);
            }
            MarkdownBlock::Code { text, .. } | MarkdownBlock::Table(text) => {
                writer.styled("MONOSPACE", |writer| writer.push(&text));
            }
        }
    }
    writer.done
}

#[derive(Debug, Default)]
struct StyledWriter {
    done: StyledText,
    /// The units written so far.
    length: usize,
}

impl StyledWriter {
    fn push(&mut self, text: &str) {
        self.done.text.push_str(text);
        self.length += text.encode_utf16().count();
    }

    fn styled(&mut self, style: &'static str, write: impl FnOnce(&mut Self)) {
        let (start, at) = (self.length, self.done.styles.len());
        write(self);
        let length = self.length - start;
        if length > 0 {
            self.done.styles.insert(at, StyledRange { start, length, style });
        }
    }

    /// Writes a line; the sign of a list becomes a bullet.
    fn line(&mut self, spans: &[MarkdownSpan]) {
        let Some((MarkdownSpan::Text(first), rest)) = spans.split_first() else { return self.spans(spans) };
        let indent = first.len() - first.trim_start().len();
        let (blanks, words) = first.split_at(indent);
        match words.strip_prefix("- ").or_else(|| words.strip_prefix("* ")) {
            Some(words) => {
                self.push(blanks);
                self.push("• ");
                self.push(words);
            }
            None => self.push(first),
        }
        self.spans(rest);
    }

    fn spans(&mut self, spans: &[MarkdownSpan]) {
        for span in spans {
            match span {
                MarkdownSpan::Text(text) => self.push(text),
                MarkdownSpan::Code(text) => self.styled("MONOSPACE", |writer| writer.push(text)),
                MarkdownSpan::Styled(style, inner) => {
                    self.styled(style_name(*style), |writer| writer.spans(inner));
                }
                MarkdownSpan::Link { label, url } if plain_text(label) == *url => self.push(url),
                MarkdownSpan::Link { label, url } => {
                    self.spans(label);
                    self.push(" (");
                    self.push(url);
                    self.push(")");
                }
            }
        }
    }
}

fn style_name(style: SpanStyle) -> &'static str {
    match style {
        SpanStyle::Bold => "BOLD",
        SpanStyle::Italic => "ITALIC",
        SpanStyle::Strike => "STRIKETHROUGH",
        SpanStyle::Spoiler => "SPOILER",
    }
}
