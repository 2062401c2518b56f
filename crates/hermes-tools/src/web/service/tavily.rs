//! Tavily. Its key goes into the body.

use hermes_net::HttpRequest;
use serde_json::{Value, json};

use super::{SearchHit, ServiceCall, ServiceFailure, ServicePage, field, hits, rows};

/// The most hits that the service returns.
const MOST_HITS: usize = 20;

pub(in crate::web) async fn search(
    call: &ServiceCall<'_>,
    query: &str,
    limit: usize,
) -> Result<Vec<SearchHit>, ServiceFailure> {
    let body = json!({
        "api_key": call.key(call.keys.tavily.as_ref())?.expose(),
        "query": query,
        "max_results": limit.min(MOST_HITS),
        "include_raw_content": false,
        "include_images": false,
    });
    let answer = call.json(request(call, "search", &body)?).await?;
    Ok(hits(rows(&answer, "/results"), "content"))
}

pub(in crate::web) async fn extract(
    call: &ServiceCall<'_>,
    urls: &[&str],
) -> Result<Vec<ServicePage>, ServiceFailure> {
    let key = call.key(call.keys.tavily.as_ref())?;
    let body = json!({"api_key": key.expose(), "urls": urls, "include_images": false});
    let answer = call.json(request(call, "extract", &body)?).await?;
    let read = rows(&answer, "/results").iter().map(|row| {
        let text = match field(row, "raw_content") {
            empty if empty.is_empty() => field(row, "content"),
            text => text,
        };
        ServicePage { url: field(row, "url"), title: field(row, "title"), text, error: None }
    });
    let failed = rows(&answer, "/failed_results").iter().map(|row| {
        let reason = match field(row, "error") {
            empty if empty.is_empty() => "extraction failed".to_owned(),
            reason => reason,
        };
        ServicePage::failed(&field(row, "url"), reason)
    });
    let unnamed = rows(&answer, "/failed_urls")
        .iter()
        .map(|url| ServicePage::failed(url.as_str().unwrap_or_default(), "extraction failed"));
    Ok(read.chain(failed).chain(unnamed).collect())
}

fn request(call: &ServiceCall<'_>, path: &str, body: &Value) -> Result<HttpRequest, ServiceFailure> {
    Ok(HttpRequest::post(&format!("{}/{path}", call.access.addresses.tavily))?.json(body)?)
}
