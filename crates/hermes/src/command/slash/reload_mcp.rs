//! `/reload-mcp`: disconnects the MCP servers and connects those of the configuration.

use std::time::Duration;

use hermes_config::Config;
use hermes_mcp::{McpReload, McpServerState};

use super::CommandReply;
use crate::context::ProgramContext;
use crate::wiring::mcp::McpRuntime;
use crate::wiring::program_runtime::ProgramConfig;

/// The wait for servers before the reply; the rest connect afterwards.
const TIMEOUT: Duration = Duration::from_secs(15);

pub(super) async fn run(mcp: &McpRuntime, context: &ProgramContext) -> CommandReply {
    let config = Config::load(&context.home, &context.env);
    if let Err(error) = config.require_usable(&context.env) {
        return CommandReply::text(format!("⚠️ {error}"));
    }
    let reload = match mcp.reload(ProgramConfig { context, config: &config }).await {
        Ok(reload) => reload,
        Err(error) => return CommandReply::text(format!("⚠️ {error:#}")),
    };
    if reload == McpReload::default() {
        return CommandReply::text("No MCP servers are configured.");
    }
    mcp.wait_until_settled(TIMEOUT).await;
    let mut lines = Vec::new();
    for (what, names) in
        [("Added", &reload.added), ("Removed", &reload.removed), ("Reconnected", &reload.reconnected)]
    {
        if !names.is_empty() {
            lines.push(format!("{what}: {}", names.join(", ")));
        }
    }
    for server in mcp.status() {
        lines.push(match server.state {
            McpServerState::Connected => format!("✓ {}: {} tools", server.name, server.tools.len()),
            McpServerState::Connecting => format!("… {}: still connecting", server.name),
            McpServerState::Failed(reason) => format!("✗ {}: {reason}", server.name),
        });
        if !server.unapproved.is_empty() {
            lines.push(format!(
                "  not offered until you approve them with `hermes mcp configure {}`: {}",
                server.name,
                server.unapproved.join(", ")
            ));
        }
    }
    CommandReply::text(lines.join("\n"))
}
