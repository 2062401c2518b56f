//! The turn: from what a person said to the answer, with every step written down as it happens.
//!
//! Names no provider, tool or surface: they come in through ports. Invariants: a message is in the database before the
//! next step begins; every tool call gets exactly one answer, in the order of the calls; a turn ends in one of the
//! states of its row, whatever went wrong.

mod calls;
mod prompt;
mod turn;

pub use prompt::system_prompt;
pub use turn::{Agent, Limits, TurnInput, TurnResult};
