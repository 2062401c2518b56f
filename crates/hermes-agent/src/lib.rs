//! The turn: from what a person said to the answer, with every step written down as it happens.
//!
//! Names no provider, tool or surface: they come in through ports. Invariants: a message is in the database before the
//! next step begins; a finished call and its result are written together; every call gets exactly one answer, in the
//! order of the calls; a turn ends in one of the states of its row, whatever went wrong; what is sent is a copy, and
//! nothing that was only meant to be sent is stored.

mod agent;
mod aside;
mod batch;
mod calls;
mod chat;
mod compress;
mod conversation;
mod driver;
mod error;
mod gauge;
mod lease;
mod log;
mod pressure;
mod prompt;
mod reply;
mod request;
mod result;
mod review;
mod spill;
mod subagent;
mod title;
mod turn;
mod unanswered;

pub use agent::{
    Agent, Asking, Calendar, Compression, CompressionMode, Folders, Learning, Limits, Logs, Unpriced,
};
pub use chat::{Chat, Interrupt};
pub use compress::Compressed;
pub use conversation::{Conversation, CutOff, TakenUp};
pub use driver::{PastTurn, TurnOutcome, TurnRequest, TurnWork, account};
pub use error::Error;
pub use gauge::{message_tokens, tool_tokens};
pub use log::LaterLogs;
pub use prompt::{Enforcement, Files, HintChange, PromptSource, SessionIdLine, join as join_layers};
pub use reply::last_words;
pub use result::TurnResult;
pub use review::ReviewDue;
pub use turn::Said;
