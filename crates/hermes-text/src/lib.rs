//! Pure functions on text. No I/O, no clock, no state: the same input always gives the same output.
//!
//! "chars" means Unicode scalar values everywhere, never bytes; no function here can split a character or panic on
//! any input.

mod bound;
mod search_query;
mod sse;
mod think;
mod title;
mod tokens;

pub use bound::{ellipsize, head, head_and_tail, single_line, tail};
pub use search_query::SearchQuery;
pub use sse::{SseEvent, SseParser, SseTooLarge};
pub use think::{Scrubbed, ThinkScrubber, extract_inline_reasoning, strip_think};
pub use title::{Title, TitleTooLong, next_title, title_base};
pub use tokens::estimate_tokens;
