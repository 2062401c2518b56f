//! SearXNG: a search engine that people host themselves.

use hermes_net::{HttpRequest, Method, Url};

use super::{SearchHit, ServiceCall, ServiceFailure, hits, rows};

pub(in crate::web) async fn search(
    call: &ServiceCall<'_>,
    query: &str,
    limit: usize,
) -> Result<Vec<SearchHit>, ServiceFailure> {
    let base = call.keys.searxng_url.as_deref().unwrap_or_default();
    let invalid = || ServiceFailure::Failed("web.searxng_url is not a valid URL".to_owned());
    let mut url = Url::parse(&format!("{base}/search")).map_err(|_| invalid())?;
    url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
    // The user configured the address: it may be on their own network.
    let answer = call.json(HttpRequest::new(Method::GET, url)).await?;
    let mut hits = hits(rows(&answer, "/results"), "content");
    hits.truncate(limit);
    Ok(hits)
}
