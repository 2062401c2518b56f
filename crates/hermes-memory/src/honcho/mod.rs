//! Honcho: a service that models the people of a conversation from what they say.
//!
//! `settings.rs` reads its file, `session_name.rs` names conversations, `engine.rs` talks to it.

mod engine;
mod session_name;
mod settings;

pub(crate) use engine::Honcho;
pub use session_name::plain_name;
pub use settings::{
    HonchoFile, HonchoMemoryMode, HonchoRecallMode, HonchoSessionStrategy, HonchoSettings,
    HonchoWriteFrequency, REASONING_LEVELS,
};
