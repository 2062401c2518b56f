//! The similarity of two texts, as in Python's difflib: twice the length of all matching blocks over the length of
//! both.
//!
//! Holds the block finder that the line diff uses too. Callers choose thresholds. Invariant: the blocks are in
//! order, do not overlap, and cover equal elements on both sides.

/// The length from which on very common elements are not used as anchors.
const POPULAR_MIN_LENGTH: usize = 200;

/// The most comparisons before the rest counts as different, so that comparing two large, unrelated texts ends.
const MAX_STEPS: usize = 20_000_000;

/// A run of equal elements: its start on each side, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatchingBlock {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) len: usize,
}

/// A text prepared for comparison with many others.
#[derive(Debug)]
pub(crate) struct ComparableText {
    chars: Vec<char>,
    places: ElementPositions,
    /// The counts of characters in a few classes: enough to tell most unrelated texts apart without comparing them.
    classes: [u16; Self::CLASSES],
}

impl ComparableText {
    const CLASSES: usize = 32;

    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut classes = [0_u16; Self::CLASSES];
        for c in &chars {
            let class = &mut classes[*c as usize % Self::CLASSES];
            *class = class.saturating_add(1);
        }
        let places = ElementPositions::of(&chars);
        Self { chars, places, classes }
    }

    /// Returns the similarity of this text to `other`.
    pub(crate) fn similarity(&self, other: &Self) -> f64 {
        let blocks = blocks(&self.chars, &other.chars, &other.places);
        ratio(blocks.iter().map(|block| block.len).sum(), self.chars.len() + other.chars.len())
    }

    /// Tells whether the similarity reaches `cutoff`; cheap for texts that cannot.
    pub(crate) fn is_similar(&self, other: &Self, cutoff: f64) -> bool {
        let total = self.chars.len() + other.chars.len();
        if ratio(self.chars.len().min(other.chars.len()), total) < cutoff {
            return false;
        }
        let shared = self.classes.iter().zip(&other.classes).map(|(a, b)| usize::from(*a.min(b))).sum();
        // Saturated counts are not usable.
        let counted = !self.classes.iter().chain(&other.classes).any(|count| *count == u16::MAX);
        (!counted || ratio(shared, total) >= cutoff) && self.similarity(other) >= cutoff
    }
}

/// Returns the similarity, between 0 (nothing in common) and 1 (equal). Two empty texts are equal.
pub fn similarity(a: &str, b: &str) -> f64 {
    ComparableText::new(a).similarity(&ComparableText::new(b))
}

/// Tells whether the similarity reaches `cutoff`; cheap for texts that cannot.
pub fn is_similar(a: &str, b: &str, cutoff: f64) -> bool {
    ComparableText::new(a).is_similar(&ComparableText::new(b), cutoff)
}

/// Returns the candidate most similar to `name`, if it reaches `cutoff`. Of equals the alphabetically last is
/// returned, as in difflib.
pub fn closest_match<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    cutoff: f64,
) -> Option<&'a str> {
    let name = ComparableText::new(name);
    candidates
        .into_iter()
        .map(|candidate| (ComparableText::new(candidate).similarity(&name), candidate))
        .filter(|(score, _)| *score >= cutoff)
        .max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| first.cmp(second)))
        .map(|(_, candidate)| candidate)
}

#[expect(clippy::cast_precision_loss, reason = "lengths of texts are far below 2^52")]
fn ratio(matched: usize, total: usize) -> f64 {
    if total == 0 { 1.0 } else { 2.0 * matched as f64 / total as f64 }
}

/// The positions of each element of a sequence, ordered by element, without elements that are too common.
#[derive(Debug)]
struct ElementPositions(Vec<usize>);

impl ElementPositions {
    fn of<T: Ord>(elements: &[T]) -> Self {
        let mut order: Vec<usize> = (0..elements.len()).collect();
        order.sort_by(|a, b| elements[*a].cmp(&elements[*b]).then(a.cmp(b)));
        if elements.len() >= POPULAR_MIN_LENGTH {
            let most = elements.len() / 100 + 1;
            let groups =
                order.chunk_by(|a, b| elements[*a] == elements[*b]).filter(|group| group.len() <= most);
            order = groups.flatten().copied().collect();
        }
        Self(order)
    }

    /// Returns the range of one element's positions, in order.
    fn find<T: Ord>(&self, elements: &[T], wanted: &T) -> (usize, usize) {
        let from = self.0.partition_point(|at| elements[*at] < *wanted);
        let rest = &self.0[from..];
        (from, from + rest.partition_point(|at| elements[*at] == *wanted))
    }
}

/// Returns every run that both sides share: the longest first, then the longest to its left and right, and so on.
pub(crate) fn matching_blocks<T: Ord>(a: &[T], b: &[T]) -> Vec<MatchingBlock> {
    blocks(a, b, &ElementPositions::of(b))
}

fn blocks<T: Ord>(a: &[T], b: &[T], places: &ElementPositions) -> Vec<MatchingBlock> {
    let found = a.iter().map(|element| places.find(b, element)).collect();
    let mut finder = Finder { a, b, places, found, steps: MAX_STEPS };
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
    let mut merged: Vec<MatchingBlock> = Vec::with_capacity(blocks.len());
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

struct Finder<'a, T> {
    a: &'a [T],
    b: &'a [T],
    places: &'a ElementPositions,
    /// The range of positions for each element of `a`.
    found: Vec<(usize, usize)>,
    steps: usize,
}

impl<T: Ord> Finder<'_, T> {
    /// Returns the longest run inside the two ranges; the earliest of equals.
    fn longest(&mut self, a_from: usize, a_to: usize, b_from: usize, b_to: usize) -> MatchingBlock {
        let mut best = MatchingBlock { a: a_from, b: b_from, len: 0 };
        // Runs that end at the previous element: (position in b, length), by position.
        let mut before: Vec<(usize, usize)> = Vec::new();
        let mut here: Vec<(usize, usize)> = Vec::new();
        for at in a_from..a_to {
            here.clear();
            let (from, to) = self.found[at];
            let places = &self.places.0[from..to];
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
                    best = MatchingBlock { a: at + 1 - run, b: place + 1 - run, len: run };
                }
            }
            std::mem::swap(&mut before, &mut here);
        }
        // Common elements do not start a run, but they extend one.
        while best.a > a_from && best.b > b_from && self.a[best.a - 1] == self.b[best.b - 1] {
            best = MatchingBlock { a: best.a - 1, b: best.b - 1, len: best.len + 1 };
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
        // Values from CPython's difflib.SequenceMatcher(None, a, b).ratio().
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
        // The run of 200 cannot be found after another first letter; one of 199 can.
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
