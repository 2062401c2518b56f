//! The connections of a process to all configured servers.
//!
//! Nothing runs before [`McpConnections::configure`] is given a server. Servers are connected at the same time, each
//! in a task of its own; a caller waits for them as long as it likes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_config::settings::McpServer;
use hermes_task::{Task, spawn_cooperative};
use hermes_types::{Cancel, Clock, SideModel, Tool};

use crate::approved_tools::{ApprovedTools, ToolApproval};
use crate::link::{CLOSE_TIMEOUT, LinkState, ServerLink};
use crate::options::McpOptions;
use crate::tool::ServerToolPort;
use crate::utility_tool::UtilityTool;

/// What the links to all servers share.
pub(crate) struct SharedParts {
    pub(crate) options: McpOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sampling: Option<SideModel>,
    pub(crate) approved: ApprovedTools,
    revision: AtomicU64,
}

impl fmt::Debug for SharedParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedParts").field("options", &self.options).finish_non_exhaustive()
    }
}

impl SharedParts {
    pub(crate) fn new(options: McpOptions) -> Self {
        Self {
            clock: options.clock.clone(),
            sampling: options.sampling.clone(),
            approved: ApprovedTools::new(&options.home),
            revision: AtomicU64::new(0),
            options,
        }
    }

    pub(crate) fn mark_changed(&self) {
        self.revision.fetch_add(1, Ordering::Relaxed);
    }
}

/// The connections of a process. Clones refer to the same connections.
#[derive(Clone)]
pub struct McpConnections(Arc<Connections>);

struct Connections {
    shared: Arc<SharedParts>,
    running: Mutex<Vec<RunningLink>>,
    cancel: Cancel,
}

/// Ends the tasks of connections that nobody shut down.
impl Drop for Connections {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

struct RunningLink {
    link: Arc<ServerLink>,
    task: Task<()>,
}

/// What a reload changed, by the names of servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpReload {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub reconnected: Vec<String>,
}

/// A server as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerStatus {
    pub name: String,
    pub state: McpServerState,
    /// The names of the tools that are offered.
    pub tools: Vec<String>,
    /// The tools that wait for an approval.
    pub unapproved: Vec<String>,
}

/// The state of a server's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpServerState {
    Connecting,
    Connected,
    Failed(String),
}

impl fmt::Debug for McpConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpConnections").field("servers", &self.running().len()).finish()
    }
}

impl McpConnections {
    /// Prepares the connections; connects nothing.
    pub fn new(options: McpOptions) -> Self {
        let shared = Arc::new(SharedParts::new(options));
        Self(Arc::new(Connections { shared, running: Mutex::default(), cancel: Cancel::new() }))
    }

    /// Makes the connections those of the configuration: connects new servers, disconnects those that are gone or
    /// disabled, and connects anew those whose entry changed. Must be called within a runtime.
    pub fn configure(&self, servers: Vec<McpServer>) -> McpReload {
        let wanted: Vec<McpServer> = servers.into_iter().filter(|server| server.enabled).collect();
        let mut running = self.running();
        let mut reload = McpReload::default();
        running.retain(|known| {
            let entry = wanted.iter().find(|server| server.name == known.link.server.name);
            let stays = entry.is_some_and(|entry| *entry == known.link.server);
            if !stays {
                known.link.stop();
                let name = known.link.server.name.clone();
                if entry.is_some() { reload.reconnected.push(name) } else { reload.removed.push(name) }
            }
            stays
        });
        for server in wanted {
            if running.iter().any(|known| known.link.server.name == server.name) {
                continue;
            }
            if !reload.reconnected.contains(&server.name) {
                reload.added.push(server.name.clone());
            }
            running.push(self.start(server));
        }
        drop(running);
        if reload != McpReload::default() {
            self.0.shared.mark_changed();
        }
        reload
    }

    /// Lets the revision go on from that of the connections these ones replace.
    pub fn continue_after(&self, before: &Self) {
        self.0.shared.revision.fetch_max(before.revision() + 1, Ordering::Relaxed);
    }

    fn start(&self, server: McpServer) -> RunningLink {
        let name = format!("mcp {}", server.name);
        let cancel = self.0.cancel.child_token();
        let link = Arc::new(ServerLink::new(server, self.0.shared.clone(), cancel.clone()));
        let work = link.clone();
        // The link ends by its own token, so that its program is stopped in order.
        let task = spawn_cooperative(name, &cancel, |_| work.run());
        RunningLink { link, task }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Vec<RunningLink>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> Vec<Arc<ServerLink>> {
        self.running().iter().map(|known| known.link.clone()).collect()
    }

    /// Waits until each server is connected or its first attempt has failed, at most for `limit`.
    pub async fn wait_until_settled(&self, limit: Duration) {
        let links = self.links();
        if links.is_empty() {
            return;
        }
        let settled = async {
            for link in &links {
                link.settled().await;
            }
        };
        tokio::select! {
            biased;
            () = settled => {}
            () = self.0.shared.clock.sleep(limit) => {}
        }
    }

    /// Returns a number that grows whenever [`Self::tools`] may have changed.
    pub fn revision(&self) -> u64 {
        self.0.shared.revision.load(Ordering::Relaxed)
    }

    /// Returns the tools of all servers. Of tools that would have the same name, the first is returned.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        let mut names = BTreeSet::new();
        for link in self.links() {
            let Some(listing) = link.listing() else { continue };
            for tool in ServerToolPort::of(&link, &listing).chain(UtilityTool::of(&link, &listing)) {
                let name = &tool.spec().name;
                if names.insert(name.clone()) {
                    tools.push(tool);
                } else {
                    tracing::warn!(
                        server = link.server.name,
                        tool = name,
                        "two MCP tools have the same name"
                    );
                }
            }
        }
        tools
    }

    /// Describes every server of the configuration that is enabled.
    pub fn status(&self) -> Vec<McpServerStatus> {
        let describe = |link: Arc<ServerLink>| {
            let listing = link.listing().unwrap_or_default();
            let is_approved =
                |name: &str| listing.approvals.get(name).is_none_or(|found| *found == ToolApproval::Approved);
            let (tools, unapproved): (Vec<String>, Vec<String>) =
                listing.tools.iter().map(|tool| tool.name.to_string()).partition(|name| is_approved(name));
            let state = match link.state() {
                LinkState::Connected(_) => McpServerState::Connected,
                LinkState::Connecting => McpServerState::Connecting,
                LinkState::Failed(error) => McpServerState::Failed(error.to_string()),
                LinkState::Stopped => McpServerState::Failed("disconnected".to_owned()),
            };
            McpServerStatus { name: link.server.name.clone(), state, tools, unapproved }
        };
        self.links().into_iter().map(describe).collect()
    }

    async fn disconnect_all(&self) {
        let running = std::mem::take(&mut *self.running());
        for known in &running {
            known.link.stop();
        }
        let closed = async {
            for known in running {
                // A panic in it was logged; there is nothing left to close.
                let _ = known.task.await;
            }
        };
        tokio::select! {
            biased;
            () = closed => {}
            () = self.0.shared.clock.sleep(CLOSE_TIMEOUT + Duration::from_secs(1)) => {}
        }
    }

    /// Disconnects every server when the program ends.
    pub async fn shut_down(&self) {
        self.disconnect_all().await;
        self.0.cancel.cancel();
    }
}
