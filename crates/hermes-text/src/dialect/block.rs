//! The blocks of a text: code, headings, quotes, tables, other lines.

use super::span::{MarkdownSpan, SpanStyle, plain_text, read_spans};

/// A block of one or more lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MarkdownBlock {
    Line(Vec<MarkdownSpan>),
    /// The text after the quote sign.
    Quote(Vec<MarkdownSpan>),
    Code {
        language: String,
        text: String,
    },
    /// Rows aligned for a monospaced font, without marks.
    Table(String),
}

pub(super) fn read(markdown: &str) -> Vec<MarkdownBlock> {
    let lines: Vec<&str> = markdown.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if let Some(fence) = CodeFence::opening(line) {
            at = read_code(&lines, at + 1, &fence, &mut blocks);
        } else if lines.get(at + 1).is_some_and(|next| line.contains('|') && is_ruler(next)) {
            let rows: Vec<&str> =
                lines.iter().skip(at).take_while(|row| row.contains('|')).copied().collect();
            at += rows.len();
            blocks.push(MarkdownBlock::Table(
                rows.into_iter().map(render_table_row).collect::<Vec<_>>().join("\n"),
            ));
        } else {
            blocks.push(read_line(line));
            at += 1;
        }
    }
    blocks
}

/// The line that opens a code block.
struct CodeFence {
    sign: char,
    count: usize,
    language: String,
}

impl CodeFence {
    fn opening(line: &str) -> Option<Self> {
        let line = line.trim();
        let sign = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let count = line.chars().take_while(|c| *c == sign).count();
        let info = line.trim_start_matches(sign);
        // Backticks later in the line make it inline code.
        if count < 3 || info.contains('`') {
            return None;
        }
        let language = info.split_whitespace().next().unwrap_or_default();
        let plain = language.chars().all(|c| c.is_ascii_alphanumeric() || "+-#_.".contains(c));
        Some(Self { sign, count, language: if plain { language.to_owned() } else { String::new() } })
    }

    /// Returns what follows the closing fence on its line, if this is it: nothing, or the counter of a split text.
    fn closing<'a>(&self, line: &'a str) -> Option<&'a str> {
        let line = line.trim();
        let rest = line.trim_start_matches(self.sign);
        let rest_is_known = rest.is_empty() || is_counter(rest.trim());
        (line.len() - rest.len() >= self.count && rest_is_known).then(|| rest.trim())
    }
}

/// Detects `(1/3)`.
fn is_counter(text: &str) -> bool {
    let inside = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    inside.and_then(|inside| inside.split_once('/')).is_some_and(|(at, of)| is_number(at) && is_number(of))
}

/// Reads code up to its end, or to the end of the text; returns where to continue.
fn read_code(lines: &[&str], from: usize, fence: &CodeFence, blocks: &mut Vec<MarkdownBlock>) -> usize {
    let mut text = Vec::new();
    let mut counter = None;
    let mut at = from;
    while let Some(line) = lines.get(at) {
        at += 1;
        if let Some(rest) = fence.closing(line) {
            counter = Some(rest).filter(|rest| !rest.is_empty());
            break;
        }
        text.push(*line);
    }
    blocks.push(MarkdownBlock::Code { language: fence.language.clone(), text: text.join("\n") });
    blocks.extend(counter.map(|counter| MarkdownBlock::Line(vec![MarkdownSpan::Text(counter.to_owned())])));
    at
}

fn read_line(line: &str) -> MarkdownBlock {
    let trimmed = line.trim_start();
    if let Some(quoted) = trimmed.strip_prefix('>') {
        return MarkdownBlock::Quote(read_spans(quoted));
    }
    let title = trimmed.trim_start_matches('#');
    let level = trimmed.len() - title.len();
    if (1..=6).contains(&level) && title.starts_with([' ', '\t']) && !title.trim().is_empty() {
        return MarkdownBlock::Line(vec![MarkdownSpan::Styled(
            SpanStyle::Bold,
            remove_bold(read_spans(title.trim())),
        )]);
    }
    MarkdownBlock::Line(read_spans(line))
}

/// Removes bold marks from a heading, which is bold already.
fn remove_bold(spans: Vec<MarkdownSpan>) -> Vec<MarkdownSpan> {
    let keep = |span| match span {
        MarkdownSpan::Styled(SpanStyle::Bold, inner) => remove_bold(inner),
        MarkdownSpan::Styled(style, inner) => vec![MarkdownSpan::Styled(style, remove_bold(inner))],
        MarkdownSpan::Link { label, url } => vec![MarkdownSpan::Link { label: remove_bold(label), url }],
        other => vec![other],
    };
    spans.into_iter().flat_map(keep).collect()
}

/// Detects the line of dashes below the header of a table.
fn is_ruler(line: &str) -> bool {
    line.contains('|')
        && line.contains('-')
        && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}

/// Renders a row whose cells have lost their marks and keep their width.
fn render_table_row(row: &str) -> String {
    if is_ruler(row) {
        return row.to_owned();
    }
    let cell = |cell: &str| {
        let words = plain_text(&read_spans(cell));
        let blanks = cell.chars().count().saturating_sub(words.chars().count());
        format!("{words}{}", " ".repeat(blanks))
    };
    row.split('|').map(cell).collect::<Vec<_>>().join("|").trim_end().to_owned()
}
