//! Clips output by bytes: keeps the beginning, the end, and the total length.
//!
//! Memory is bounded from the first byte on, and no cut falls within a character.

use std::collections::VecDeque;

use crate::capture::decode;

/// Collects an output within its limits.
#[derive(Debug)]
pub(crate) struct OutputClipper {
    head_limit: usize,
    tail_limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    chars: usize,
}

/// An output that has ended. The text between the two parts was omitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClippedOutput {
    pub head: String,
    pub tail: String,
    /// The number of omitted characters.
    pub omitted: usize,
    /// The number of characters in the whole output.
    pub total: usize,
}

impl OutputClipper {
    pub(crate) fn new(head_limit: usize, tail_limit: usize) -> Self {
        Self { head_limit, tail_limit, head: Vec::new(), tail: VecDeque::new(), chars: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.chars += bytes.iter().filter(|byte| starts_character(**byte)).count();
        let room = self.head_limit.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
    }

    pub(crate) fn finish(mut self) -> ClippedOutput {
        let kept_chars = |bytes: &[u8]| bytes.iter().filter(|byte| starts_character(**byte)).count();
        let mut tail: Vec<u8> = self.tail.into();
        if kept_chars(&self.head) + kept_chars(&tail) == self.chars {
            self.head.append(&mut tail);
            let head = decode(&self.head);
            return ClippedOutput { head, total: self.chars, ..ClippedOutput::default() };
        }
        let broken = tail.iter().take_while(|byte| !starts_character(**byte)).count();
        tail.drain(..broken);
        while decode(&self.head).ends_with(char::REPLACEMENT_CHARACTER) {
            self.head.pop();
        }
        let omitted = self.chars - kept_chars(&self.head) - kept_chars(&tail);
        ClippedOutput { head: decode(&self.head), tail: decode(&tail), omitted, total: self.chars }
    }
}

fn starts_character(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limits: (usize, usize), text: &str, expected: (&str, &str, usize)) {
        for size in [1, 2, 3, 1000] {
            let mut clip = OutputClipper::new(limits.0, limits.1);
            text.as_bytes().chunks(size).for_each(|piece| clip.push(piece));
            let clipped = clip.finish();
            assert_eq!((clipped.head.as_str(), clipped.tail.as_str(), clipped.omitted), expected, "{text}");
            assert_eq!(clipped.total, text.chars().count());
        }
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        check((2, 3), "abcde", ("abcde", "", 0));
        check((2, 3), "abcdefgh", ("ab", "fgh", 3));
        check((4, 0), "abcdefgh", ("abcd", "", 4));
        check((4, 4), "äöüäöüäöü", ("äö", "öü", 5));
        check((3, 3), "äöüäöüäöü", ("ä", "ü", 7));
        check((3, 3), "äöü", ("äöü", "", 0));
    }
}
