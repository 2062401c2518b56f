//! What the connections of a process are made with.

use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::Home;
use hermes_net::HttpClient;
use hermes_types::{Clock, SideModel};

use crate::names::ToolNameStyle;

/// The parts and settings that all connections share.
#[derive(Clone)]
pub struct McpOptions {
    pub home: Home,
    /// The folder in which programs of servers start.
    pub folder: PathBuf,
    /// The user's home, for programs that are not on the path.
    pub user_home: PathBuf,
    /// The safe base of the variables that programs of servers get.
    pub base_variables: Vec<(String, String)>,
    pub http: HttpClient,
    pub clock: Arc<dyn Clock>,
    /// The model that servers may ask; without one, no server may.
    pub sampling: Option<SideModel>,
    pub naming: ToolNameStyle,
    pub secrets: SecretsInResults,
}

/// Says whether secrets in results are masked before a model reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretsInResults {
    Mask,
    Show,
}

impl std::fmt::Debug for McpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpOptions").field("home", &self.home.path()).finish_non_exhaustive()
    }
}
