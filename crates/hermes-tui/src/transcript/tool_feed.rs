//! One line per tool call: sign, verb, detail, time.

use std::time::Duration;

use hermes_types::{OutcomeStatus, PreviewKind, ToolDisplay};
use ratatui_core::text::{Line, Span};
use serde_json::Value;

use crate::glyphs::{
    StyledLine, clean, clean_line, columns, cut, cut_text, cut_text_front, pad, styled, wrap_words,
};
use crate::theme::Theme;

const VERB_COLUMNS: usize = 9;
const MAX_DETAIL_COLUMNS: usize = 72;
const MIN_DETAIL_COLUMNS: usize = 8;
/// On a narrower terminal verbs are not aligned.
const ALIGNED_WIDTH: usize = 40;
const MAX_VERBOSE_CHARS: usize = 2_000;

/// How much of the tool calls is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolFeedMode {
    Off,
    /// A line when another tool is used than before.
    New,
    #[default]
    All,
    /// Arguments and results.
    Verbose,
}

/// Renders a call, for example `  ┊ 📖 read      src/main.rs  0.1s`.
pub(crate) fn call_row(
    lead: Span<'static>,
    display: &ToolDisplay,
    preview: &str,
    time: &str,
    suffix: &str,
    width: usize,
    theme: &Theme,
) -> StyledLine {
    let icon = clean_line(&display.icon);
    let icon = format!("{icon}{}", " ".repeat(3_usize.saturating_sub(columns(&icon))));
    let verb = cut_text(&clean_line(&display.verb), VERB_COLUMNS);
    let verb_width = if width < ALIGNED_WIDTH { columns(&verb) } else { VERB_COLUMNS };
    let verb = pad(styled(verb, theme.label), verb_width + 1, theme.label);
    let mut line = Line::from(vec![Span::raw("  "), lead, Span::raw(" "), Span::raw(icon)]);
    line.spans.extend(verb.spans);
    let before = crate::glyphs::line_columns(&line);
    let room = width.saturating_sub(before + columns(time) + columns(suffix) + 2).min(MAX_DETAIL_COLUMNS);
    // On a narrow terminal what a call is about matters more than its time.
    let (time, room) = if room < MIN_DETAIL_COLUMNS {
        ("", width.saturating_sub(before + columns(suffix)))
    } else {
        (time, room)
    };
    let detail = clean_line(preview);
    let detail = match display.preview_kind {
        PreviewKind::Text => cut_text(&detail, room),
        PreviewKind::Path => cut_text_front(&detail, room),
    };
    line.spans.push(Span::styled(detail, theme.text));
    if !time.is_empty() {
        line.spans.push(Span::styled(format!("  {time}"), theme.dim));
    }
    line.spans.push(Span::styled(suffix.to_owned(), theme.error));
    cut(&line, width)
}

/// Formats the time a call took.
pub(crate) fn seconds(span: Duration) -> String {
    format!("{:.1}s", span.as_secs_f64())
}

/// Returns the remark on a call that did not succeed.
pub(crate) fn suffix(tool: &str, status: OutcomeStatus, result: &str) -> String {
    let exit_code = || {
        let value: Value = serde_json::from_str(result).ok()?;
        value.get("exit_code")?.as_i64().filter(|code| *code != 0)
    };
    match status {
        OutcomeStatus::Cancelled => " [cancelled]".to_owned(),
        _ if tool == "memory" && result.contains("would exceed the limit") => " [full]".to_owned(),
        _ if tool == "terminal" && exit_code().is_some() => {
            format!(" [exit {}]", exit_code().unwrap_or_default())
        }
        OutcomeStatus::Failed | OutcomeStatus::Unknown => " [error]".to_owned(),
        OutcomeStatus::Done => String::new(),
    }
}

/// Returns the text of a result for people: the output inside, or the JSON with line breaks.
pub(crate) fn readable_result(result: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(result) else { return result.to_owned() };
    let inner = ["output", "content", "diff", "error"].iter().find_map(|key| value.get(key)?.as_str());
    match inner.filter(|text| !text.is_empty()) {
        Some(text) => text.to_owned(),
        None => serde_json::to_string_pretty(&value).unwrap_or_else(|_| result.to_owned()),
    }
}

/// Returns the diff in a result.
pub(crate) fn diff_of(result: &str) -> Option<String> {
    let value: Value = serde_json::from_str(result).ok()?;
    value.get("diff")?.as_str().filter(|diff| !diff.is_empty()).map(str::to_owned)
}

/// Renders the beginning of a call with its arguments.
pub(crate) fn verbose_start(
    number: usize,
    name: &str,
    arguments: &str,
    width: usize,
    theme: &Theme,
) -> Vec<StyledLine> {
    let keys = match serde_json::from_str::<serde_json::Map<String, Value>>(arguments) {
        Ok(map) => map.keys().cloned().collect::<Vec<_>>().join(", "),
        Err(_) => String::new(),
    };
    let mut rows = block(&format!("  📞 Tool {number}: {name}([{keys}])"), width, theme);
    rows.extend(block(&format!("     Args: {}", bounded(arguments)), width, theme));
    rows
}

/// Renders the end of a call with its result.
pub(crate) fn verbose_end(
    number: usize,
    took: Duration,
    suffix: &str,
    result: &str,
    width: usize,
    theme: &Theme,
) -> Vec<StyledLine> {
    let mark = if suffix.is_empty() { "✅" } else { "❌" };
    let head = format!("  {mark} Tool {number} completed in {:.2}s{suffix}", took.as_secs_f64());
    let mut rows = block(&head, width, theme);
    rows.extend(block(&format!("     Result: {}", bounded(result)), width, theme));
    rows
}

fn block(text: &str, width: usize, theme: &Theme) -> Vec<StyledLine> {
    clean(text).lines().flat_map(|line| wrap_words(&styled(line, theme.dim), width)).collect()
}

fn bounded(text: &str) -> String {
    let more = text.chars().count().saturating_sub(MAX_VERBOSE_CHARS);
    let shown = hermes_text::head(text.trim_end(), MAX_VERBOSE_CHARS);
    if more == 0 { shown.to_owned() } else { format!("{shown}... ({more} more characters)") }
}
