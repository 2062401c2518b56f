//! Conversations of chats: their keys, what is kept about them, when they begin anew.

mod entry;
mod index;
mod key;
mod reset;
mod transcript;

pub use entry::{ChatOrigin, SessionEntry};
pub use index::SessionIndex;
pub use key::{ConversationSharing, SessionIsolation, session_key};
pub use reset::{ResetReason, reset_reason};
