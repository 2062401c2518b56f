//! Conversations of chats: their keys, their stored entries, and when they are reset.

mod entry;
mod index;
mod key;
mod reset;
mod transcript;

pub use entry::{ChatOrigin, SessionEntry};
pub use index::SessionIndex;
pub use key::{ConversationSharing, SessionIsolation, session_key};
pub use reset::{ResetReason, reset_reason};
