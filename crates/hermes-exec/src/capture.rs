//! Captures output while it streams: the beginning, the end, and the total length.
//!
//! Memory is bounded from the first byte on: a command that prints without end costs no more than one that
//! prints a page. Bytes that are not UTF-8 are replaced, also when a character arrives in two pieces. Bytes
//! that open or close a control sequence in its 8-bit form become that control character, so that code that
//! strips sequences recognizes them.

use std::collections::VecDeque;

const HEAD_CHARS: usize = 20_000;
const TAIL_CHARS: usize = 30_000;
/// The characters kept beyond the tail for a mark at the very end, which is removed before the text is cut.
const SLACK_CHARS: usize = 8_192;

/// Limits how much of an output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBounds {
    pub head: usize,
    pub tail: usize,
}

impl Default for OutputBounds {
    fn default() -> Self {
        Self { head: HEAD_CHARS, tail: TAIL_CHARS }
    }
}

impl OutputBounds {
    /// Returns bounds for a total of `chars` characters, divided in the same proportion as the default.
    pub fn with_total(chars: usize) -> Self {
        let head = chars.saturating_mul(2) / 5;
        Self { head, tail: chars - head }
    }
}

/// Collects an output within its bounds.
#[derive(Debug)]
pub(crate) struct OutputCapture {
    bounds: OutputBounds,
    head: String,
    head_chars: usize,
    tail: VecDeque<char>,
    total: usize,
    decoder: Utf8Decoder,
}

impl OutputCapture {
    pub(crate) fn new(bounds: OutputBounds) -> Self {
        Self {
            bounds,
            head: String::new(),
            head_chars: 0,
            tail: VecDeque::new(),
            total: 0,
            decoder: Utf8Decoder::default(),
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let text = self.decoder.decode(bytes);
        self.append(&text);
    }

    fn append(&mut self, text: &str) {
        for c in text.chars() {
            self.total += 1;
            if self.head_chars < self.bounds.head {
                self.head.push(c);
                self.head_chars += 1;
                continue;
            }
            if self.tail.len() >= self.bounds.tail + SLACK_CHARS {
                self.tail.pop_front();
            }
            self.tail.push_back(c);
        }
    }

    pub(crate) fn finish(mut self) -> CapturedOutput {
        let rest = self.decoder.finish();
        self.append(&rest);
        let kept_whole = self.total == self.head_chars + self.tail.len();
        let tail: String = self.tail.into_iter().collect();
        let (head, tail) = if kept_whole { (String::new(), self.head + &tail) } else { (self.head, tail) };
        CapturedOutput { bounds: self.bounds, head, tail, total: self.total, complete: kept_whole }
    }
}

/// An output that has ended.
#[derive(Debug)]
pub(crate) struct CapturedOutput {
    bounds: OutputBounds,
    /// The beginning of the output; empty as long as nothing had to be omitted.
    head: String,
    tail: String,
    total: usize,
    complete: bool,
}

impl CapturedOutput {
    /// Removes the last `prefix…suffix` and returns the text between the two.
    pub(crate) fn take_mark(&mut self, prefix: &str, suffix: &str) -> Option<String> {
        let start = self.tail.rfind(prefix)?;
        let inner = self.tail.get(start + prefix.len()..)?;
        let length = inner.find(suffix)?;
        let found = inner.get(..length)?.to_owned();
        let end = start + prefix.len() + length + suffix.len();
        self.total -= self.tail.get(start..end).map_or(0, |mark| mark.chars().count());
        self.tail.replace_range(start..end, "");
        Some(found)
    }

    /// Returns the text within its bounds, with a notice where something was omitted.
    pub(crate) fn text(self) -> String {
        let OutputBounds { head, tail } = self.bounds;
        let most = head + tail;
        if self.total <= most && self.complete {
            return self.tail;
        }
        let front: String = if self.complete { self.tail.chars().take(head).collect() } else { self.head };
        let chars = self.tail.chars().count();
        let back: String = self.tail.chars().skip(chars.saturating_sub(tail)).collect();
        let omitted = self.total.saturating_sub(most);
        if omitted == 0 {
            // Only the mark had pushed the output over the bound.
            return front + &back;
        }
        format!(
            "{front}\n\n... [OUTPUT TRUNCATED - {omitted} chars omitted out of {} total] ...\n\n{back}",
            self.total
        )
    }
}

/// Decodes bytes to text and puts the replacement character where they are not UTF-8.
#[derive(Debug, Default)]
pub(crate) struct Utf8Decoder {
    /// The beginning of a character whose remaining bytes have not arrived yet; at most three bytes.
    unfinished: Vec<u8>,
}

impl Utf8Decoder {
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> String {
        let mut bytes = if self.unfinished.is_empty() {
            bytes.to_vec()
        } else {
            let mut joined = std::mem::take(&mut self.unfinished);
            joined.extend_from_slice(bytes);
            joined
        };
        let last = bytes.utf8_chunks().last();
        let kept_back = match last {
            // Only an incomplete end is worth waiting for. `error_len` is not available here, so the code
            // checks whether any continuation could make the bytes valid.
            Some(chunk) if !chunk.invalid().is_empty() && is_beginning(chunk.invalid()) => {
                chunk.invalid().len()
            }
            _ => 0,
        };
        self.unfinished = bytes.split_off(bytes.len() - kept_back);
        decode(&bytes)
    }

    pub(crate) fn finish(&mut self) -> String {
        decode(&std::mem::take(&mut self.unfinished))
    }
}

/// Decodes the output of a program as text.
pub(crate) fn decode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        match chunk.invalid() {
            [] => {}
            [control @ (0x90 | 0x98 | 0x9b..=0x9f)] => text.push(char::from(*control)),
            _ => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    text
}

fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(bounds: OutputBounds, pieces: &[&[u8]]) -> CapturedOutput {
        let mut capture = OutputCapture::new(bounds);
        for piece in pieces {
            capture.push(piece);
        }
        capture.finish()
    }

    #[test]
    fn what_fits_comes_back_as_it_was() {
        assert_eq!(captured(OutputBounds::default(), &[b"a\n", b"b"]).text(), "a\nb");
        assert_eq!(captured(OutputBounds { head: 2, tail: 2 }, &[b"abcd"]).text(), "abcd");
    }

    #[test]
    fn a_control_sequence_in_its_8_bit_form_is_one_for_whoever_strips_it() {
        let heard =
            captured(OutputBounds::default(), &[b"a\x9b31", b"mred\x9b0m \x9d0;title\x9c\xe2\x9b\x84 \xff"]);
        assert_eq!(hermes_guard::strip_ansi(&heard.text()), "ared ⛄ \u{fffd}");
    }

    #[test]
    fn the_middle_goes_and_the_count_is_true() {
        let text = captured(OutputBounds { head: 2, tail: 3 }, &[&vec![b'x'; 100_000], b"end"]).text();
        assert_eq!(text, "xx\n\n... [OUTPUT TRUNCATED - 99998 chars omitted out of 100003 total] ...\n\nend");
        let text = captured(OutputBounds { head: 2, tail: 2 }, &[b"abcde"]).text();
        assert_eq!(text, "ab\n\n... [OUTPUT TRUNCATED - 1 chars omitted out of 5 total] ...\n\nde");
    }

    #[test]
    fn a_mark_is_taken_off_and_not_counted() {
        let mut output = captured(OutputBounds { head: 2, tail: 2 }, &[b"abcd", b"\n[M]/x[M]\n"]);
        assert_eq!(output.take_mark("\n[M]", "[M]\n").as_deref(), Some("/x"));
        assert_eq!(output.text(), "abcd");
        let mut output = captured(OutputBounds::default(), &[b"\n[M]/x[M]\nlate"]);
        assert_eq!(output.take_mark("\n[M]", "[M]\n").as_deref(), Some("/x"));
        assert_eq!(output.text(), "late");
        assert_eq!(captured(OutputBounds::default(), &[b"none"]).take_mark("\n[M]", "[M]\n"), None);
    }

    #[test]
    fn a_mark_that_alone_crossed_the_bound_costs_nothing() {
        let filler = vec![b'y'; SLACK_CHARS + 2];
        let mut output = captured(OutputBounds { head: 2, tail: 2 }, &[b"ab", &filler, b"\n[M]/x[M]\n"]);
        assert_eq!(output.take_mark("\n[M]", "[M]\n").as_deref(), Some("/x"));
        assert!(output.text().contains("chars omitted out of 8196 total"));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in 0usize..60) {
            let cut = cut.min(bytes.len());
            let (front, back) = bytes.split_at(cut);
            let text = captured(OutputBounds::default(), &[front, back]).text();
            prop_assert_eq!(text, decode(&bytes));
        }
    }
}
