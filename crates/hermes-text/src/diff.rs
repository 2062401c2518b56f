//! Line diffs: removed and added lines, and the unified format.
//!
//! Invariant: kept and removed lines together are the old text, kept and added lines the new one.

use std::fmt::Write as _;

use crate::similarity::matching_blocks;

const CONTEXT: usize = 3;

/// A line of a comparison, without its line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffLine<'a> {
    Kept(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// Compares two texts line by line. Removed lines come before the added ones that replace them.
pub fn diff_lines<'a>(old: &'a str, new: &'a str) -> Vec<DiffLine<'a>> {
    let (old, new) = (lines(old), lines(new));
    let front = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let back = old.iter().skip(front).rev().zip(new.iter().skip(front).rev()).take_while(|(a, b)| a == b);
    let back = back.count();
    let (old_middle, new_middle) = (&old[front..old.len() - back], &new[front..new.len() - back]);
    let mut found: Vec<DiffLine<'_>> = old[..front].iter().map(|line| DiffLine::Kept(line)).collect();
    let (mut a, mut b) = (0, 0);
    for block in matching_blocks(old_middle, new_middle) {
        found.extend(old_middle[a..block.a].iter().map(|line| DiffLine::Removed(line)));
        found.extend(new_middle[b..block.b].iter().map(|line| DiffLine::Added(line)));
        (a, b) = (block.a + block.len, block.b + block.len);
        found.extend(old_middle[block.a..a].iter().map(|line| DiffLine::Kept(line)));
    }
    found.extend(old_middle[a..].iter().map(|line| DiffLine::Removed(line)));
    found.extend(new_middle[b..].iter().map(|line| DiffLine::Added(line)));
    found.extend(old[old.len() - back..].iter().map(|line| DiffLine::Kept(line)));
    found
}

/// Returns a unified diff with three lines of context; empty when no line differs. A missing last line break is not
/// marked.
pub fn unified_diff(old: &str, new: &str, old_name: &str, new_name: &str) -> String {
    let lines = diff_lines(old, new);
    let mut text = String::new();
    for (from, to) in hunks(&lines) {
        if text.is_empty() {
            let _ = write!(text, "--- {old_name}\n+++ {new_name}\n");
        }
        let before = &lines[..from];
        let inside = &lines[from..to];
        let (old_from, new_from) = (count_old(before), count_new(before));
        let (old_len, new_len) = (count_old(inside), count_new(inside));
        let _ = writeln!(text, "@@ -{} +{} @@", range(old_from, old_len), range(new_from, new_len));
        for line in inside {
            let (sign, line) = match line {
                DiffLine::Kept(line) => (' ', line),
                DiffLine::Removed(line) => ('-', line),
                DiffLine::Added(line) => ('+', line),
            };
            text.push(sign);
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Returns the ranges of lines to show: changes with their context, joined where they touch.
fn hunks(lines: &[DiffLine<'_>]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if matches!(line, DiffLine::Kept(_)) {
            continue;
        }
        let (from, to) = (at.saturating_sub(CONTEXT), (at + 1 + CONTEXT).min(lines.len()));
        match found.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => found.push((from, to)),
        }
    }
    found
}

fn count_old(lines: &[DiffLine<'_>]) -> usize {
    lines.iter().filter(|line| !matches!(line, DiffLine::Added(_))).count()
}

fn count_new(lines: &[DiffLine<'_>]) -> usize {
    lines.iter().filter(|line| !matches!(line, DiffLine::Removed(_))).count()
}

/// Formats `start,length` as in unified diffs: counted from one, without the length when it is one.
fn range(before: usize, len: usize) -> String {
    match len {
        0 => format!("{before},0"),
        1 => format!("{}", before + 1),
        _ => format!("{},{len}", before + 1),
    }
}

/// Returns lines without their breaks; a break at the very end does not start another line.
fn lines(text: &str) -> Vec<&str> {
    text.split_terminator('\n').collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_unified_form_is_the_usual_one() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
        let new = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n";
        assert_eq!(
            unified_diff(old, new, "a/x", "b/x"),
            "--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -10,3 +10,4 @@\n j\n k\n l\n+m\n"
        );
        assert_eq!(
            unified_diff("", "x\n", "/dev/null", "b/x"),
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"
        );
        assert_eq!(unified_diff("x", "x\n", "a", "b"), "");
        assert_eq!(unified_diff("x", "y", "a", "b"), "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n");
    }

    proptest! {
        #[test]
        fn both_sides_can_be_read_off(old in "([abc]?\n){0,30}", new in "([abc]?\n){0,30}") {
            let (mut left, mut right) = (String::new(), String::new());
            for line in diff_lines(&old, &new) {
                if let DiffLine::Kept(line) | DiffLine::Removed(line) = line { left += line; left += "\n"; }
                if let DiffLine::Kept(line) | DiffLine::Added(line) = line { right += line; right += "\n"; }
            }
            prop_assert_eq!(left, old);
            prop_assert_eq!(right, new);
        }
    }
}
