//! Pictures inside tmux, for terminals with Kitty's protocol: the picture is passed on to the terminal, and its place is text that tmux
//! keeps like any other.
//!
//! A cell of a picture is a private character. Its color is the number of the picture, an accent on it the row; the column follows from
//! the cell before it.

use std::fmt::Write as _;

const CELL: char = '\u{10eeee}';
/// The accents that stand for the first rows.
const ROWS: [char; 24] = [
    '\u{305}', '\u{30d}', '\u{30e}', '\u{310}', '\u{312}', '\u{33d}', '\u{33e}', '\u{33f}', '\u{346}',
    '\u{34a}', '\u{34b}', '\u{34c}', '\u{350}', '\u{351}', '\u{352}', '\u{357}', '\u{35b}', '\u{363}',
    '\u{364}', '\u{365}', '\u{366}', '\u{367}', '\u{368}', '\u{369}',
];
const ESCAPE: char = '\u{1b}';

/// Returns a sequence so that tmux passes it on to its terminal.
pub(super) fn pass_through_tmux(sequence: &str) -> String {
    format!("\u{1b}Ptmux;{}\u{1b}\\", sequence.replace(ESCAPE, "\u{1b}\u{1b}"))
}

/// Returns the number of a picture: the same for the same picture, another for most others. It has three bytes, none of them zero, so
/// that no terminal takes its color for one of a palette.
pub(super) fn number_of(png: &[u8]) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in png {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let [.., one, two, three] = (hash ^ hash >> 24).to_be_bytes();
    u32::from_be_bytes([0, one | 1, two | 1, three | 1])
}

/// Returns the text in whose place the picture is drawn: rows below each other, which begin in the column of the cursor.
pub(super) fn text_of(number: u32, columns: u16, rows: u16) -> String {
    let [_, red, green, blue] = number.to_be_bytes();
    let mut text = format!("\u{1b}[38;2;{red};{green};{blue}m");
    for (row, accent) in ROWS.iter().enumerate().take(usize::from(rows)) {
        if row > 0 {
            let _ = write!(text, "\u{1b}[{columns}D\u{1b}[B");
        }
        for _ in 0..columns {
            text.extend([CELL, *accent]);
        }
    }
    text.push_str("\u{1b}[39m");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_picture_is_a_rectangle_of_text() {
        let text = text_of(0x01_02_03, 3, 2);
        let first = "\u{10eeee}\u{305}".repeat(3);
        let second = "\u{10eeee}\u{30d}".repeat(3);
        assert_eq!(text, format!("\u{1b}[38;2;1;2;3m{first}\u{1b}[3D\u{1b}[B{second}\u{1b}[39m"));
    }

    #[test]
    fn pictures_have_numbers_of_three_bytes() {
        assert_eq!(number_of(b"one"), number_of(b"one"));
        assert_ne!(number_of(b"one"), number_of(b"two"));
        for picture in [&b""[..], b"one", &[0; 100]] {
            let [high, rest @ ..] = number_of(picture).to_be_bytes();
            assert!(high == 0 && rest.iter().all(|byte| *byte > 0), "{picture:?}");
        }
    }

    #[test]
    fn a_sequence_reaches_the_terminal_behind_tmux() {
        assert_eq!(
            pass_through_tmux("\u{1b}_Gq=2;\u{1b}\\"),
            "\u{1b}Ptmux;\u{1b}\u{1b}_Gq=2;\u{1b}\u{1b}\\\u{1b}\\"
        );
    }
}
