//! Removes what a converter leaves behind: blanks at line ends, piles of empty lines.

/// Returns a text with at most one empty line in a row, and without blanks at the ends of lines outside code.
pub(crate) fn lines(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut empty = 0usize;
    let mut fence = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        fence ^= is_fence;
        let line = if fence { line } else { line.trim_end() };
        if line.is_empty() && !fence {
            empty += 1;
            continue;
        }
        if !tidy.is_empty() {
            tidy.push_str(if empty > 0 { "\n\n" } else { "\n" });
        }
        empty = 0;
        tidy.push_str(line);
    }
    tidy
}

/// Returns a text on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
