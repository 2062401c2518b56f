//! The always-on service: messages in, turns, answers out.
//!
//! Holds intake, one worker per busy conversation, authorization, chat commands and delivery. Knows no platform:
//! they come in as channels. Creates no agent: the program does, through a port. Invariants: a message is
//! acknowledged to its platform only when it is on disk; a message is closed in the same step in which its answer
//! is queued; a reply is sent through the outbox or not at all; a conversation without activity costs no memory.

mod active_conversations;
pub mod authorise;
mod channel_supervisor;
mod chat_names;
pub mod cron;
mod deliver;
mod directory;
mod gateway;
mod intake;
mod maintenance;
mod message_sender;
pub mod pairing;
mod ports;
pub mod process;
pub mod session;
mod settings;
pub mod slash;
mod turn;

pub use channel_supervisor::ChannelHealth;
pub use deliver::refuse_files_by;
pub use gateway::{Gateway, GatewayParts};
pub use ports::{
    AgentProvider, AgentRequest, EventObserver, GatewayPorts, JobScriptOutcome, JobScriptRequest, NoObserver,
    NoServices, ScriptLanguage, Services,
};
pub use settings::{GatewaySettings, LiveSettings, QuickCommand, UnknownSenderPolicy};
