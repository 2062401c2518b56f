//! Styled text in columns: cleaning, measuring, cutting and wrapping.
//!
//! Holds no state. Invariants: text that passed `clean` has no character a terminal acts on; a grapheme is never split; a row
//! returned by `wrap` is not wider than asked, unless a single grapheme is.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// A line whose text it owns.
pub type StyledLine = Line<'static>;

const TAB_COLUMNS: usize = 4;

/// Returns the text without anything a terminal would act on; tabs become spaces. Line breaks stay.
pub(crate) fn clean(text: &str) -> String {
    let shown = hermes_text::escape_terminal(text);
    if !shown.contains(['\t', '\u{2028}', '\u{2029}']) {
        return shown.into_owned();
    }
    shown.replace('\t', &" ".repeat(TAB_COLUMNS)).replace(['\u{2028}', '\u{2029}'], " ")
}

/// Returns the text on one line, cleaned.
pub(crate) fn clean_line(text: &str) -> String {
    clean(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the columns a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

pub(crate) fn line_columns(line: &StyledLine) -> usize {
    line.spans.iter().map(|span| columns(&span.content)).sum()
}

pub(crate) fn styled(text: impl Into<String>, style: Style) -> StyledLine {
    Line::from(Span::styled(text.into(), style))
}

/// A grapheme with its style.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Glyph {
    pub(crate) symbol: String,
    pub(crate) style: Style,
    pub(crate) columns: usize,
}

impl Glyph {
    /// Tells whether terminals disagree about the columns it takes, as with joined emoji.
    pub(crate) fn is_disputed(&self) -> bool {
        self.columns > 1 && self.symbol.chars().count() > 1
    }

    fn is_space(&self) -> bool {
        self.symbol == " "
    }
}

/// Splits a line into graphemes. What takes no column by itself joins the grapheme before it.
pub(crate) fn glyphs(line: &StyledLine) -> Vec<Glyph> {
    let mut found: Vec<Glyph> = Vec::new();
    for span in &line.spans {
        let style = line.style.patch(span.style);
        for symbol in span.content.graphemes(true) {
            let columns = columns(symbol);
            match found.last_mut() {
                Some(last) if columns == 0 => last.symbol.push_str(symbol),
                None if columns == 0 => {}
                _ => found.push(Glyph { symbol: symbol.to_owned(), style, columns }),
            }
        }
    }
    found
}

fn from_glyphs(glyphs: &[Glyph]) -> StyledLine {
    let mut spans: Vec<Span<'static>> = Vec::new();
    for glyph in glyphs {
        match spans.last_mut() {
            Some(last) if last.style == glyph.style => last.content.to_mut().push_str(&glyph.symbol),
            _ => spans.push(Span::styled(glyph.symbol.clone(), glyph.style)),
        }
    }
    Line::from(spans)
}

/// Cuts a line to a width; a cut line ends with `…`.
pub(crate) fn cut(line: &StyledLine, width: usize) -> StyledLine {
    if line_columns(line) <= width {
        return line.clone();
    }
    let mut kept = Vec::new();
    let mut used = 0;
    for glyph in glyphs(line) {
        if used + glyph.columns + 1 > width {
            if width > 0 {
                kept.push(Glyph { symbol: "…".to_owned(), style: glyph.style, columns: 1 });
            }
            break;
        }
        used += glyph.columns;
        kept.push(glyph);
    }
    from_glyphs(&kept)
}

/// Cuts a text to a width at its end.
pub(crate) fn cut_text(text: &str, width: usize) -> String {
    plain_text(&cut(&styled(text, Style::new()), width))
}

/// Cuts a text to a width at its beginning, for paths, whose end says more.
pub(crate) fn cut_text_front(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = Vec::new();
    let mut used = 1;
    for symbol in text.graphemes(true).rev() {
        used += columns(symbol);
        if used > width {
            break;
        }
        kept.push(symbol);
    }
    kept.push("…");
    kept.reverse();
    kept.concat()
}

pub(crate) fn plain_text(line: &StyledLine) -> String {
    line.spans.iter().map(|span| span.content.as_ref()).collect()
}

/// Where a line that is too long is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    /// Between words, and inside a word only when it fills a row by itself.
    Words,
    /// Anywhere, for code.
    Anywhere,
}

/// Breaks a line into rows of at most `width` columns. The first row begins with `first`, the others with `rest`.
pub(crate) fn wrap(
    line: &StyledLine,
    width: usize,
    breaks: Breaks,
    first: &[Span<'static>],
    rest: &[Span<'static>],
) -> Vec<StyledLine> {
    let width = width.max(1);
    let prefix = |spans: &[Span<'static>]| spans.iter().map(|span| columns(&span.content)).sum::<usize>();
    // A prefix that leaves no room for words is left out.
    let (first, rest) =
        if prefix(first).max(prefix(rest)) + 4 > width { (&[][..], &[][..]) } else { (first, rest) };
    let mut rows: Vec<Vec<Glyph>> = Vec::new();
    let mut row: Vec<Glyph> = Vec::new();
    let mut used = 0;
    let mut break_at = 0;
    for glyph in glyphs(line) {
        let room = width - prefix(if rows.is_empty() { first } else { rest });
        if used + glyph.columns > room && !row.is_empty() {
            if breaks == Breaks::Words && glyph.is_space() {
                rows.push(std::mem::take(&mut row));
                (used, break_at) = (0, 0);
                continue;
            }
            let tail = match breaks {
                Breaks::Words if break_at > 0 => row.split_off(break_at),
                _ => Vec::new(),
            };
            rows.push(std::mem::replace(&mut row, tail));
            used = row.iter().map(|glyph| glyph.columns).sum();
            break_at = 0;
        }
        let (is_break, is_wide) = (glyph.is_space(), glyph.columns > 1);
        if is_wide {
            break_at = row.len();
        }
        used += glyph.columns;
        row.push(glyph);
        if is_break || is_wide {
            break_at = row.len();
        }
    }
    if !row.is_empty() || rows.is_empty() {
        rows.push(row);
    }
    let last = rows.len() - 1;
    rows.iter_mut()
        .enumerate()
        .map(|(at, row)| {
            while breaks == Breaks::Words && at < last && row.last().is_some_and(Glyph::is_space) {
                row.pop();
            }
            let mut line = from_glyphs(row);
            let before = if at == 0 { first } else { rest };
            line.spans.splice(0..0, before.iter().cloned());
            line
        })
        .collect()
}

/// Breaks a line into rows without prefixes.
pub(crate) fn wrap_words(line: &StyledLine, width: usize) -> Vec<StyledLine> {
    wrap(line, width, Breaks::Words, &[], &[])
}

/// Appends spaces up to a width.
pub(crate) fn pad(mut line: StyledLine, width: usize, style: Style) -> StyledLine {
    let missing = width.saturating_sub(line_columns(&line));
    if missing > 0 {
        line.spans.push(Span::styled(" ".repeat(missing), style));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        wrap_words(&styled(text, Style::new()), width).iter().map(plain_text).collect()
    }

    #[test]
    fn lines_break_between_words_and_never_inside_a_grapheme() {
        for (text, width, expected) in [
            ("one two three", 8, vec!["one two", "three"]),
            ("abcdefghij", 4, vec!["abcd", "efgh", "ij"]),
            ("日本語です", 4, vec!["日本", "語で", "す"]),
            ("a 👩‍👩‍👧 b", 3, vec!["a", "👩‍👩‍👧", "b"]),
            ("e\u{301}e\u{301}e\u{301}", 2, vec!["e\u{301}e\u{301}", "e\u{301}"]),
            ("", 5, vec![""]),
            ("exact fit", 9, vec!["exact fit"]),
        ] {
            assert_eq!(rows(text, width), expected, "{text:?} at {width}");
        }
    }

    #[test]
    fn cut_text_shows_that_it_was_cut() {
        assert_eq!(cut_text("abcdef", 4), "abc…");
        assert_eq!(cut_text("abc", 4), "abc");
        assert_eq!(cut_text_front("/very/long/path.rs", 8), "…path.rs");
        assert_eq!(cut_text("日本語", 4), "日…");
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_remains() {
        assert_eq!(clean("a\tb\u{1b}[2J\u{7}"), "a    b\\u{1b}[2J\\u{7}");
    }
}
