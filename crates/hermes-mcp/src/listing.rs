//! What a server offers: its tools, and whether it has resources and prompts.

use std::collections::BTreeMap;

use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, Tool as ServerTool};
use rmcp::service::Peer;

use crate::approved_tools::ToolApproval;
use crate::call::describe_error;
use crate::error::Error;

/// The most pages and tools that are read: a server that never ends its list is cut off.
const MOST_PAGES: usize = 50;
pub(crate) const MOST_TOOLS: usize = 1_000;

/// The offer of a connected server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerListing {
    /// The tools that pass the filter.
    pub(crate) tools: Vec<ServerTool>,
    pub(crate) approvals: BTreeMap<String, ToolApproval>,
    pub(crate) has_resources: bool,
    pub(crate) has_prompts: bool,
}

/// Reads the tools of a server, all pages of them.
pub(crate) async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<ServerTool>, Error> {
    let capabilities = peer.peer_info().map(|info| info.capabilities.clone());
    if capabilities.is_some_and(|capabilities| capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let mut tools: Vec<ServerTool> = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = peer
            .list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor)))
            .await
            .map_err(|error| Error::Unavailable(describe_error(&error).to_string()))?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() >= MOST_TOOLS {
            break;
        }
    }
    if cursor.is_some() {
        tracing::warn!(tools = tools.len(), "an MCP server lists more tools than are read");
    }
    tools.truncate(MOST_TOOLS);
    Ok(tools)
}
