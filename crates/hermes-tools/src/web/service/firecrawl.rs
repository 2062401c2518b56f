//! Firecrawl, version 2 of its API: the service or a self-hosted one.

use futures_util::future::join_all;
use hermes_net::HttpRequest;
use serde_json::{Value, json};

use super::{SearchHit, ServiceCall, ServiceFailure, ServicePage, field, hits, rows};

pub(in crate::web) async fn search(
    call: &ServiceCall<'_>,
    query: &str,
    limit: usize,
) -> Result<Vec<SearchHit>, ServiceFailure> {
    let answer = call.json(request(call, "search", &json!({"query": query, "limit": limit}))?).await?;
    Ok(hits(rows(&answer, "/data/web"), "description"))
}

pub(in crate::web) async fn extract(
    call: &ServiceCall<'_>,
    urls: &[&str],
) -> Result<Vec<ServicePage>, ServiceFailure> {
    let pages = urls.iter().map(|url| async move {
        let body = json!({"url": url, "formats": ["markdown"]});
        match call.json(request(call, "scrape", &body)?).await {
            Ok(answer) => Ok(page(url, &answer)),
            Err(ServiceFailure::Failed(reason)) => Ok(ServicePage::failed(url, reason)),
            Err(cancelled) => Err(cancelled),
        }
    });
    join_all(pages).await.into_iter().collect()
}

fn request(call: &ServiceCall<'_>, path: &str, body: &Value) -> Result<HttpRequest, ServiceFailure> {
    let own = call.keys.firecrawl_url.as_deref();
    let base = own.unwrap_or(&call.access.addresses.firecrawl);
    let request = HttpRequest::post(&format!("{base}/v2/{path}"))?.json(body)?;
    match &call.keys.firecrawl {
        Some(key) => Ok(request.bearer(key)?),
        // A self-hosted one may need no key.
        None if own.is_some() => Ok(request),
        None => call.key(None).map(|_| request),
    }
}

fn page(url: &str, answer: &Value) -> ServicePage {
    let data = answer.get("data").unwrap_or(answer);
    let metadata = data.get("metadata").cloned().unwrap_or_default();
    let text = match field(data, "markdown") {
        empty if empty.is_empty() => field(data, "html"),
        markdown => markdown,
    };
    let source = field(&metadata, "sourceURL");
    let error = metadata.get("error").and_then(Value::as_str).filter(|_| text.is_empty()).map(str::to_owned);
    let nothing = || text.is_empty().then(|| "the page has no content".to_owned());
    ServicePage {
        url: if source.is_empty() { url.to_owned() } else { source },
        title: field(&metadata, "title"),
        error: error.or_else(nothing),
        text,
    }
}
