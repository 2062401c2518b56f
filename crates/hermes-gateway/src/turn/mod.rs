//! Turns of chats: what the model reads, how a turn is shown while it runs, and what it answers.

mod background;
mod final_message;
mod goal;
mod mark;
mod message;
mod presenter;
mod run;

use std::time::Duration;

pub(crate) use background::{background_message, is_background, shortened};
pub(crate) use goal::{goal_step, is_goal_step};
pub(crate) use message::MessageReader;
pub(crate) use presenter::TurnDisplay;
pub(crate) use run::{TurnParts, TurnRunner};

/// The delay before the database is tried again.
pub(crate) const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);
