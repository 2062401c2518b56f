//! Telegram's MarkdownV2.
//!
//! Its limit of 4,096 counts the text after the marks have been parsed, so escapes do not count.

use super::block::{MarkdownBlock, read};
use super::span::{MarkdownSpan, SpanStyle};

pub fn telegram(markdown: &str) -> String {
    let mut page = TelegramRenderer::default();
    for (at, block) in read(markdown).iter().enumerate() {
        if at > 0 {
            page.out.push('\n');
        }
        page.block(block);
    }
    page.out
}

#[derive(Default)]
struct TelegramRenderer {
    out: String,
    /// The position where the last italic mark ended.
    after_italic: Option<usize>,
}

impl TelegramRenderer {
    fn block(&mut self, block: &MarkdownBlock) {
        match block {
            MarkdownBlock::Line(spans) => self.spans(spans),
            MarkdownBlock::Quote(spans) => {
                self.out.push('>');
                match spans.split_first() {
                    Some((MarkdownSpan::Text(first), rest)) => {
                        self.escaped(first.trim_start(), RESERVED);
                        self.spans(rest);
                    }
                    _ => self.spans(spans),
                }
            }
            MarkdownBlock::Code { language, text } => self.code(language, text, "\n```"),
            // The source had no fence: the text must not grow by a line break.
            MarkdownBlock::Table(text) => self.code("", text, "```"),
        }
    }

    fn code(&mut self, language: &str, text: &str, end: &str) {
        self.out.push_str("```");
        self.out.push_str(language);
        self.out.push('\n');
        self.escaped(text, CODE);
        self.out.push_str(end);
    }

    fn spans(&mut self, spans: &[MarkdownSpan]) {
        for span in spans {
            match span {
                MarkdownSpan::Text(text) => self.escaped(text, RESERVED),
                MarkdownSpan::Code(text) => {
                    self.out.push('`');
                    self.escaped(text, CODE);
                    self.out.push('`');
                }
                MarkdownSpan::Styled(style, inner) => {
                    self.mark(*style);
                    self.spans(inner);
                    self.mark(*style);
                }
                MarkdownSpan::Link { label, url } => {
                    self.out.push('[');
                    self.spans(label);
                    self.out.push_str("](");
                    self.escaped(url, ADDRESS);
                    self.out.push(')');
                }
            }
        }
    }

    fn mark(&mut self, style: SpanStyle) {
        match style {
            SpanStyle::Bold => self.out.push('*'),
            SpanStyle::Strike => self.out.push('~'),
            SpanStyle::Spoiler => self.out.push_str("||"),
            SpanStyle::Italic => {
                // Two underscores would be parsed as another mark; an empty bold separates them.
                if self.after_italic == Some(self.out.len()) {
                    self.out.push_str("**");
                }
                self.out.push('_');
                self.after_italic = Some(self.out.len());
            }
        }
    }

    fn escaped(&mut self, text: &str, reserved: &str) {
        for c in text.chars() {
            if reserved.contains(c) {
                self.out.push('\\');
            }
            self.out.push(c);
        }
    }
}

const RESERVED: &str = "_*[]()~`>#+-=|{}.!\\";
const CODE: &str = "`\\";
const ADDRESS: &str = ")\\";
