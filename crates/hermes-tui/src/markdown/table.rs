//! Tables, laid out for the width at hand. A table too wide for columns becomes a list of records.

use ratatui_core::style::Modifier;
use ratatui_core::text::{Line, Span};

use pulldown_cmark::Alignment;

use crate::glyphs::{StyledLine, line_columns, pad, wrap_words};
use crate::theme::Theme;

const GAP: usize = 2;
/// Below this width a column of words is no longer readable.
const MIN_COLUMN: usize = 6;

/// A table as it is read: the first row is the header.
#[derive(Debug, Clone, Default)]
pub(super) struct MarkdownTable {
    pub(super) alignments: Vec<Alignment>,
    pub(super) rows: Vec<Vec<StyledLine>>,
}

impl MarkdownTable {
    pub(super) fn render(&self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let natural: Vec<usize> = (0..count)
            .map(|at| {
                self.rows.iter().filter_map(|row| row.get(at)).map(line_columns).max().unwrap_or(0).max(1)
            })
            .collect();
        match fit(&natural, width) {
            Some(widths) => self.columns(&widths, theme),
            None => self.records(width, theme),
        }
    }

    fn columns(&self, widths: &[usize], theme: &Theme) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<StyledLine>> = widths
                .iter()
                .enumerate()
                .map(|(at, width)| row.get(at).map_or_else(Vec::new, |cell| wrap_words(cell, *width)))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            for y in 0..height {
                let mut line = Line::default();
                for (at, width) in widths.iter().enumerate() {
                    let cell = cells.get(at).and_then(|cell| cell.get(y)).cloned().unwrap_or_default();
                    let cell = if number == 0 { cell.patch_style(Modifier::BOLD) } else { cell };
                    let free = width.saturating_sub(line_columns(&cell));
                    let left = match self.alignments.get(at) {
                        Some(Alignment::Right) => free,
                        Some(Alignment::Center) => free / 2,
                        _ => 0,
                    };
                    line.spans.push(Span::raw(" ".repeat(left)));
                    let style = cell.style;
                    line.spans.extend(cell.spans.into_iter().map(|span| span.patch_style(style)));
                    if at + 1 < widths.len() {
                        line.spans.push(Span::raw(" ".repeat(free - left + GAP)));
                    }
                }
                lines.push(line);
            }
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(Line::from(Span::styled(rules.join(&" ".repeat(GAP)), theme.dim)));
            }
        }
        lines
    }

    fn records(&self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        let Some((header, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for row in rows {
            for (at, cell) in row.iter().enumerate() {
                let mut line = header.get(at).cloned().unwrap_or_default().patch_style(theme.dim);
                let style = line.style;
                line.spans = line.spans.into_iter().map(|span| span.patch_style(style)).collect();
                line.style = ratatui_core::style::Style::new();
                line.spans.push(Span::styled(": ", theme.dim));
                line.spans.extend(cell.spans.iter().cloned());
                lines.extend(wrap_words(&line, width));
            }
            lines.push(pad(Line::default(), 0, theme.text));
        }
        lines.pop();
        lines
    }
}

/// Returns the widths of the columns: the widest are narrowed until all fit. Nothing when they would be too narrow.
fn fit(natural: &[usize], width: usize) -> Option<Vec<usize>> {
    let gaps = GAP * natural.len().saturating_sub(1);
    let mut widths = natural.to_vec();
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    while excess > 0 {
        let widest = widths.iter_mut().max()?;
        if *widest <= MIN_COLUMN {
            return None;
        }
        *widest -= 1;
        excess -= 1;
    }
    Some(widths)
}
