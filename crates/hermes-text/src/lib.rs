//! Pure functions on text. No I/O, no clock, no state: the same input always gives the same output.
//!
//! "chars" means Unicode scalar values everywhere, never bytes; no function here can split a character or panic on
//! any input.

pub mod dialect;
mod diff;
mod escape;
mod fuzzy;
mod json_tree;
mod number;
mod search_query;
mod shell_words;
mod similarity;
mod split;
mod spoken;
mod sse;
mod think;
mod title;
mod tokens;
mod tool_parser;
mod truncate;
mod v4a;

pub use diff::{DiffLine, diff_lines, unified_diff};
pub use escape::{escape_control, escape_terminal};
pub use fuzzy::{FuzzyError, FuzzyReplacement, MatchStrategy, Occurrences, fuzzy_replace, similar_passages};
pub use json_tree::{JsonTree, JsonTreeError};
pub use number::with_commas;
pub use search_query::SearchQuery;
pub use shell_words::split_words;
pub use similarity::{closest_match, is_similar, similarity};
pub use split::{length, split};
pub use spoken::spoken_words;
pub use sse::{SseEvent, SseParser, SseTooLarge};
pub use think::{ScrubbedText, ThinkScrubber, extract_inline_reasoning, strip_recalled, strip_think};
pub use title::{Title, TitleTooLong, next_title, title_base};
pub use tokens::estimate_tokens;
pub use tool_parser::{ParsedToolText, RawToolCall, ToolCallParser, ToolCallStream, UnknownToolParser};
pub use truncate::{ellipsize, head, head_and_tail, single_line, tail};
pub use v4a::{Hunk, HunkError, HunkLine, PatchError, PatchOp, apply_hunks, parse_patch};
