//! A short connection to one server, to show what it offers.

use std::time::Duration;

use hermes_config::settings::McpServer;

use crate::approved_tools::{ToolApproval, description_of};
use crate::connect::connect;
use crate::connections::SharedParts;
use crate::error::Error;
use crate::event_handler::EventHandler;
use crate::listing::list_tools;
use crate::options::McpOptions;

/// The offer of a server that was connected for a moment.
#[derive(Debug)]
pub struct ProbedServer {
    /// The server's own name and version.
    pub description: String,
    pub took: Duration,
    tools: Vec<rmcp::model::Tool>,
    unapproved: Vec<String>,
    has_resources: bool,
    has_prompts: bool,
    shared: SharedParts,
}

/// A tool of a server, as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedTool {
    pub name: String,
    pub description: String,
    /// Whether it is new or changed since the user approved the server's tools.
    pub needs_approval: bool,
}

impl ProbedServer {
    /// Lists all tools of the server, those included that the configuration leaves out.
    pub fn tools(&self) -> Vec<ProbedTool> {
        let tools = self.tools.iter().map(|tool| ProbedTool {
            name: tool.name.to_string(),
            description: description_of(tool),
            needs_approval: self.unapproved.iter().any(|name| *name == tool.name),
        });
        tools.collect()
    }

    pub fn has_resources(&self) -> bool {
        self.has_resources
    }

    pub fn has_prompts(&self) -> bool {
        self.has_prompts
    }

    /// Approves the present versions of all tools of the server.
    pub fn approve_all(&self, server: &McpServer) -> Result<(), Error> {
        self.shared.approved.approve(server, &self.tools)
    }
}

/// Connects a server, reads what it offers, and disconnects. Approves nothing.
pub async fn probe(server: &McpServer, options: McpOptions) -> Result<ProbedServer, Error> {
    let shared = SharedParts::new(options);
    let clock = shared.clock.clone();
    let began = clock.monotonic();
    let limit = server.connect_timeout;
    let work = async {
        let service = connect(server, &shared, EventHandler::without_link()).await?;
        let tools = list_tools(service.peer()).await?;
        Ok::<_, Error>((service, tools))
    };
    let (service, tools) = tokio::select! {
        biased;
        done = work => done?,
        () = clock.sleep(limit) => return Err(Error::TimedOut { seconds: limit.as_secs() }),
    };
    let took = clock.monotonic().saturating_sub(began);
    let info = service.peer().peer_info();
    let capabilities = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
    let description = info
        .and_then(|info| info.server_info.clone())
        .map(|own| crate::foreign_text::clean(&format!("{} {}", own.name, own.version), 100))
        .unwrap_or_default();
    if let Err(error) = service.cancel().await {
        tracing::debug!(%error, "the connection to an MCP server did not close in order");
    }
    let judged = shared.approved.preview(server, &tools)?;
    let needs = |name: &str| judged.get(name).is_some_and(|found| *found != ToolApproval::Approved);
    let unapproved = tools.iter().map(|tool| tool.name.to_string()).filter(|name| needs(name)).collect();
    Ok(ProbedServer {
        description,
        took,
        tools,
        unapproved,
        has_resources: capabilities.resources.is_some(),
        has_prompts: capabilities.prompts.is_some(),
        shared,
    })
}
