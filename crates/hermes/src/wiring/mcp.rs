//! The MCP servers of a process: connected when they are first wanted, shared by all agents.
//!
//! Without an entry in `mcp_servers` nothing here is built, started or read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use hermes_config::settings::{McpServer, SecuritySettings};
use hermes_config::{Env, ProgramSurface, user_home};
use hermes_mcp::{
    McpConnections, McpOptions, McpReload, McpServerState, McpServerStatus, SecretsInResults, ToolNameStyle,
};
use hermes_net::HttpClient;
use hermes_store::Store;
use hermes_tools::{ToolSearchMode, ToolSearchOptions};
use hermes_types::{Clock, SideModel, Tool};

use super::model::{configured_sampling, net_config};
use super::program_runtime::ProgramConfig;
use super::working_folder;

/// The variables that programs of servers get beside those of their entry.
const BASE_VARIABLES: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR"];
const BASE_PREFIX: &str = "XDG_";

/// The connections of a process, once there is a server. Clones share them.
#[derive(Clone)]
pub(crate) struct McpRuntime(Arc<McpRuntimeState>);

struct McpRuntimeState {
    surface: ProgramSurface,
    store: Store,
    clock: Arc<dyn Clock>,
    connections: Mutex<Option<McpConnections>>,
}

impl McpRuntime {
    /// Prepares the runtime; connects nothing.
    pub(crate) fn new(surface: ProgramSurface, store: Store, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(McpRuntimeState { surface, store, clock, connections: Mutex::default() }))
    }

    fn slot(&self) -> MutexGuard<'_, Option<McpConnections>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> Option<McpConnections> {
        self.slot().clone()
    }

    /// Makes the connections those of a configuration. Must be called within a runtime; does not wait for servers.
    pub(crate) fn follow(&self, from: ProgramConfig<'_>) -> McpReload {
        let servers = McpServer::all(from.config);
        let mut slot = self.slot();
        if slot.is_none() {
            if !servers.iter().any(|server| server.enabled) {
                return McpReload::default();
            }
            match self.open(from) {
                Ok(connections) => *slot = Some(connections),
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "MCP servers cannot be used");
                    return McpReload::default();
                }
            }
        }
        slot.as_ref().map(|connections| connections.configure(servers)).unwrap_or_default()
    }

    /// Disconnects every server and connects those of the configuration, with the models it names now.
    pub(crate) async fn reload(&self, from: ProgramConfig<'_>) -> Result<McpReload> {
        let servers = McpServer::all(from.config);
        let before = self.slot().take();
        let is_wanted = servers.iter().any(|server| server.enabled);
        if before.is_none() && !is_wanted {
            return Ok(McpReload::default());
        }
        let connections = self.open(from)?;
        let old: Vec<String> = match &before {
            Some(before) => {
                let names = before.status().into_iter().map(|server| server.name).collect();
                before.shut_down().await;
                connections.continue_after(before);
                names
            }
            None => Vec::new(),
        };
        let now = connections.configure(servers).added;
        *self.slot() = Some(connections);
        let (reconnected, added) = now.iter().cloned().partition(|name| old.contains(name));
        let removed = old.into_iter().filter(|name| !now.contains(name)).collect();
        Ok(McpReload { added, removed, reconnected })
    }

    fn open(&self, from: ProgramConfig<'_>) -> Result<McpConnections> {
        let McpRuntimeState { surface, store, clock, .. } = &*self.0;
        let sampling = configured_sampling(from, *surface, clock, store).unwrap_or_else(|error| {
            tracing::warn!(error = format!("{error:#}"), "MCP servers cannot ask a model");
            None
        });
        Ok(McpConnections::new(options(from, clock, sampling)?))
    }

    /// Waits until each server is connected or has failed, at most for `limit`.
    pub(crate) async fn wait_until_settled(&self, limit: Duration) {
        if let Some(connections) = self.connections() {
            connections.wait_until_settled(limit).await;
        }
    }

    /// Returns a number that grows whenever the tools may have changed.
    pub(crate) fn revision(&self) -> u64 {
        self.connections().map_or(0, |connections| connections.revision())
    }

    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.connections().map(|connections| connections.tools()).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Vec<McpServerStatus> {
        self.connections().map(|connections| connections.status()).unwrap_or_default()
    }

    /// Describes for the user what does not work, and what waits for an approval.
    pub(crate) fn notices(&self) -> Vec<String> {
        let describe = |server: McpServerStatus| {
            let McpServerStatus { name, state, unapproved, .. } = server;
            match state {
                McpServerState::Failed(reason) => Some(format!("MCP server {name}: {reason}")),
                McpServerState::Connected if !unapproved.is_empty() => Some(format!(
                    "MCP server {name} has new or changed tools: {}. They are offered after you approve them; run: hermes \
                     mcp configure {name}",
                    unapproved.join(", ")
                )),
                McpServerState::Connected | McpServerState::Connecting => None,
            }
        };
        self.status().into_iter().filter_map(describe).collect()
    }

    /// Disconnects the servers when the program ends.
    pub(crate) async fn shut_down(&self) {
        if let Some(connections) = self.connections() {
            connections.shut_down().await;
        }
    }
}

/// Returns the parts with which servers are connected.
pub(crate) fn options(
    from: ProgramConfig<'_>,
    clock: &Arc<dyn Clock>,
    sampling: Option<SideModel>,
) -> Result<McpOptions> {
    let ProgramConfig { context, config } = from;
    let masked = SecuritySettings::resolve(config, &context.env).redact_secrets;
    Ok(McpOptions {
        home: context.home.clone(),
        folder: working_folder(context, config)?,
        user_home: user_home(&context.env)?,
        base_variables: base_variables(&context.env),
        http: HttpClient::new(net_config(&context.env, clock))?,
        clock: clock.clone(),
        sampling,
        naming: if config.flag("mcp.double_underscore_names") {
            ToolNameStyle::DoubleUnderscore
        } else {
            ToolNameStyle::SingleUnderscore
        },
        secrets: if masked { SecretsInResults::Mask } else { SecretsInResults::Show },
    })
}

/// Returns the variables of the user's shell that every program may have. Those of `.env` are not among them.
fn base_variables(env: &Env) -> Vec<(String, String)> {
    let is_base = |name: &str| BASE_VARIABLES.contains(&name) || name.starts_with(BASE_PREFIX);
    env.iter()
        .filter(|(name, _)| is_base(name))
        .filter_map(|(name, _)| Some((name.to_owned(), env.shell_value(name)?.to_owned())))
        .collect()
}

/// Returns the limit for the tools of servers in a prompt.
pub(crate) fn search_options(from: ProgramConfig<'_>) -> ToolSearchOptions {
    let config = from.config;
    ToolSearchOptions {
        mode: match config.text("tools.tool_search.enabled").to_lowercase().as_str() {
            "on" | "true" | "yes" | "always" => ToolSearchMode::Always,
            "off" | "false" | "no" | "never" => ToolSearchMode::Never,
            _ => ToolSearchMode::Auto,
        },
        budget: config.count("tools.tool_search.budget_tokens") as u64,
        most_results: config.count("tools.tool_search.max_search_limit"),
    }
}

/// Returns how long the first message of a chat waits for servers.
pub(crate) fn discovery_timeout(from: ProgramConfig<'_>) -> Duration {
    let seconds = from.config.number_where("mcp_discovery_timeout", |seconds| seconds >= 0.0);
    Duration::try_from_secs_f64(seconds.min(120.0)).unwrap_or_default()
}
