//! Messages in, turns, answers out: what is always on.
//!
//! Holds intake, one worker per busy conversation, who may speak, the commands of chats, and delivery. Knows no platform:
//! they come in as channels; makes no agent: the program does, through a port. Invariants: a platform is told only what is
//! on disk; a message is closed in the same step in which its answer is queued; a reply leaves through the outbox or not
//! at all; a conversation in which nothing happens costs no memory.

mod attend;
pub mod authorise;
mod chat_names;
mod courier;
pub mod cron;
mod deliver;
mod desk;
mod directory;
mod gateway;
mod house;
mod intake;
pub mod pairing;
mod ports;
pub mod process;
pub mod session;
mod settings;
pub mod slash;
mod turn;

pub use attend::Outlook;
pub use deliver::refuse_files_by;
pub use gateway::{Gateway, Inner};
pub use ports::{
    Agents, Language, NoServices, NoWatchers, Ports, ScriptEnd, ScriptOrder, Services, Watchers, Wish,
};
pub use settings::{Live, QuickCommand, Settings, Strangers};
