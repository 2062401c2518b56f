//! Brave Search.

use hermes_net::{HeaderName, HttpRequest, Method, Url};

use super::{SearchHit, ServiceCall, ServiceFailure, field, rows};

/// The most hits that the service returns.
const MOST_HITS: usize = 20;

pub(in crate::web) async fn search(
    call: &ServiceCall<'_>,
    query: &str,
    limit: usize,
) -> Result<Vec<SearchHit>, ServiceFailure> {
    let address = format!("{}/res/v1/web/search", call.access.addresses.brave);
    let invalid = |_| ServiceFailure::Failed("not a valid URL".to_owned());
    let mut url = Url::parse(&address).map_err(invalid)?;
    url.query_pairs_mut().append_pair("q", query).append_pair("count", &limit.min(MOST_HITS).to_string());
    let key = call.key(call.keys.brave.as_ref())?;
    let request = HttpRequest::new(Method::GET, url)
        .secret_header(HeaderName::from_static("x-subscription-token"), key)?;
    let answer = call.json(request).await?;
    let hits = rows(&answer, "/web/results").iter().map(|row| SearchHit {
        title: without_marks(&field(row, "title")),
        url: field(row, "url"),
        description: without_marks(&field(row, "description")),
    });
    Ok(hits.collect())
}

/// Removes the marks around the words that were searched for.
fn without_marks(text: &str) -> String {
    text.replace("<strong>", "")
        .replace("</strong>", "")
        .replace("&#x27;", "'")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}
