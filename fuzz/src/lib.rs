//! What must hold for any bytes.
//!
//! One function per target; each panics when a law is broken. No panic, no hang and bounded memory go without saying: the
//! fuzzer watches those. The laws here are the ones that a crash would not show.

mod answers;
mod documents;
mod frames;
mod patches;
mod refusals;
mod skills;
mod streams;
mod texts;
mod tool_calls;

pub use answers::plain_answers;
pub use documents::documents;
pub use patches::patches;
pub use refusals::remedies;
pub use skills::skill_scan;
pub use streams::{anthropic_stream, chat_stream, converse_stream, responses_stream};
pub use texts::{search_query, sse, think, title};
pub use tool_calls::tool_calls;

/// Three ways to cut the same bytes: whole, one at a time, and in pieces whose sizes follow from the bytes.
fn cuts(bytes: &[u8]) -> [Vec<&[u8]>; 3] {
    [vec![bytes], bytes.chunks(1).collect(), uneven(bytes)]
}

fn uneven(bytes: &[u8]) -> Vec<&[u8]> {
    let mut state =
        bytes.iter().fold(bytes.len() as u32, |state, byte| state.rotate_left(5) ^ u32::from(*byte));
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = 1 + (state >> 27) as usize;
        let (piece, after) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
