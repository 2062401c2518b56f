//! Converts the Markdown that models write to the dialects of chat platforms.
//!
//! `read` parses a text to blocks and spans, once for all dialects; each renderer writes them in its own syntax.
//! Pure. Invariants: every input renders; formatting that a dialect does not support loses its marks, never its
//! words; the visible text of a rendering is not longer than its Markdown source, so a text that was split before
//! is never too long afterwards.

mod block;
mod html;
mod matrix;
mod plain;
mod signal;
mod slack;
mod span;
mod telegram;
mod whatsapp;

pub use html::html;
pub use matrix::matrix;
pub use plain::plain;
pub use signal::{StyledRange, StyledText, signal};
pub use slack::slack;
pub use telegram::telegram;
pub use whatsapp::whatsapp;

#[cfg(test)]
mod tests;
