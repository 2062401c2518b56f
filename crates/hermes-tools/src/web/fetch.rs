//! Fetches a page and reads its text, without a service.

use std::sync::Arc;
use std::time::Duration;

use hermes_guard::{UrlDenial, UrlPolicy};
use hermes_net::{Error, HttpClient, HttpRequest, HttpResponse, Method, Url, header};
use hermes_types::{Cancel, Deadline};

use super::WebAccess;
use crate::off_thread::off_thread;

/// The most redirects that are followed.
const MOST_HOPS: usize = 10;
/// The largest document that is read.
const LARGEST: usize = 20 * 1024 * 1024;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const STALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The time for reading one document, apart from fetching it.
const READING_TIMEOUT: Duration = Duration::from_secs(20);

const ACCEPT: &str = "text/html,application/xhtml+xml,text/markdown;q=0.9,application/pdf;q=0.9,*/*;q=0.8";
/// Some sites refuse names that do not begin like this; the program still says who it is.
pub(crate) const USER_AGENT: &str =
    concat!("Mozilla/5.0 (compatible; hermes/", env!("CARGO_PKG_VERSION"), ")");

/// The text of a page, and the address it came from.
#[derive(Debug)]
pub(super) struct FetchedPage {
    pub(super) url: String,
    pub(super) title: String,
    pub(super) text: String,
}

/// The reason why a page could not be read.
#[derive(Debug)]
pub(super) enum FetchFailure {
    Denied(UrlDenial),
    Cancelled,
    Failed(String),
}

impl From<Error> for FetchFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(denial) => Self::Denied(denial),
            Error::Cancelled => Self::Cancelled,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Fetches a page whose address was checked.
pub(super) async fn fetch(
    access: &WebAccess,
    url: Url,
    deadline: Deadline,
    cancel: &Cancel,
) -> Result<FetchedPage, FetchFailure> {
    let http = access.http.get().map_err(FetchFailure::Failed)?;
    let policy = access.policy.current();
    let response = follow(&http, &policy, url, deadline, cancel).await?;
    let status = response.status();
    if !status.is_success() {
        let reason = status.canonical_reason().unwrap_or_default();
        return Err(FetchFailure::Failed(format!("HTTP {} {reason}", status.as_u16()).trim_end().to_owned()));
    }
    let url = response.url().to_string();
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.map(str::to_owned);
    let bytes = response.bytes(LARGEST).await?;
    let address = url.clone();
    let reading =
        off_thread("web_extract", move || hermes_extract::extract(&bytes, content_type.as_deref(), &address));
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(FetchFailure::Cancelled),
        read = reading => {
            let read = read.map_err(|_| FetchFailure::Failed("the document could not be read".to_owned()))?;
            let document = read.map_err(|error| FetchFailure::Failed(error.to_string()))?;
            Ok(FetchedPage { url, title: document.title, text: document.text })
        }
        () = access.clock.sleep(READING_TIMEOUT) => {
            Err(FetchFailure::Failed(format!("reading it took longer than {} s", READING_TIMEOUT.as_secs())))
        }
    }
}

/// Requests an address and those it redirects to, each of which the policy must allow.
async fn follow(
    http: &HttpClient,
    policy: &Arc<UrlPolicy>,
    mut url: Url,
    deadline: Deadline,
    cancel: &Cancel,
) -> Result<HttpResponse, FetchFailure> {
    for _ in 0..=MOST_HOPS {
        // The client checks addresses; the list of blocked websites may be newer than the client.
        policy.check_url(&url).map_err(FetchFailure::Denied)?;
        let request = HttpRequest::new(Method::GET, url.clone())
            .header(header::ACCEPT, ACCEPT)?
            .header(header::USER_AGENT, USER_AGENT)?
            .body_limit(LARGEST)
            .response_timeout(ANSWER_TIMEOUT)
            .stall_timeout(STALL_TIMEOUT)
            .untrusted();
        let response = http.send(request, deadline, cancel).await?;
        let location =
            response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection());
        let Some(location) = location else { return Ok(response) };
        let next = location.to_str().ok().and_then(|location| url.join(location).ok());
        url = next.ok_or_else(|| FetchFailure::Failed("it redirects to no valid URL".to_owned()))?;
    }
    Err(FetchFailure::Failed("it redirects too often".to_owned()))
}
