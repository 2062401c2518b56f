//! How alike two texts are, by the measure Python's difflib made customary: twice the length of all matching blocks over
//! the length of both.
//!
//! Holds the block finder that the line diff uses too. Thresholds are the callers'. Invariant: the blocks are in order,
//! do not overlap, and cover equal elements on both sides.

use std::collections::HashMap;
use std::hash::Hash;

/// From this length on, elements that are everywhere are no anchors.
const POPULAR_FROM: usize = 200;

/// Comparisons spent before the rest counts as different, so that two large strangers end.
const MOST_STEPS: usize = 20_000_000;

/// A run of equal elements: where it starts on each side, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) len: usize,
}

/// Between 0 (nothing in common) and 1 (equal). Two empty texts are equal.
pub fn similarity(a: &str, b: &str) -> f64 {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let matched = matching_blocks(&a, &b).iter().map(|block| block.len).sum();
    ratio(matched, a.len() + b.len())
}

/// Whether the similarity reaches `cutoff`; cheap for texts that cannot.
pub fn is_similar(a: &str, b: &str, cutoff: f64) -> bool {
    if a == b {
        return cutoff <= 1.0;
    }
    let (a_len, b_len) = (a.chars().count(), b.chars().count());
    if ratio(a_len.min(b_len), a_len + b_len) < cutoff {
        return false;
    }
    let mut left: HashMap<char, usize> = HashMap::new();
    for c in b.chars() {
        *left.entry(c).or_default() += 1;
    }
    let shared = a.chars().filter(|c| match left.get_mut(c) {
        Some(n) if *n > 0 => {
            *n -= 1;
            true
        }
        _ => false,
    });
    ratio(shared.count(), a_len + b_len) >= cutoff && similarity(a, b) >= cutoff
}

/// The candidate most like `name`, if it reaches `cutoff`. Of equals the alphabetically last is taken, as difflib does.
pub fn closest_match<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    cutoff: f64,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .filter(|candidate| is_similar(candidate, name, cutoff))
        .map(|candidate| (similarity(candidate, name), candidate))
        .max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| first.cmp(second)))
        .map(|(_, candidate)| candidate)
}

#[expect(clippy::cast_precision_loss, reason = "lengths of texts are far below 2^52")]
fn ratio(matched: usize, total: usize) -> f64 {
    if total == 0 { 1.0 } else { 2.0 * matched as f64 / total as f64 }
}

/// Every run both sides share: the longest first, then the longest to its left and right, and so on.
pub(crate) fn matching_blocks<T: Eq + Hash>(a: &[T], b: &[T]) -> Vec<Block> {
    let mut finder = Finder { a, b, places: places(b), steps: MOST_STEPS };
    let mut waiting = vec![(0, a.len(), 0, b.len())];
    let mut blocks = Vec::new();
    while let Some((a_from, a_to, b_from, b_to)) = waiting.pop() {
        let found = finder.longest(a_from, a_to, b_from, b_to);
        if found.len == 0 {
            continue;
        }
        blocks.push(found);
        if a_from < found.a && b_from < found.b {
            waiting.push((a_from, found.a, b_from, found.b));
        }
        let (a_next, b_next) = (found.a + found.len, found.b + found.len);
        if a_next < a_to && b_next < b_to {
            waiting.push((a_next, a_to, b_next, b_to));
        }
    }
    blocks.sort_by_key(|block| block.a);
    let mut merged: Vec<Block> = Vec::with_capacity(blocks.len());
    for block in blocks {
        match merged.last_mut() {
            Some(last) if last.a + last.len == block.a && last.b + last.len == block.b => {
                last.len += block.len;
            }
            _ => merged.push(block),
        }
    }
    merged
}

/// Where each element stands, without those too common to say anything.
fn places<T: Eq + Hash>(b: &[T]) -> HashMap<&T, Vec<usize>> {
    let mut places: HashMap<&T, Vec<usize>> = HashMap::new();
    for (at, element) in b.iter().enumerate() {
        places.entry(element).or_default().push(at);
    }
    if b.len() >= POPULAR_FROM {
        let most = b.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    places
}

struct Finder<'a, T> {
    a: &'a [T],
    b: &'a [T],
    places: HashMap<&'a T, Vec<usize>>,
    steps: usize,
}

impl<T: Eq + Hash> Finder<'_, T> {
    /// The longest run inside the two ranges; the earliest of equals.
    fn longest(&mut self, a_from: usize, a_to: usize, b_from: usize, b_to: usize) -> Block {
        let mut best = Block { a: a_from, b: b_from, len: 0 };
        // Runs that end at the element before: (where in b, how long), by place.
        let mut before: Vec<(usize, usize)> = Vec::new();
        let mut here: Vec<(usize, usize)> = Vec::new();
        for at in a_from..a_to {
            here.clear();
            let places = self.places.get(&self.a[at]).map(Vec::as_slice).unwrap_or_default();
            let first = places.partition_point(|place| *place < b_from);
            let mut earlier = before.iter().peekable();
            for place in places.iter().skip(first).take_while(|place| **place < b_to) {
                if self.steps == 0 {
                    break;
                }
                self.steps -= 1;
                while earlier.next_if(|(ends, _)| ends + 1 < *place).is_some() {}
                let run = match earlier.peek() {
                    Some((ends, len)) if ends + 1 == *place => len + 1,
                    _ => 1,
                };
                here.push((*place, run));
                if run > best.len {
                    best = Block { a: at + 1 - run, b: place + 1 - run, len: run };
                }
            }
            std::mem::swap(&mut before, &mut here);
        }
        // Common elements do not start a run, but they lengthen one.
        while best.a > a_from && best.b > b_from && self.a[best.a - 1] == self.b[best.b - 1] {
            best = Block { a: best.a - 1, b: best.b - 1, len: best.len + 1 };
        }
        while best.a + best.len < a_to
            && best.b + best.len < b_to
            && self.a[best.a + best.len] == self.b[best.b + best.len]
        {
            best.len += 1;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_measure_is_that_of_difflib() {
        // Figures from CPython's difflib.SequenceMatcher(None, a, b).ratio().
        for (a, b, expected) in [
            ("abcd", "bcde", 0.75),
            ("", "", 1.0),
            ("", "x", 0.0),
            (
                "private Thread currentThread;",
                "private volatile Thread currentThread;",
                0.865_671_641_791_044_7,
            ),
            ("tide", "diet", 0.25),
            ("diet", "tide", 0.5),
            ("read_file", "readfile", 0.941_176_470_588_235_3),
        ] {
            assert!((similarity(a, b) - expected).abs() < 1e-12, "{a} {b} {}", similarity(a, b));
        }
    }

    #[test]
    fn what_is_everywhere_is_no_anchor() {
        // The run of 200 cannot be found behind another first letter; one of 199 can.
        for (len, expected) in [(200, 0.0), (199, 398.0 / 399.0)] {
            let run = "a".repeat(len);
            let found = similarity(&format!("b{run}"), &run);
            assert!((found - expected).abs() < 1e-12, "{len}: {found}");
        }
    }

    #[test]
    fn the_closest_name_is_found() {
        let names = ["read_file", "write_file", "patch", "search_files"];
        let find = |name| closest_match(name, names, 0.7);
        assert_eq!(find("readfile"), Some("read_file"));
        assert_eq!(find("serch_file"), Some("search_files"));
        assert_eq!(find("browser"), None);
    }

    proptest! {
        #[test]
        fn blocks_are_equal_ordered_and_apart(a in "[ab\\n]{0,60}", b in "[ab\\n]{0,60}") {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            let (mut a_at, mut b_at) = (0, 0);
            for block in matching_blocks(&a, &b) {
                prop_assert!(block.a >= a_at && block.b >= b_at && block.len > 0);
                prop_assert_eq!(&a[block.a..block.a + block.len], &b[block.b..block.b + block.len]);
                (a_at, b_at) = (block.a + block.len, block.b + block.len);
            }
        }

        #[test]
        fn the_quick_answer_is_the_exact_one(a in "[abc]{0,20}", b in "[abc]{0,20}", cutoff in 0.1f64..0.99) {
            prop_assert_eq!(is_similar(&a, &b, cutoff), similarity(&a, &b) >= cutoff);
        }
    }
}
