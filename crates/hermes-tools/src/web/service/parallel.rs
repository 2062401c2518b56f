//! Parallel: its beta of search and extraction.

use hermes_net::{HeaderName, HttpRequest};
use serde_json::{Value, json};

use super::{SearchHit, ServiceCall, ServiceFailure, ServicePage, field, joined, rows};

/// The most hits that the service returns.
const MOST_HITS: usize = 20;
const MODES: [&str; 3] = ["fast", "one-shot", "agentic"];
/// The version of the beta that these requests are written for.
const BETA: &str = "search-extract-2025-10-10";

pub(in crate::web) async fn search(
    call: &ServiceCall<'_>,
    query: &str,
    limit: usize,
) -> Result<Vec<SearchHit>, ServiceFailure> {
    let mode = call.keys.parallel_mode.as_deref().map(|mode| mode.trim().to_lowercase());
    let mode = mode.filter(|mode| MODES.contains(&mode.as_str())).unwrap_or_else(|| "agentic".to_owned());
    let body = json!({
        "objective": query, "search_queries": [query], "mode": mode, "max_results": limit.min(MOST_HITS),
    });
    let answer = call.json(request(call, "search", &body)?).await?;
    let hits = rows(&answer, "/results").iter().map(|row| SearchHit {
        title: field(row, "title"),
        url: field(row, "url"),
        description: joined(row, "excerpts", " "),
    });
    Ok(hits.collect())
}

pub(in crate::web) async fn extract(
    call: &ServiceCall<'_>,
    urls: &[&str],
) -> Result<Vec<ServicePage>, ServiceFailure> {
    let body = json!({"urls": urls, "full_content": true, "excerpts": false});
    let answer = call.json(request(call, "extract", &body)?).await?;
    let read = rows(&answer, "/results").iter().map(|row| {
        let text = match field(row, "full_content") {
            empty if empty.is_empty() => joined(row, "excerpts", "\n\n"),
            text => text,
        };
        ServicePage { url: field(row, "url"), title: field(row, "title"), text, error: None }
    });
    let failed = rows(&answer, "/errors").iter().map(|row| {
        let reason =
            ["content", "error_type"].iter().map(|name| field(row, name)).find(|text| !text.is_empty());
        ServicePage::failed(&field(row, "url"), reason.unwrap_or_else(|| "extraction failed".to_owned()))
    });
    Ok(read.chain(failed).collect())
}

fn request(call: &ServiceCall<'_>, path: &str, body: &Value) -> Result<HttpRequest, ServiceFailure> {
    let key = call.key(call.keys.parallel.as_ref())?;
    Ok(HttpRequest::post(&format!("{}/v1beta/{path}", call.access.addresses.parallel))?
        .json(body)?
        .header(HeaderName::from_static("parallel-beta"), BETA)?
        .secret_header(HeaderName::from_static("x-api-key"), key)?)
}
