//! Marks within one line: emphasis, code, links.
//!
//! A mark that is not closed on its line, or that is inside a word (`snake_case`, `2*3*4`), is a plain character.

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MarkdownSpan {
    Text(String),
    Code(String),
    Styled(SpanStyle, Vec<MarkdownSpan>),
    /// A link or an image; the label is never empty and contains no link.
    Link {
        label: Vec<MarkdownSpan>,
        url: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanStyle {
    Bold,
    Italic,
    Strike,
    Spoiler,
}

/// Parses one line.
pub(super) fn read_spans(line: &str) -> Vec<MarkdownSpan> {
    Reader { chars: line.chars().collect(), open: OpenMarkers::default() }.read()
}

/// Returns the words of spans, without any marks.
pub(super) fn plain_text(spans: &[MarkdownSpan]) -> String {
    spans
        .iter()
        .map(|span| match span {
            MarkdownSpan::Text(text) | MarkdownSpan::Code(text) => text.clone(),
            MarkdownSpan::Styled(_, inner) | MarkdownSpan::Link { label: inner, .. } => plain_text(inner),
        })
        .collect()
}

/// The marks that are open around a part; no mark opens twice.
#[derive(Debug, Clone, Default)]
struct OpenMarkers {
    styles: Vec<SpanStyle>,
    link: bool,
}

struct Reader {
    chars: Vec<char>,
    open: OpenMarkers,
}

/// A pair of marks and its meaning.
struct MarkerPair {
    sign: char,
    count: usize,
    styles: &'static [SpanStyle],
}

/// The marks, longer ones first: `**` is not two `*`.
const MARKS: [MarkerPair; 7] = [
    MarkerPair { sign: '*', count: 3, styles: &[SpanStyle::Bold, SpanStyle::Italic] },
    MarkerPair { sign: '_', count: 3, styles: &[SpanStyle::Bold, SpanStyle::Italic] },
    MarkerPair { sign: '*', count: 2, styles: &[SpanStyle::Bold] },
    MarkerPair { sign: '_', count: 2, styles: &[SpanStyle::Bold] },
    MarkerPair { sign: '~', count: 2, styles: &[SpanStyle::Strike] },
    MarkerPair { sign: '|', count: 2, styles: &[SpanStyle::Spoiler] },
    MarkerPair { sign: '*', count: 1, styles: &[SpanStyle::Italic] },
];
const UNDERSCORE: MarkerPair = MarkerPair { sign: '_', count: 1, styles: &[SpanStyle::Italic] };

/// The longest label or URL; the limit bounds the search for its end.
const MAX_LABEL: usize = 1000;
const MAX_ADDRESS: usize = 2048;
const ESCAPABLE: &str = "\\`*_{}[]()<>#+-.!|~";
/// The schemes of URLs that a chat can open.
const SCHEMES: [&str; 6] = ["https://", "http://", "ftp://", "mailto:", "tel:", "tg://"];

impl Reader {
    fn read(self) -> Vec<MarkdownSpan> {
        let mut spans = Vec::new();
        let mut text = String::new();
        // A mark without an end from here on has none further on either.
        let mut endless = [false; MARKS.len() + 1];
        let mut at = 0;
        while let Some(c) = self.at(at) {
            let found = match c {
                '\\' if self.at(at + 1).is_some_and(|next| ESCAPABLE.contains(next)) => {
                    text.extend(self.at(at + 1));
                    at += 2;
                    continue;
                }
                '`' => self.code(at),
                '[' if !self.open.link => self.link(at),
                '!' if self.at(at + 1) == Some('[') => self.picture(at),
                '<' => self.autolink(at),
                'h' | 'H' => self.bare_address(at),
                '*' | '_' | '~' | '|' => self.styled(at, &mut endless),
                _ => None,
            };
            if let Some((span, next)) = found {
                push_text(&mut spans, &mut text);
                spans.push(span);
                at = next;
            } else {
                // A run of marks that opens nothing is skipped as a whole: its rest must not pair with another.
                let run = if "`*_~|".contains(c) { self.run(at) } else { 1 };
                text.extend(std::iter::repeat_n(c, run));
                at += run;
            }
        }
        push_text(&mut spans, &mut text);
        spans
    }

    fn at(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    fn before(&self, at: usize) -> Option<char> {
        at.checked_sub(1).and_then(|at| self.at(at))
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars.get(from..to).unwrap_or_default().iter().collect()
    }

    fn run(&self, at: usize) -> usize {
        let sign = self.at(at);
        self.chars.iter().skip(at).take_while(|c| Some(**c) == sign).count()
    }

    fn inner(&self, from: usize, to: usize, open: OpenMarkers) -> Vec<MarkdownSpan> {
        Self { chars: self.chars.get(from..to).unwrap_or_default().to_vec(), open }.read()
    }

    /// Parses code between runs of equally many backticks.
    fn code(&self, at: usize) -> Option<(MarkdownSpan, usize)> {
        let (from, to) = self.code_bounds(at)?;
        let ticks = self.run(at);
        let text = self.text(from, to);
        // With more than one backtick the code may contain backticks, and a space separates them from the marks.
        if ticks > 1
            && let Some(padded) = text.strip_prefix(' ').and_then(|text| text.strip_suffix(' '))
            && !padded.trim().is_empty()
        {
            return Some((MarkdownSpan::Code(padded.to_owned()), to + ticks));
        }
        Some((MarkdownSpan::Code(text), to + ticks))
    }

    fn code_bounds(&self, at: usize) -> Option<(usize, usize)> {
        let ticks = self.run(at);
        let from = at + ticks;
        let mut end = from;
        while let Some(c) = self.at(end) {
            let run = if c == '`' { self.run(end) } else { 0 };
            if run == ticks {
                return Some((from, end));
            }
            end += run.max(1);
        }
        None
    }

    /// Parses `[label](address)`.
    fn link(&self, at: usize) -> Option<(MarkdownSpan, usize)> {
        let close = self.closing_bracket(at)?;
        let (url, next) = self.address(close + 1)?;
        let mut open = self.open.clone();
        open.link = true;
        let mut label = self.inner(at + 1, close, open);
        if plain_text(&label).trim().is_empty() {
            label = vec![MarkdownSpan::Text(url.clone())];
        }
        Some((MarkdownSpan::Link { label, url }, next))
    }

    /// Parses `![description](address)`; within the label of a link, its description.
    fn picture(&self, at: usize) -> Option<(MarkdownSpan, usize)> {
        let close = self.closing_bracket(at + 1)?;
        let (url, next) = self.address(close + 1)?;
        let words = self.text(at + 2, close);
        let words = if words.trim().is_empty() { url.clone() } else { words };
        let label = MarkdownSpan::Text(words);
        let span = if self.open.link { label } else { MarkdownSpan::Link { label: vec![label], url } };
        Some((span, next))
    }

    /// Returns where the bracket that opens here is closed.
    fn closing_bracket(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let mut end = at;
        while let Some(c) = self.at(end).filter(|_| end - at <= MAX_LABEL) {
            match c {
                '\\' => end += 1,
                '`' => end = self.code_bounds(end).map_or(end, |(_, to)| to) + self.run(end) - 1,
                '[' => depth += 1,
                ']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(end);
                    }
                }
                _ => {}
            }
            end += 1;
        }
        None
    }

    /// Parses `(address)` or `(address "title")`, with balanced brackets inside.
    fn address(&self, at: usize) -> Option<(String, usize)> {
        if self.at(at) != Some('(') {
            return None;
        }
        let mut depth = 0_usize;
        let mut end = at;
        loop {
            match self.at(end).filter(|_| end - at <= MAX_ADDRESS)? {
                '\\' => end += 1,
                '(' => depth += 1,
                ')' if depth == 1 => break,
                ')' => depth -= 1,
                _ => {}
            }
            end += 1;
        }
        let inside = self.text(at + 1, end);
        let (url, title) = inside.trim().split_once(char::is_whitespace).unwrap_or((inside.trim(), ""));
        let title = title.trim();
        let titled = title.is_empty() || title.starts_with(['"', '\'', '(']);
        let url = url.strip_prefix('<').and_then(|url| url.strip_suffix('>')).unwrap_or(url);
        (titled && is_linkable(url)).then(|| (url.to_owned(), end + 1))
    }

    /// Parses `<address>`.
    fn autolink(&self, at: usize) -> Option<(MarkdownSpan, usize)> {
        let end = at + self.chars.iter().skip(at).take(MAX_ADDRESS).position(|c| *c == '>')?;
        let url = self.text(at + 1, end);
        if !is_linkable(&url) {
            return None;
        }
        let label = vec![MarkdownSpan::Text(url.clone())];
        let span = if self.open.link { MarkdownSpan::Text(url) } else { MarkdownSpan::Link { label, url } };
        Some((span, end + 1))
    }

    /// Parses a URL in running text: its underscores are not marks.
    fn bare_address(&self, at: usize) -> Option<(MarkdownSpan, usize)> {
        if self.before(at).is_some_and(is_word) {
            return None;
        }
        let start: String = self.text(at, at + 8).to_lowercase();
        if !(start.starts_with("https://") || start.starts_with("http://")) {
            return None;
        }
        let ends = |c: &char| c.is_whitespace() || "<>\"`*|[]".contains(*c);
        let length = self.chars.iter().skip(at).position(ends).unwrap_or(self.chars.len() - at);
        Some((MarkdownSpan::Text(self.text(at, at + length)), at + length))
    }

    fn styled(&self, at: usize, endless: &mut [bool; MARKS.len() + 1]) -> Option<(MarkdownSpan, usize)> {
        for (mark, endless) in MARKS.iter().chain([&UNDERSCORE]).zip(endless.iter_mut()) {
            if *endless || !self.opens(mark, at) {
                continue;
            }
            let from = at + mark.count;
            let Some(to) = self.closing(mark, from) else {
                *endless = true;
                continue;
            };
            let mut open = self.open.clone();
            open.styles.extend(mark.styles);
            let mut spans = self.inner(from, to, open);
            for style in mark.styles.iter().rev() {
                spans = vec![MarkdownSpan::Styled(*style, spans)];
            }
            return spans.pop().map(|span| (span, to + mark.count));
        }
        None
    }

    fn opens(&self, mark: &MarkerPair, at: usize) -> bool {
        let run = self.run(at);
        let fits = self.at(at) == Some(mark.sign) && (run == mark.count || mark.sign != '|' && run == 3);
        let next = self.at(at + mark.count);
        let before = self.before(at);
        let inside_word = before.is_some_and(is_word)
            && (mark.sign == '_' || mark.count == 1 || next.is_some_and(is_word))
            || mark.sign == '_' && before == Some('/');
        fits && next.is_some_and(|c| !c.is_whitespace())
            && !inside_word
            && !mark.styles.iter().any(|style| self.open.styles.contains(style))
    }

    /// Returns where the closing mark begins.
    fn closing(&self, mark: &MarkerPair, from: usize) -> Option<usize> {
        let mut at = from;
        while let Some(c) = self.at(at) {
            match c {
                '\\' => at += 2,
                '`' => at = self.code_bounds(at).map_or(at, |(_, to)| to) + self.run(at),
                c if c == mark.sign => {
                    let run = self.run(at);
                    // The last marks of a longer run close what was opened first.
                    let end = if run == mark.count || run == 3 { Some(at + run - mark.count) } else { None };
                    if let Some(end) = end.filter(|end| *end > from && self.closes(mark, *end)) {
                        return Some(end);
                    }
                    at += run;
                }
                _ => at += 1,
            }
        }
        None
    }

    fn closes(&self, mark: &MarkerPair, at: usize) -> bool {
        let (next, after) = (self.at(at + mark.count), self.at(at + mark.count + 1));
        let in_name = next == Some('/') || next == Some('.') && after.is_some_and(is_word);
        let inside_word = match (mark.sign, mark.count) {
            ('_', _) => next.is_some_and(is_word) || in_name,
            (_, 1) => next.is_some_and(is_word),
            _ => false,
        };
        self.before(at).is_some_and(|c| !c.is_whitespace()) && !inside_word
    }
}

fn push_text(spans: &mut Vec<MarkdownSpan>, text: &mut String) {
    if !text.is_empty() {
        spans.push(MarkdownSpan::Text(std::mem::take(text)));
    }
}

fn is_linkable(url: &str) -> bool {
    let lower = url.to_lowercase();
    SCHEMES.iter().any(|scheme| lower.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
        && !url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '<' || c == '>')
}

/// Tells whether this is a letter or digit of a script that separates words by spaces; in other scripts a mark
/// between two letters is a mark.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() && c < '\u{2E80}'
}
