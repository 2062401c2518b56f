//! Conversations of chats: their keys, what is kept about them, when they begin anew.

mod entry;
mod index;
mod key;
mod reset;
mod transcript;

pub use entry::{Entry, Origin};
pub use index::Index;
pub use key::{Isolation, Sharing, session_key};
pub use reset::{ResetReason, expired};
