//! MCP: the client that offers the tools of configured servers to the model, and the server that offers the
//! conversations of this home to other agents.
//!
//! Holds the connections, the translation between the protocol and the ports, and the sign-in of HTTP servers. Does
//! not decide which tools an agent gets (`hermes-tools`) and knows no agent. Invariants: a server that fails, stalls
//! or lies never fails a turn and never delays one beyond its limits; everything a server says is data: bounded,
//! scanned, and offered to the model only in the version the user approved.

mod approved_tools;
mod call;
mod catalog;
mod connect;
mod connections;
mod content;
mod elicitation;
mod error;
mod event_handler;
mod foreign_text;
mod http_transport;
mod link;
mod listing;
mod login;
mod names;
mod oauth;
mod options;
mod probe;
mod process_transport;
mod sampling;
mod serve;
mod tool;
mod utility_tool;

pub use approved_tools::ApprovedTools;
pub use catalog::{CATALOG, CatalogAuth, CatalogServer, CatalogTransport};
pub use connections::{McpConnections, McpReload, McpServerState, McpServerStatus};
pub use error::Error;
pub use login::{LoginSurface, sign_in};
pub use names::{ToolNameStyle, toolset_name};
pub use oauth::TokenFiles;
pub use options::{McpOptions, SecretsInResults};
pub use probe::{ProbedServer, ProbedTool, probe};
pub use serve::{ServedConversations, ServedTool, serve_stdio};
