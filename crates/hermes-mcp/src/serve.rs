//! The MCP server: other agents read the conversations of this home and send messages.
//!
//! Holds the protocol and the table of tools; what they do is a port that the program implements. Standard output
//! carries nothing but the protocol.

use std::sync::Arc;

use hermes_types::BoxFuture;
use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as ServerTool,
};
use rmcp::service::{RequestContext, serve_server};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::Error;

/// What the server's tools do.
pub trait ServedConversations: Send + Sync + 'static {
    /// Runs a tool. Never fails: an error is an answer with the field `error`.
    fn call(&self, tool: ServedTool, arguments: Map<String, Value>) -> BoxFuture<'_, Value>;
}

/// A tool of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedTool {
    ConversationsList,
    ConversationGet,
    MessagesRead,
    AttachmentsFetch,
    EventsPoll,
    EventsWait,
    MessagesSend,
    ChannelsList,
    PermissionsListOpen,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentKind {
    Text,
    Integer,
}

use ArgumentKind::{Integer, Text};

/// The description of a tool for other agents.
struct ToolRow {
    tool: ServedTool,
    name: &'static str,
    description: &'static str,
    arguments: &'static [(&'static str, ArgumentKind)],
    required: &'static [&'static str],
}

const TOOLS: &[ToolRow] = &[
    ToolRow {
        tool: ServedTool::ConversationsList,
        name: "conversations_list",
        description: "Lists conversations on chat platforms, the last used first.",
        arguments: &[("platform", Text), ("limit", Integer), ("search", Text)],
        required: &[],
    },
    ToolRow {
        tool: ServedTool::ConversationGet,
        name: "conversation_get",
        description: "Describes one conversation.",
        arguments: &[("session_key", Text)],
        required: &["session_key"],
    },
    ToolRow {
        tool: ServedTool::MessagesRead,
        name: "messages_read",
        description: "Reads the latest messages of a conversation, oldest first. Texts are cut to 2000 characters.",
        arguments: &[("session_key", Text), ("limit", Integer)],
        required: &["session_key"],
    },
    ToolRow {
        tool: ServedTool::AttachmentsFetch,
        name: "attachments_fetch",
        description: "Lists the parts of a message that are not text.",
        arguments: &[("session_key", Text), ("message_id", Text)],
        required: &["session_key", "message_id"],
    },
    ToolRow {
        tool: ServedTool::EventsPoll,
        name: "events_poll",
        description: "Returns new messages after a cursor, and approvals that were asked for or settled; 0 means since this server started.",
        arguments: &[("after_cursor", Integer), ("session_key", Text), ("limit", Integer)],
        required: &[],
    },
    ToolRow {
        tool: ServedTool::EventsWait,
        name: "events_wait",
        description: "Waits for the next new message after a cursor, or for news about an approval.",
        arguments: &[("after_cursor", Integer), ("session_key", Text), ("timeout_ms", Integer)],
        required: &[],
    },
    ToolRow {
        tool: ServedTool::MessagesSend,
        name: "messages_send",
        description: "Sends a message to a chat, such as telegram:123 or slack:#general.",
        arguments: &[("target", Text), ("message", Text)],
        required: &["target", "message"],
    },
    ToolRow {
        tool: ServedTool::ChannelsList,
        name: "channels_list",
        description: "Lists the chats that messages can be sent to.",
        arguments: &[("platform", Text)],
        required: &[],
    },
    ToolRow {
        tool: ServedTool::PermissionsListOpen,
        name: "permissions_list_open",
        description: "Lists the approvals that wait for a person. Only a person can give them.",
        arguments: &[],
        required: &[],
    },
];

/// Serves until the client closes the input.
pub async fn serve_stdio(
    conversations: Arc<dyn ServedConversations>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Unavailable(error.to_string());
    let service = serve_server(ConversationServer { conversations }, (input, output)).await;
    let service = service.map_err(|error| failed(&error))?;
    service.waiting().await.map_err(|error| failed(&error))?;
    Ok(())
}

/// Translates between the protocol and the port.
struct ConversationServer {
    conversations: Arc<dyn ServedConversations>,
}

impl ServerHandler for ConversationServer {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.server_info = Implementation::new("hermes", env!("CARGO_PKG_VERSION"));
        config
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(ToolRow::described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(row) = TOOLS.iter().find(|row| row.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool: {}", request.name), None));
        };
        let answer = tokio::select! {
            biased;
            () = context.ct.cancelled() => json!({"error": "cancelled"}),
            answer = self.conversations.call(row.tool, request.arguments.unwrap_or_default()) => answer,
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(answer.to_string())]).into())
    }
}

impl ToolRow {
    fn described(&self) -> ServerTool {
        let property = |(name, kind): &(&str, ArgumentKind)| {
            let kind = match kind {
                Text => "string",
                Integer => "integer",
            };
            ((*name).to_owned(), json!({"type": kind}))
        };
        let properties: Map<String, Value> = self.arguments.iter().map(property).collect();
        let schema = json!({"type": "object", "properties": properties, "required": self.required});
        ServerTool::new(self.name, self.description, schema.as_object().cloned().unwrap_or_default())
    }
}
