//! The status bar: model, context, cost, elapsed time.

use std::time::Duration;

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use crate::glyphs::{StyledLine, clean_line, columns, cut};
use crate::theme::Theme;

const BAR_COLUMNS: u64 = 10;
const MAX_MODEL_CHARS: usize = 26;

/// What the status bar shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusFields {
    pub model: String,
    /// The tokens of the last request; absent when unknown.
    pub context_used: Option<u64>,
    /// The context window; absent when unknown.
    pub context_window: Option<u64>,
    /// The cost so far, formatted; absent when it is not to be shown.
    pub cost: Option<String>,
    /// A mode that is on, such as `yolo`.
    pub mode: Option<String>,
    pub background_tasks: usize,
}

impl StatusFields {
    pub(crate) fn render(&self, width: usize, elapsed: Duration, theme: &Theme) -> StyledLine {
        let percent = match (self.context_used, self.context_window) {
            (Some(used), Some(window)) if window > 0 => Some((used.saturating_mul(100) / window).min(100)),
            _ => None,
        };
        let level = level_style(percent, theme);
        let mut line = Line::from(vec![
            Span::styled(" ⚕ ", theme.label),
            Span::styled(clean_line(&short_model(&self.model)), theme.text),
        ]);
        let separator = if width >= 76 { " │ " } else { " · " };
        let part = |line: &mut StyledLine, text: String, style: Style| {
            line.spans.push(Span::styled(separator, theme.dim));
            line.spans.push(Span::styled(text, style));
        };
        if width >= 76 {
            let used = self.context_used.filter(|_| percent.is_some()).map(compact);
            match used.zip(self.context_window.map(compact)) {
                Some((used, window)) => part(&mut line, format!("{used}/{window}"), theme.dim),
                None => part(&mut line, "ctx --".to_owned(), theme.dim),
            }
            let filled = usize::try_from(percent.unwrap_or(0).div_ceil(100 / BAR_COLUMNS)).unwrap_or(0);
            let empty = usize::try_from(BAR_COLUMNS).unwrap_or(0).saturating_sub(filled);
            part(&mut line, "█".repeat(filled), level);
            line.spans.push(Span::styled("░".repeat(empty), theme.dim));
            line.spans.push(Span::styled(percent_text(percent), level));
        } else if width >= 52 {
            part(&mut line, percent_text(percent).trim_start().to_owned(), level);
        }
        if let Some(cost) = self.cost.as_ref().filter(|_| width >= 52) {
            part(&mut line, clean_line(cost), theme.dim);
        }
        part(&mut line, rough_duration(elapsed), theme.dim);
        if let Some(mode) = &self.mode {
            part(&mut line, clean_line(mode), theme.warn);
        }
        if self.background_tasks > 0 {
            part(&mut line, format!("⚙ {}", self.background_tasks), theme.label);
        }
        cut(&line, width)
    }
}

fn percent_text(percent: Option<u64>) -> String {
    percent.map_or_else(|| " --".to_owned(), |percent| format!(" {percent}%"))
}

fn level_style(percent: Option<u64>, theme: &Theme) -> Style {
    match percent {
        None => theme.dim,
        Some(..50) => theme.ok,
        Some(50..=80) => theme.warn,
        Some(81..95) => theme.error,
        Some(_) => theme.critical,
    }
}

/// Returns the last part of a model's path, at most 26 characters long.
fn short_model(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".gguf").unwrap_or(name);
    if name.chars().count() > MAX_MODEL_CHARS {
        format!("{}...", hermes_text::head(name, MAX_MODEL_CHARS - 3))
    } else {
        name.to_owned()
    }
}

/// Formats a count: `950`, `12.4K`, `200K`, `1M`.
fn compact(count: u64) -> String {
    let (unit, sign) = match count {
        0..1_000 => return count.to_string(),
        1_000..1_000_000 => (1_000, 'K'),
        _ => (1_000_000, 'M'),
    };
    match (count / unit, count % unit * 10 / unit) {
        (whole, tenth) if whole < 100 && tenth > 0 => format!("{whole}.{tenth}{sign}"),
        (whole, _) => format!("{whole}{sign}"),
    }
}

/// Formats a duration in its two largest units.
pub(crate) fn duration(span: Duration) -> String {
    let seconds = span.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

/// Formats a duration in minutes, so that it rarely changes.
fn rough_duration(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..3_600 => format!("{}m", seconds / 60),
        _ => duration(span),
    }
}

/// Returns the frame of the spinner at an instant.
pub(crate) fn spinner(now: Duration) -> &'static str {
    const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    let at = usize::try_from(now.as_millis() / 100 % 10).unwrap_or(0);
    FRAMES.get(at).copied().unwrap_or("⠋")
}

/// Centers a title in a rule, for the top of a panel.
pub(crate) fn titled_rule(left: &str, title: &str, right: &str, width: usize, theme: &Theme) -> StyledLine {
    let used = columns(left) + columns(right) + columns(title) + 3;
    Line::from(vec![
        Span::styled(format!("{left}─ "), theme.border),
        Span::styled(title.to_owned(), theme.accent),
        Span::styled(format!(" {}{right}", "─".repeat(width.saturating_sub(used))), theme.border),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glyphs::plain_text;

    #[test]
    fn what_is_shown_follows_the_width() {
        let status = StatusFields {
            model: "anthropic/claude-sonnet-4.5".into(),
            context_used: Some(12_400),
            context_window: Some(200_000),
            cost: Some("$0.06".into()),
            ..StatusFields::default()
        };
        let shown = |width| plain_text(&status.render(width, Duration::from_secs(75), &Theme::mono()));
        assert_eq!(shown(80), " ⚕ claude-sonnet-4.5 │ 12.4K/200K │ █░░░░░░░░░ 6% │ $0.06 │ 1m");
        assert_eq!(shown(60), " ⚕ claude-sonnet-4.5 · 6% · $0.06 · 1m");
        assert_eq!(shown(40), " ⚕ claude-sonnet-4.5 · 1m");
        assert_eq!(shown(20), " ⚕ claude-sonnet-4.…");
    }

    #[test]
    fn counts_are_short() {
        for (count, text) in
            [(999, "999"), (1_000, "1K"), (12_400, "12.4K"), (200_000, "200K"), (1_048_576, "1M")]
        {
            assert_eq!(compact(count), text);
        }
    }
}
