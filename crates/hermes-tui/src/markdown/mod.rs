//! Markdown as it streams in: what cannot change any more is handed out once, the rest is rendered anew.
//!
//! Invariant: the rows handed out and the rows of the rest together are the whole text, whatever the pieces it came in.

mod highlight;
mod render;
mod table;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use self::highlight::CodeHighlighter;
use self::render::{code_rows, options, render};
use crate::glyphs::{StyledLine, clean, styled, wrap_words};
use crate::theme::Theme;

/// What the last part handed out was, which decides about the empty row before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastPiece {
    #[default]
    None,
    Block,
    Item {
        /// The number after this item's, in an ordered list.
        next: Option<u64>,
    },
}

/// A code block whose end has not arrived.
#[derive(Debug, Clone)]
struct OpenCode {
    sign: char,
    count: usize,
    highlighter: CodeHighlighter,
}

impl OpenCode {
    fn opening(line: &str) -> Option<Self> {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let line = line.trim();
        let sign = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(sign);
        let count = line.len() - info.len();
        let is_fence = count >= 3 && indent < 4 && !(sign == '`' && info.contains('`'));
        let language = info.trim().split([' ', ',']).next().unwrap_or_default();
        is_fence.then(|| Self { sign, count, highlighter: CodeHighlighter::new(language) })
    }

    fn closes(&self, line: &str) -> bool {
        let rest = line.trim().trim_start_matches(self.sign);
        rest.is_empty() && line.trim().len() >= self.count
    }
}

/// A part of the text that is rendered by itself.
struct MarkdownPiece {
    end: usize,
    kind: LastPiece,
    is_code: bool,
    /// A blank line after it ends it for good.
    ends_at_blank: bool,
}

/// How a piece of text relates to what was handed out before a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamStep {
    Continues,
    /// The new attempt says something else; the rows handed out belong to the old one.
    Differs,
}

/// An answer that arrives in pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct MarkdownStream {
    /// What was handed out, as it arrived.
    shown: String,
    /// What arrived and is not handed out.
    pending: String,
    /// What arrived of a second attempt, as long as it repeats what was handed out.
    repeated: Option<String>,
    open: Option<OpenCode>,
    last: LastPiece,
    /// True when the text is shown as it is.
    is_raw: bool,
}

impl MarkdownStream {
    /// Decides whether further text is shown as it is.
    pub(crate) fn set_raw(&mut self, is_raw: bool) {
        self.is_raw = is_raw;
    }

    pub(crate) fn push(&mut self, text: &str) -> StreamStep {
        // An answer does not begin with empty lines.
        let is_first = self.repeated.as_ref().map_or_else(|| self.is_untouched(), String::is_empty);
        let text = if is_first { text.trim_start_matches(['\n', '\r']) } else { text };
        let Some(repeated) = &mut self.repeated else {
            self.pending.push_str(text);
            return StreamStep::Continues;
        };
        repeated.push_str(text);
        if let Some(new) = repeated.strip_prefix(&self.shown) {
            self.pending = new.to_owned();
            self.repeated = None;
        } else if !self.shown.starts_with(repeated.as_str()) {
            let pending = std::mem::take(repeated);
            *self = Self { pending, is_raw: self.is_raw, ..Self::default() };
            return StreamStep::Differs;
        }
        StreamStep::Continues
    }

    /// Discards the answer so far, because another attempt follows. What was handed out cannot be taken back: as far as the new
    /// attempt repeats it, it is not handed out again.
    pub(crate) fn restart(&mut self) {
        self.pending.clear();
        if !self.shown.is_empty() {
            self.repeated = Some(String::new());
        }
    }

    /// Returns the whole text so far.
    pub(crate) fn source(&self) -> String {
        format!("{}{}", self.shown, self.pending)
    }

    /// Tells whether nothing has arrived.
    pub(crate) fn is_untouched(&self) -> bool {
        self.pending.is_empty() && self.last == LastPiece::None && self.open.is_none()
    }

    /// Hands out the rows that cannot change any more.
    pub(crate) fn take_finished(&mut self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        let mut rows = Vec::new();
        if self.is_raw {
            let complete = self.pending.rfind('\n').map_or(0, |at| at + 1);
            let text: String = self.pending.drain(..complete).collect();
            if !text.is_empty() {
                rows = raw_rows(&text, width, theme);
                self.shown.push_str(&text);
                self.last = LastPiece::Block;
            }
            return rows;
        }
        while self.step(width, theme, &mut rows) {}
        rows
    }

    /// Hands out everything that is left and begins anew.
    pub(crate) fn finish(&mut self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        let mut rows = self.take_finished(width, theme);
        rows.extend(self.rest(width, theme));
        *self = Self { is_raw: self.is_raw, ..Self::default() };
        rows
    }

    /// Renders what is not handed out.
    pub(crate) fn rest(&self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        if self.is_raw {
            return raw_rows(&self.pending, width, theme);
        }
        if let Some(open) = &self.open {
            let mut highlighter = open.highlighter.clone();
            let lines = self.pending.lines().filter(|line| !open.closes(line));
            return lines.flat_map(|line| code_rows(highlighter.line(line, theme), width)).collect();
        }
        if self.pending.trim().is_empty() {
            return Vec::new();
        }
        let first = pieces(&self.pending).into_iter().next().map_or(LastPiece::Block, |piece| piece.kind);
        let (gap, ordinal) = self.before(first);
        let mut rows = if gap { vec![StyledLine::default()] } else { Vec::new() };
        rows.extend(render(&self.pending, width, theme, ordinal));
        rows
    }

    /// Tells whether an empty row precedes a piece, and the number of its first item.
    fn before(&self, kind: LastPiece) -> (bool, Option<u64>) {
        match (self.last, kind) {
            (LastPiece::None, _) => (false, None),
            (LastPiece::Item { next }, LastPiece::Item { next: of_next })
                if next.is_some() == of_next.is_some() =>
            {
                (false, next)
            }
            _ => (true, None),
        }
    }

    /// Hands out one more piece, if there is one that cannot change.
    fn step(&mut self, width: usize, theme: &Theme, rows: &mut Vec<StyledLine>) -> bool {
        if let Some(open) = &mut self.open {
            let Some(end) = self.pending.find('\n') else { return false };
            let line: String = self.pending.drain(..=end).collect();
            self.shown.push_str(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if open.closes(line) {
                self.open = None;
            } else {
                rows.extend(code_rows(open.highlighter.line(line, theme), width));
            }
            return true;
        }
        // An unfinished line may still turn into something else.
        let complete = self.pending.rfind('\n').map_or(0, |at| at + 1);
        let text = self.pending.get(..complete).unwrap_or_default();
        let found = pieces(text);
        let Some(first) = found.first() else { return false };
        if first.is_code {
            return self.open_code(rows);
        }
        let is_last = found.len() == 1;
        let ends_blank = text.ends_with("\n\n") || text.ends_with("\r\n\r\n");
        if is_last && !(first.ends_at_blank && ends_blank) {
            return false;
        }
        let (kind, end) = (first.kind, first.end);
        let (gap, ordinal) = self.before(kind);
        if gap {
            rows.push(StyledLine::default());
        }
        let source: String = self.pending.drain(..end).collect();
        self.shown.push_str(&source);
        rows.extend(render(&source, width, theme, ordinal));
        self.last = match (kind, ordinal) {
            (LastPiece::Item { next: Some(_) }, Some(ordinal)) => LastPiece::Item { next: Some(ordinal + 1) },
            (kind, _) => kind,
        };
        true
    }

    fn open_code(&mut self, rows: &mut Vec<StyledLine>) -> bool {
        let blank = self.pending.len() - self.pending.trim_start().len();
        let line_start = self.pending.get(..blank).and_then(|blank| blank.rfind('\n')).map_or(0, |at| at + 1);
        let Some(end) = self.pending.get(line_start..).and_then(|line| line.find('\n')) else { return false };
        let opening: String = self.pending.drain(..=line_start + end).collect();
        self.shown.push_str(&opening);
        let line = opening.get(line_start..).unwrap_or_default();
        if self.before(LastPiece::Block).0 {
            rows.push(StyledLine::default());
        }
        self.open = OpenCode::opening(line);
        self.last = LastPiece::Block;
        true
    }
}

fn raw_rows(text: &str, width: usize, theme: &Theme) -> Vec<StyledLine> {
    clean(text).lines().flat_map(|line| wrap_words(&styled(line, theme.text), width)).collect()
}

/// Returns the blocks of a text; of a list, its items.
fn pieces(text: &str) -> Vec<MarkdownPiece> {
    let mut found: Vec<MarkdownPiece> = Vec::new();
    let mut depth = 0_usize;
    let mut number = None;
    let add = |found: &mut Vec<MarkdownPiece>, end, kind, is_code, ends_at_blank| {
        found.push(MarkdownPiece { end, kind, is_code, ends_at_blank });
    };
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(Tag::List(first)) if depth == 0 => {
                number = first;
                depth += 1;
            }
            Event::Start(tag) => {
                if depth == 0 {
                    let source = text.get(range.clone()).unwrap_or_default();
                    let is_code = matches!(tag, Tag::CodeBlock(_))
                        && source.lines().next().is_some_and(|line| OpenCode::opening(line).is_some());
                    let ends = matches!(tag, Tag::Paragraph | Tag::Heading { .. } | Tag::Table(_));
                    add(&mut found, range.end, LastPiece::Block, is_code, ends);
                } else if depth == 1 && tag == Tag::Item {
                    number = number.map(|number| number + 1);
                    add(&mut found, range.end, LastPiece::Item { next: number }, false, false);
                }
                depth += 1;
            }
            Event::End(TagEnd::List(_)) if depth == 1 => depth = 0,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => add(&mut found, range.end, LastPiece::Block, false, true),
            _ => {}
        }
    }
    found
}
