//! Menus with arrow keys, and hidden input.
//!
//! Invariant: the terminal is in its original mode when a function returns, whatever happened in between.

use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// Restores the terminal's original mode when dropped.
struct TerminalModeGuard {
    before: Termios,
}

impl TerminalModeGuard {
    /// Changes the terminal's mode, to read single keys or hidden lines.
    fn enter(change: impl FnOnce(&mut Termios)) -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut now = before.clone();
        change(&mut now);
        tcsetattr(io::stdin(), OptionalActions::Flush, &now).ok()?;
        Some(Self { before })
    }
}

impl Drop for TerminalModeGuard {
    fn drop(&mut self) {
        // A failure means that the terminal is gone; there is nothing to restore.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Reads a line without showing it. Returns `None` where there is no terminal, at the end of input, and when the user
/// leaves with Ctrl+C.
pub(crate) fn read_hidden_line(question: &str) -> Option<String> {
    let mode = TerminalModeGuard::enter(|mode| {
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
    })?;
    let mut screen = io::stderr();
    let _ = write!(screen, "{question}").and_then(|()| screen.flush());
    let mut line = Vec::new();
    let mut input = io::stdin().lock();
    let typed = loop {
        let mut byte = [0_u8];
        match input.read(&mut byte) {
            Ok(1) => match byte {
                [b'\r' | b'\n'] => break Some(()),
                [0x03] => break None,
                [0x04] if line.is_empty() => break None,
                [0x15] => line.clear(),
                [0x7f | 0x08] => {
                    // The last character may be several bytes.
                    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
                }
                [byte] => line.push(byte),
            },
            _ => break None,
        }
    };
    drop(mode);
    let _ = writeln!(screen);
    typed.map(|()| String::from_utf8_lossy(&line).trim().to_owned())
}

/// The meaning of a key in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Up,
    Down,
    Choose,
    Leave,
    Number(usize),
    Other,
}

/// Lets the user choose one of the rows. Returns `None` when they leave.
pub(crate) fn choose(title: &str, rows: &[String], first: usize) -> Option<usize> {
    let mode = TerminalModeGuard::enter(|mode| {
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
    })?;
    let mut list = MenuList { rows, at: first.min(rows.len().saturating_sub(1)) };
    let mut screen = io::stderr();
    let _ = writeln!(screen, "{title}  (arrows and Enter; q leaves)");
    let _ = write!(screen, "{}", list.draw());
    let chosen = loop {
        let _ = screen.flush();
        let mut bytes = [0_u8; 16];
        let read = io::stdin().lock().read(&mut bytes).unwrap_or(0);
        match list.press_all(bytes.get(..read).unwrap_or_default()) {
            KeyOutcome::Moved => {
                let _ = write!(screen, "\x1b[{}A\x1b[J{}", rows.len(), list.draw());
            }
            KeyOutcome::Chosen(at) => break Some(at),
            KeyOutcome::Cancelled => break None,
            KeyOutcome::Ignored => {}
        }
    };
    drop(mode);
    chosen
}

struct MenuList<'a> {
    rows: &'a [String],
    at: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum KeyOutcome {
    Moved,
    Chosen(usize),
    Cancelled,
    Ignored,
}

impl MenuList<'_> {
    fn draw(&self) -> String {
        let line = |(at, row): (usize, &String)| format!("{} {row}\n", if at == self.at { "❯" } else { " " });
        self.rows.iter().enumerate().map(line).collect()
    }

    /// Presses the keys that arrived together, up to one that ends the menu.
    fn press_all(&mut self, bytes: &[u8]) -> KeyOutcome {
        let mut outcome = KeyOutcome::Ignored;
        let mut rest = bytes;
        loop {
            let length = match rest {
                [0x1b, b'[' | b'O', _, ..] => 3,
                _ => rest.len().min(1),
            };
            let (next, later) = rest.split_at(length);
            match self.press(key(next)) {
                KeyOutcome::Ignored => {}
                KeyOutcome::Moved => outcome = KeyOutcome::Moved,
                last => return last,
            }
            if later.is_empty() {
                return outcome;
            }
            rest = later;
        }
    }

    fn press(&mut self, key: Key) -> KeyOutcome {
        let count = self.rows.len();
        match key {
            Key::Up if count > 0 => self.at = (self.at + count - 1) % count,
            Key::Down if count > 0 => self.at = (self.at + 1) % count,
            Key::Choose if count > 0 => return KeyOutcome::Chosen(self.at),
            Key::Number(number) if (1..=count).contains(&number) => return KeyOutcome::Chosen(number - 1),
            Key::Leave => return KeyOutcome::Cancelled,
            _ => return KeyOutcome::Ignored,
        }
        KeyOutcome::Moved
    }
}

fn key(bytes: &[u8]) -> Key {
    match bytes {
        b"\x1b[A" | b"\x1bOA" | b"k" => Key::Up,
        b"\x1b[B" | b"\x1bOB" | b"j" | b"\t" => Key::Down,
        b"\r" | b"\n" | b" " => Key::Choose,
        // The end of input, Ctrl+C and Ctrl+D leave too.
        b"" | b"\x1b" | b"q" | b"\x03" | b"\x04" => Key::Leave,
        [digit @ b'1'..=b'9'] => Key::Number(usize::from(digit - b'0')),
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_move_around_and_enter_chooses() {
        let rows = ["a", "b", "c"].map(str::to_owned);
        let mut list = MenuList { rows: &rows, at: 0 };
        assert_eq!(list.press(key(b"\x1b[A")), KeyOutcome::Moved);
        assert_eq!(list.at, 2, "up from the first is the last");
        assert_eq!(list.press(key(b"j")), KeyOutcome::Moved);
        assert_eq!(list.press(key(b"\x1bOB")), KeyOutcome::Moved);
        assert_eq!(list.draw(), "  a\n❯ b\n  c\n");
        assert_eq!(list.press(key(b"\r")), KeyOutcome::Chosen(1));
        assert_eq!(list.press(key(b"3")), KeyOutcome::Chosen(2));
        assert_eq!(list.press(key(b"9")), KeyOutcome::Ignored);
        assert_eq!(list.press(key(b"x")), KeyOutcome::Ignored);
        for leave in [&b"q"[..], b"\x1b", b"\x03", b""] {
            assert_eq!(list.press(key(leave)), KeyOutcome::Cancelled);
        }
        assert_eq!(list.press_all(b"\x1b[B\x1b[B\r"), KeyOutcome::Chosen(0), "keys that arrive together");
        assert_eq!(list.press_all(b"\x1b[Bxj"), KeyOutcome::Moved);
        assert_eq!((list.at, list.press_all(b"")), (2, KeyOutcome::Cancelled));
        let mut empty = MenuList { rows: &[], at: 0 };
        assert_eq!(empty.press(key(b"\r")), KeyOutcome::Ignored);
    }
}
