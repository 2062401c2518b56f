//! The always-on service: messages in, turns, answers out.
//!
//! Holds intake, one worker per busy conversation, authorization, chat commands and delivery. Knows no platform:
//! they come in as channels. Creates no agent: the program does, through a port. Invariants: a message is
//! acknowledged to its platform only when it is on disk; a message is closed in the same step in which its answer
//! is queued; a reply is sent through the outbox or not at all; a conversation without activity costs no memory.

mod active_conversations;
pub mod authorise;
mod channel_supervisor;
mod chat_agents;
mod chat_prompt;
mod chat_sessions;
pub mod cron;
mod deliver;
mod gateway;
mod inbox;
mod intake;
mod maintenance;
mod message_sender;
pub mod pairing;
mod ports;
pub mod process;
mod questions;
mod resources;
mod sender_access;
pub mod session;
mod session_variables;
mod settings;
mod silent_frontend;
pub mod slash;
mod turn;
mod worker;

pub use channel_supervisor::{ChannelHealth, ChannelSupervisor};
pub use deliver::{Delivery, Outbox, pictures_of_answer};
pub use gateway::{Gateway, GatewayStatus};
pub use intake::MessageIntake;
pub use message_sender::{ChatMessageSender, DeliveryPorts};
pub use ports::{
    AgentProvider, AgentRequest, AnswerToSpeak, AttachmentContent, AttachmentRequest, ChatAccount,
    EventObserver, FileSendPolicy, GatewayPorts, HelperPrograms, JobScriptOutcome, JobScriptRequest,
    MessageExpansion, NoObserver, NoServices, PlatformCatalog, ProcessInfo, ProgramCommands, ScriptLanguage,
    SkillPrompts,
};
pub use session::ConversationSharing;
pub use settings::{
    GatewaySettings, LiveSettings, QuickCommand, UnknownSenderPolicy, goal_turns, quick_commands,
};
