//! Exa.

use hermes_net::{HeaderName, HttpRequest};
use serde_json::{Value, json};

use super::{SearchHit, ServiceCall, ServiceFailure, ServicePage, field, joined, rows};

pub(in crate::web) async fn search(
    call: &ServiceCall<'_>,
    query: &str,
    limit: usize,
) -> Result<Vec<SearchHit>, ServiceFailure> {
    let body = json!({"query": query, "numResults": limit, "contents": {"highlights": true}});
    let answer = call.json(request(call, "search", &body)?).await?;
    let hits = rows(&answer, "/results").iter().map(|row| SearchHit {
        title: field(row, "title"),
        url: field(row, "url"),
        description: joined(row, "highlights", " "),
    });
    Ok(hits.collect())
}

pub(in crate::web) async fn extract(
    call: &ServiceCall<'_>,
    urls: &[&str],
) -> Result<Vec<ServicePage>, ServiceFailure> {
    let answer = call.json(request(call, "contents", &json!({"urls": urls, "text": true}))?).await?;
    let read = rows(&answer, "/results").iter().map(|row| ServicePage {
        url: field(row, "url"),
        title: field(row, "title"),
        text: field(row, "text"),
        error: None,
    });
    let failed = rows(&answer, "/statuses").iter().filter(|row| field(row, "status") == "error").map(|row| {
        let tag = row.pointer("/error/tag").and_then(Value::as_str).unwrap_or("extraction failed");
        ServicePage::failed(&field(row, "id"), tag)
    });
    Ok(read.chain(failed).collect())
}

fn request(call: &ServiceCall<'_>, path: &str, body: &Value) -> Result<HttpRequest, ServiceFailure> {
    let key = call.key(call.keys.exa.as_ref())?;
    Ok(HttpRequest::post(&format!("{}/{path}", call.access.addresses.exa))?
        .json(body)?
        .header(HeaderName::from_static("x-exa-integration"), "hermes-agent")?
        .secret_header(HeaderName::from_static("x-api-key"), key)?)
}
