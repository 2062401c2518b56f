//! The agent for editors: the Agent Client Protocol (version 1) over any transport.
//!
//! Holds the sessions of one editor and turns events into protocol messages. Builds no agent: it comes through a port.
//! Invariants: a prompt runs alone in its session; a permission that nobody gives is refused; standard output belongs to
//! the protocol.

mod content;
mod frontend;
mod model_option;
mod server;
mod session;
mod tool_call;

pub use model_option::EditorModel;
pub use server::{AcpServer, EditorAgents, EditorMode, EditorReply};
