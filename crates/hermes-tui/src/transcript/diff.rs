//! Coloured diffs of what a tool changed.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use crate::glyphs::{Breaks, StyledLine, clean, styled, wrap};
use crate::theme::Theme;

const MAX_LINES: usize = 80;
const MAX_FILES: usize = 6;

/// Renders a unified diff with line numbers; what is beyond the limits is counted.
pub(crate) fn render_diff(diff: &str, width: usize, theme: &Theme) -> Vec<StyledLine> {
    let mut rows = vec![styled(format!("  {} review diff", theme.tool_prefix), theme.dim)];
    let (mut old, mut new) = (0_usize, 0_usize);
    let (mut files, mut shown, mut omitted) = (0, 0, 0);
    let mut in_hunk = false;
    for line in diff.lines() {
        if line.starts_with("--- ") && !is_change(line, in_hunk) {
            in_hunk = false;
            continue;
        }
        if let Some(name) = line.strip_prefix("+++ ").filter(|_| !in_hunk) {
            files += 1;
            if files <= MAX_FILES {
                let name = name.split('\t').next().unwrap_or_default();
                let name = name.strip_prefix("b/").unwrap_or(name);
                rows.push(styled(format!("    {}", clean(name)), theme.label));
            }
            continue;
        }
        if let Some(range) = line.strip_prefix("@@ ") {
            if in_hunk && files <= MAX_FILES && shown < MAX_LINES {
                rows.push(styled("       ⋯", theme.dim));
            }
            in_hunk = true;
            (old, new) = hunk_starts(range).unwrap_or((1, 1));
            continue;
        }
        if !in_hunk {
            continue;
        }
        let (number, sign, style) = match line.chars().next() {
            Some('+') => (new, "+", theme.added),
            Some('-') => (old, "-", theme.removed),
            _ => (new, " ", theme.dim),
        };
        old += usize::from(sign != "+");
        new += usize::from(sign != "-");
        if shown >= MAX_LINES || files > MAX_FILES {
            omitted += 1;
            continue;
        }
        shown += 1;
        let text = line.get(1..).unwrap_or_default();
        rows.extend(numbered(number, sign, text, style, width, theme));
    }
    if omitted > 0 {
        let more = files.saturating_sub(MAX_FILES);
        let note = format!(
            "    … omitted {omitted} diff line(s) across {} additional file(s)/section(s)",
            more.max(1)
        );
        rows.push(styled(note, theme.dim));
    }
    rows
}

/// Tells whether a line that looks like a header is a removed line that begins with `--`.
fn is_change(line: &str, in_hunk: bool) -> bool {
    in_hunk && !line.starts_with("--- a/") && !line.starts_with("--- /")
}

fn numbered(
    number: usize,
    sign: &str,
    text: &str,
    style: Style,
    width: usize,
    theme: &Theme,
) -> Vec<StyledLine> {
    let first = [Span::styled(format!("  {number:>4} "), theme.dim), Span::styled(format!("{sign} "), style)];
    let rest = [Span::raw("         ")];
    wrap(&Line::from(Span::styled(clean(text), style)), width, Breaks::Anywhere, &first, &rest)
}

/// Reads the first line numbers of both sides: `-12,3 +14,5 @@`.
fn hunk_starts(range: &str) -> Option<(usize, usize)> {
    let mut sides = range.split(' ');
    let mut side = |sign| sides.next()?.strip_prefix(sign)?.split(',').next()?.parse().ok();
    Some((side('-')?, side('+')?))
}
