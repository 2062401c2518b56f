//! `web_search` and `web_extract`: the web, by a service or by Hermes itself.
//!
//! This module holds what both tools share. Invariants: an address a model chose is requested only if the policy allows
//! it, on every hop of a redirect; a service gets no address that carries a credential; a page that does not fit is
//! stored whole before it is shortened.

mod extract_tool;
mod fetch;
mod page_text;
mod policy;
mod search_tool;
mod service;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use hermes_config::settings::WebSettings;
use hermes_net::HttpClient;
use hermes_types::{Clock, OutcomeStatus, Provenance, ToolOutcome};
use serde_json::{Value, json};

pub(crate) use extract_tool::DESCRIPTOR as EXTRACT_DESCRIPTOR;
pub use extract_tool::WebExtractTool;
pub(crate) use extract_tool::with_scheme;
pub(crate) use fetch::USER_AGENT;
pub(crate) use page_text::{bounded, cleaned, warning};
pub use policy::WebsitePolicy;
pub(crate) use policy::denial_text;
pub(crate) use search_tool::DESCRIPTOR as SEARCH_DESCRIPTOR;
pub use search_tool::WebSearchTool;
pub use service::WebAddresses;

/// What both web tools need.
#[derive(Debug, Clone)]
pub struct WebAccess {
    pub settings: WebSettings,
    pub http: LazyHttpClient,
    pub policy: WebsitePolicy,
    pub clock: Arc<dyn Clock>,
    /// The folder for pages that do not fit.
    pub cache: PathBuf,
    pub addresses: WebAddresses,
}

/// Builds the HTTP client.
type HttpClientSource = Box<dyn Fn() -> Result<HttpClient, String> + Send + Sync>;

/// An HTTP client that is built when it is first used: a conversation that does not use the web pays nothing for it.
/// Clones share it.
#[derive(Clone)]
pub struct LazyHttpClient(Arc<LazyHttpState>);

struct LazyHttpState {
    client: OnceLock<Result<HttpClient, String>>,
    build: HttpClientSource,
}

impl LazyHttpClient {
    pub fn new(build: impl Fn() -> Result<HttpClient, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(LazyHttpState { client: OnceLock::new(), build: Box::new(build) }))
    }

    pub fn get(&self) -> Result<HttpClient, String> {
        self.0.client.get_or_init(|| (self.0.build)()).clone()
    }
}

impl std::fmt::Debug for LazyHttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LazyHttpClient")
    }
}

/// Returns the result of an interrupted call.
fn interrupted() -> ToolOutcome {
    let content = pretty(&json!({"error": "Interrupted", "success": false}));
    ToolOutcome { content, status: OutcomeStatus::Cancelled, provenance: Provenance::Tool }
}

/// Writes a result with an indentation of two blanks, the format of recorded transcripts of these tools.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
