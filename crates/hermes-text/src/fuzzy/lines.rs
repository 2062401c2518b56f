//! A text as lines with their offsets, and the comparison of a block of lines at every position.

use std::ops::Range;

/// Lines as `split('\n')` returns them, with the byte offset of each.
#[derive(Debug)]
pub(super) struct LineIndex<'a>(Vec<(usize, &'a str)>);

impl<'a> LineIndex<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut start = 0;
        let lines = text.split('\n').map(|line| {
            let at = start;
            start += line.len() + 1;
            (at, line)
        });
        Self(lines.collect())
    }

    pub(super) fn texts(&self) -> impl DoubleEndedIterator<Item = &'a str> + ExactSizeIterator + '_ {
        self.0.iter().map(|(_, line)| *line)
    }

    /// Returns the range from the start of the first line to the end of the last, without its line break.
    pub(super) fn span(&self, first: usize, count: usize) -> Option<Range<usize>> {
        let (start, _) = self.0.get(first)?;
        let (last, line) = self.0.get((first + count).checked_sub(1)?)?;
        Some(*start..last + line.len())
    }
}

/// Returns the first lines of every block of `content` that equals `pattern`; the caller has normalised both.
pub(super) fn equal_blocks<T: PartialEq>(content: &[T], pattern: &[T]) -> Vec<usize> {
    if pattern.is_empty() || pattern.len() > content.len() {
        return Vec::new();
    }
    content
        .windows(pattern.len())
        .enumerate()
        .filter(|(_, window)| *window == pattern)
        .map(|(at, _)| at)
        .collect()
}
