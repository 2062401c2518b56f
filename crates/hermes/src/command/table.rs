//! Lists in columns.

use hermes_text::ellipsize;

/// Renders rows below a header; the columns are as wide as their texts, up to a limit each.
pub(crate) fn table(header: &[&str], limits: &[usize], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|text| (*text).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&header).chain(rows).collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).min(limits.get(column).copied().unwrap_or(usize::MAX))
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    for row in all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let is_short = cell.chars().count() <= *width;
            let cell = if is_short { cell.into() } else { ellipsize(cell, width.saturating_sub(3)) };
            let missing = width.saturating_sub(cell.chars().count()) + 2;
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', missing));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
