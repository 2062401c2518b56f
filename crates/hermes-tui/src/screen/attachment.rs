//! Pictures that go with the next message: how a path of one is recognized, and how they are shown.
//!
//! Looks at no file: whether a path leads to a picture is for the surroundings of the screen.

use std::path::PathBuf;

use ratatui_core::text::{Line, Span};

use crate::glyphs::{StyledLine, cut};
use crate::theme::Theme;

/// The endings of the pictures that models read.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];
/// The longest text that is looked at as a path.
const MAX_PATH_CHARS: usize = 4_096;

/// Tells whether a pasted text can be the path of a picture, as terminals insert it for a dropped file.
pub(super) fn may_be_image_path(text: &str) -> bool {
    let text = text.trim();
    let is_path =
        text.starts_with(['/', '~', '.', '"', '\'']) || text.starts_with("file://") || is_drive(text);
    let end = text.trim_end_matches(['"', '\'']).to_ascii_lowercase();
    is_path
        && !text.contains('\n')
        && text.len() <= MAX_PATH_CHARS
        && ENDINGS.iter().any(|ending| end.ends_with(ending))
}

/// Tells whether a text begins as a path of Windows does, which WSL terminals insert.
fn is_drive(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.as_str().starts_with(":\\")
}

/// Describes the pictures of a message that was sent.
pub(super) fn describe(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("📎 {count} image{plural} attached")
}

/// Draws the pictures that wait for the message; no row if there are none.
pub(super) fn badges(images: &[PathBuf], width: usize, theme: &Theme) -> Option<StyledLine> {
    if images.is_empty() {
        return None;
    }
    let mut line = Line::default();
    for number in 1..=images.len() {
        line.spans.push(Span::styled(format!(" [📎 Image #{number}]"), theme.label));
    }
    line.spans.push(Span::styled("  Backspace removes the last", theme.dim));
    Some(cut(&line, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pictures_are_told_from_text() {
        for text in [
            "/tmp/a b.PNG",
            "~/shot.jpg",
            "'/tmp/it is.webp'",
            "/tmp/with\\ blank.gif ",
            "file:///tmp/x.jpeg",
            "C:\\Users\\me\\x.png",
        ] {
            assert!(may_be_image_path(text), "{text}");
        }
        for text in ["look at a.png", "/tmp/a.rs", "/a.png\n/b.png", "png", "http://example.org/a.png"] {
            assert!(!may_be_image_path(text), "{text}");
        }
    }
}
