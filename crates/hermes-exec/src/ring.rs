//! A buffer for the newest part of a continuing output.

use crate::capture::Utf8Decoder;

const MOST_CHARS: usize = 200_000;

/// The last 200,000 characters of an output, and how many there were in all.
#[derive(Debug, Default)]
pub(crate) struct RingBuffer {
    /// The kept text, up to twice the bound, so that its beginning is removed rarely.
    text: String,
    chars: usize,
    total: u64,
    decoder: Utf8Decoder,
}

impl RingBuffer {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let text = self.decoder.decode(bytes);
        self.append(&text);
    }

    pub(crate) fn finish(&mut self) {
        let text = self.decoder.finish();
        self.append(&text);
    }

    fn append(&mut self, text: &str) {
        let added = text.chars().count();
        self.text.push_str(text);
        self.chars += added;
        self.total += added as u64;
        if self.chars > 2 * MOST_CHARS {
            self.text = self.last(MOST_CHARS).to_owned();
            self.chars = MOST_CHARS;
        }
    }

    /// Returns at most `chars` characters from the end.
    pub(crate) fn last(&self, chars: usize) -> &str {
        let chars = chars.min(MOST_CHARS);
        let skipped = self.chars.saturating_sub(chars);
        let start = self.text.char_indices().nth(skipped).map_or(self.text.len(), |(at, _)| at);
        self.text.get(start..).unwrap_or_default()
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_stays_and_everything_counts() {
        let mut ring = RingBuffer::default();
        for _ in 0..5 {
            ring.push("ä".repeat(100_000).as_bytes());
        }
        ring.push(b"end");
        assert_eq!((ring.total(), ring.last(3)), (500_003, "end"));
        assert_eq!(ring.last(usize::MAX).chars().count(), MOST_CHARS);
        assert_eq!(RingBuffer::default().last(9), "");
    }
}
