//! Edits one typed line, because the terminal's own line mode cuts a line at 4,095 bytes and cannot tell a paste
//! from typing. Pure.

/// Limits the bytes kept of an escape sequence.
const MAX_ESCAPE: usize = 16;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
const TAB: &str = "    ";

/// Describes the effect of one byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// The text the screen is to show.
    Echo(String),
    /// The complete line.
    Line(String),
    /// The end of input, typed on an empty line.
    EndOfInput,
    Nothing,
}

/// A line while it is typed.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: String,
    /// The bytes of an incomplete character.
    partial: Vec<u8>,
    escape: Vec<u8>,
    is_pasting: bool,
}

impl LineBuffer {
    /// Takes the next byte the terminal sent.
    pub(super) fn push(&mut self, byte: u8) -> Typed {
        if !self.escape.is_empty() || byte == 0x1b {
            self.continue_escape(byte);
            return Typed::Nothing;
        }
        match byte {
            b'\n' | b'\r' if self.is_pasting => self.insert("\n"),
            b'\n' | b'\r' => Typed::Line(std::mem::take(&mut self.text)),
            b'\t' => self.insert(TAB),
            0x7f | 0x08 if !self.is_pasting => self.erase(1),
            // Ctrl-U erases the line, Ctrl-W the last word.
            0x15 if !self.is_pasting => self.erase(usize::MAX),
            0x17 if !self.is_pasting => self.erase(self.last_word()),
            0x04 if self.text.is_empty() => Typed::EndOfInput,
            0..=0x1f | 0x7f => Typed::Nothing,
            _ => self.push_text(byte),
        }
    }

    /// Discards the typed text.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the last line if it does not end with a line break, unless it is empty.
    pub(super) fn take_rest(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.text)).filter(|text| !text.is_empty())
    }

    fn push_text(&mut self, byte: u8) -> Typed {
        self.partial.push(byte);
        if std::str::from_utf8(&self.partial).is_err_and(|error| error.error_len().is_none()) {
            return Typed::Nothing;
        }
        let bytes = std::mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.insert(&text)
    }

    fn insert(&mut self, text: &str) -> Typed {
        self.text.push_str(text);
        Typed::Echo(text.to_owned())
    }

    /// Erases characters back to the last line break at most.
    fn erase(&mut self, count: usize) -> Typed {
        let mut columns = 0;
        for _ in 0..count {
            match self.text.chars().next_back() {
                None | Some('\n') => break,
                Some(last) => {
                    columns += columns_of(last);
                    self.text.pop();
                }
            }
        }
        Typed::Echo("\u{8} \u{8}".repeat(columns))
    }

    /// Returns how many characters the last word has, including the blanks after it.
    fn last_word(&self) -> usize {
        let blanks = self.text.chars().rev().take_while(|c| c.is_whitespace() && *c != '\n').count();
        let word = self.text.chars().rev().skip(blanks).take_while(|c| !c.is_whitespace()).count();
        blanks + word
    }

    /// Collects an escape sequence. Only the marks around a paste have an effect.
    fn continue_escape(&mut self, byte: u8) {
        self.escape.push(byte);
        let is_complete = match self.escape.as_slice() {
            [0x1b] | [0x1b, b'[' | b'O'] => false,
            [0x1b, b'[', .., last] => (0x40..=0x7e).contains(last),
            _ => true,
        };
        if is_complete || self.escape.len() >= MAX_ESCAPE {
            match self.escape.as_slice() {
                PASTE_BEGINS => self.is_pasting = true,
                PASTE_ENDS => self.is_pasting = false,
                _ => {}
            }
            self.escape.clear();
        }
    }
}

/// Returns how many columns a character takes: two for East Asian scripts and emoji, none for combining marks.
fn columns_of(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut buffer = LineBuffer::default();
        bytes
            .iter()
            .filter_map(|byte| match buffer.push(*byte) {
                Typed::Line(line) => Some(line),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_line_is_edited_the_way_a_terminal_does() {
        let long = "x".repeat(10_000);
        for (bytes, expected) in [
            (&b"hello\n"[..], vec!["hello"]),
            (b"hallo\x7f\x7f\x7f\x7fello\r", vec!["hello"]),
            (b"one two\x17three\n", vec!["one three"]),
            (b"wrong\x15right\n", vec!["right"]),
            ("größe 日\u{7f}本\n".as_bytes(), vec!["größe 本"]),
            (b"a\x1b[A\x1b[1;5Cb\x1bOPc\n", vec!["abc"]),
            (b"a\xffb\n", vec!["a\u{fffd}b"]),
            (b"\x1b[200~one\rtwo\nthree\x1b[201~ end\n", vec!["one\ntwo\nthree end"]),
            (format!("{long}\n").as_bytes(), vec![long.as_str()]),
            (b"\x7f\x15\x17\n", vec![""]),
        ] {
            assert_eq!(lines(bytes), expected, "{bytes:?}");
        }
        assert_eq!(LineBuffer::default().push(0x04), Typed::EndOfInput);
    }

    #[test]
    fn erasing_takes_back_the_columns_that_were_shown() {
        let mut buffer = LineBuffer::default();
        for byte in "a日".bytes() {
            buffer.push(byte);
        }
        assert_eq!(buffer.push(0x7f), Typed::Echo("\u{8} \u{8}".repeat(2)));
        assert_eq!(buffer.push(0x7f), Typed::Echo("\u{8} \u{8}".to_owned()));
        assert_eq!(buffer.push(0x7f), Typed::Echo(String::new()));
    }
}
