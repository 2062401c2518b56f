//! The turn: from a user's message to the answer, with every step stored as it happens.
//!
//! Names no provider, tool or platform: they come in through ports. Invariants: a message is in the database
//! before the next step begins; a finished call and its result are written together; every call gets exactly one
//! answer, in the order of the calls; a turn ends in one of the states of its row, whatever went wrong; what is
//! sent is a copy, and nothing that was only meant to be sent is stored.

mod agent;
mod branch;
mod builder;
mod chat;
mod compress;
mod consolidation;
mod conversation;
mod driver;
mod error;
mod goal;
mod hooks;
mod lease;
mod log;
mod prompt;
mod recall;
mod result;
mod review;
mod settings;
mod side_task;
mod speaker_profile;
mod subagent;
mod title;
mod turn;
mod vector_index;
mod working_place;

pub use agent::{Agent, AgentModels, Calendar, ModelIdentityLine};
pub use builder::AgentBuilder;
pub use chat::{Chat, Interrupt};
pub use compress::{CompressionPreview, CompressionReport};
pub use consolidation::ConsolidationAdviser;
pub use conversation::{Conversation, LoadedConversation, UnfinishedTurn};
pub use driver::{Naming, PastTurn, STOP_GRACE, TurnOutcome, TurnRequest, TurnWork, describe_calls};
pub use error::Error;
pub use goal::{Goal, GoalState, GoalStep, Goals};
pub use log::DeferredSessionLogs;
pub use prompt::{
    ContextFiles, HintChange, PromptSource, SessionIdLine, SkillList, ToolUseEnforcement, join as join_layers,
};
pub use recall::TranscriptRecall;
pub use result::{NO_RESPONSE, TurnEnding, TurnResult};
pub use settings::{
    AgentFolders, Compression, CompressionMode, RequestOptions, ReviewIntervals, SessionLogMode, TurnLimits,
    UnknownPricePolicy,
};
pub use speaker_profile::SpeakerProfile;
pub use turn::TurnInput;
pub use turn::gauge::{message_tokens, tool_tokens};
pub use turn::reply::final_text;
pub use vector_index::VectorIndex;
