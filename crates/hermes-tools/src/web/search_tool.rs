//! `web_search`: finds pages by words.

use std::time::Duration;

use hermes_config::settings::WebService;
use hermes_types::{
    BoxFuture, CallPolicy, Concurrency, OutcomeStatus, Provenance, Tool, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::page_text::{cleaned, warning};
use super::service::{
    SearchHit, ServiceCall, ServiceFailure, brave, exa, firecrawl, parallel, searxng, tavily,
};
use super::{WebAccess, interrupted, pretty};
use crate::argument::{missing, number, spec, text};

const TIMEOUT: Duration = Duration::from_mins(1);
const DEFAULT_LIMIT: usize = 5;
const MOST_LIMIT: usize = 100;
/// The longest description of a hit, in characters.
const LONGEST_DESCRIPTION: usize = 1_000;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "web_search",
    toolset: "web",
    summary: "Searches the web",
    condition: "a search service is configured",
    icon: "🔍",
    verb: "search",
    preview_arguments: &["query"],
    ..ToolDescriptor::unknown("")
};

/// The `web_search` tool.
#[derive(Debug)]
pub struct WebSearchTool {
    spec: ToolSpec,
    access: WebAccess,
}

impl WebSearchTool {
    pub fn new(access: WebAccess) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("../texts/web_search.md"),
            include_str!("../texts/web_search.json"),
        );
        Self { spec, access }
    }

    /// Tells whether a search service is configured.
    pub fn is_usable(access: &WebAccess) -> bool {
        access.settings.search.is_ok()
    }

    async fn search(
        &self,
        query: &str,
        limit: usize,
        context: &ToolContext<'_>,
    ) -> Result<Vec<SearchHit>, ServiceFailure> {
        let service = self.access.settings.search.clone().map_err(ServiceFailure::Failed)?;
        let call = ServiceCall::new(&self.access, service, TIMEOUT, context)?;
        match service {
            WebService::Firecrawl => firecrawl::search(&call, query, limit).await,
            WebService::Parallel => parallel::search(&call, query, limit).await,
            WebService::Tavily => tavily::search(&call, query, limit).await,
            WebService::Exa => exa::search(&call, query, limit).await,
            WebService::Searxng => searxng::search(&call, query, limit).await,
            WebService::Brave => brave::search(&call, query, limit).await,
            WebService::Native => Err(ServiceFailure::Failed("Hermes cannot search by itself".to_owned())),
        }
    }
}

impl Tool for WebSearchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(query) = text(&call.arguments, "query") else { return missing("web_search", "query") };
            let limit = number(&call.arguments, "limit", DEFAULT_LIMIT, 1..=MOST_LIMIT);
            match self.search(query.trim(), limit, &context).await {
                Ok(hits) => answer(&hits, limit),
                Err(ServiceFailure::Cancelled) => interrupted(),
                Err(ServiceFailure::Failed(reason)) => {
                    ToolOutcome::failed(format!("Error searching web: {reason}"))
                }
            }
        })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { concurrency: Concurrency::Parallel, ..CallPolicy::default() }
    }
}

fn answer(hits: &[SearchHit], limit: usize) -> ToolOutcome {
    let rows: Vec<Value> = hits
        .iter()
        .take(limit)
        .enumerate()
        .map(|(at, hit)| {
            json!({
                "title": cleaned(&hit.title),
                "url": hit.url,
                "description": hermes_text::ellipsize(&cleaned(&hit.description), LONGEST_DESCRIPTION),
                "position": at + 1,
            })
        })
        .collect();
    let mut answer = json!({"success": true, "data": {"web": rows}});
    if let (Some(warning), Some(fields)) = (warning(&answer.to_string()), answer.as_object_mut()) {
        fields.insert("_warning".to_owned(), warning.into());
    }
    ToolOutcome { content: pretty(&answer), status: OutcomeStatus::Done, provenance: Provenance::Web }
}
