//! The Markdown that models write, in the dialects of chat platforms.
//!
//! `read` makes blocks and spans of a text, once for all dialects; each renderer puts them on paper in its own way. Pure.
//! Invariants: every input renders; what a dialect cannot say loses its marks, never its words; the visible text of a
//! rendering is not longer than the Markdown it came from, so a text that was split before is never too long after.

mod block;
mod plain;
mod slack;
mod span;
mod telegram;

pub use plain::plain;
pub use slack::slack;
pub use telegram::telegram;

#[cfg(test)]
mod tests;
