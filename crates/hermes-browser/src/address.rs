//! The address of a browser that runs elsewhere.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::{HttpClient, HttpRequest, Url};
use hermes_types::{Cancel, Clock, Deadline};
use serde_json::Value;

use crate::error::BrowserError;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the address of the socket for what a user configured: the socket itself, or the browser's HTTP port.
pub(crate) async fn socket_address(
    given: &str,
    http: &HttpClient,
    clock: &Arc<dyn Clock>,
    cancel: &Cancel,
) -> Result<Url, BrowserError> {
    let given = given.trim();
    let with_scheme = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    let invalid =
        || BrowserError::Unavailable(format!("the address of the browser is not valid: {}", shown(given)));
    let url = Url::parse(&with_scheme).map_err(|_| invalid())?;
    let is_socket = matches!(url.scheme(), "ws" | "wss");
    if !is_socket && !matches!(url.scheme(), "http" | "https") {
        return Err(invalid());
    }
    if is_socket && (url.path().contains("/devtools/") || url.query().is_some()) {
        return Ok(url);
    }
    let asked =
        format!("{}{}", url.scheme().replacen("ws", "http", 1), with_scheme.trim_start_matches(url.scheme()));
    let asked = Url::parse(&asked).and_then(|url| url.join("/json/version")).map_err(|_| invalid())?;
    match version(asked, http, clock, cancel).await {
        Ok(found) => Ok(found),
        Err(BrowserError::Cancelled) => Err(BrowserError::Cancelled),
        Err(_) if is_socket => Ok(url),
        Err(error) => Err(error),
    }
}

async fn version(
    url: Url,
    http: &HttpClient,
    clock: &Arc<dyn Clock>,
    cancel: &Cancel,
) -> Result<Url, BrowserError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let unavailable = |error: hermes_net::Error| match error {
        hermes_net::Error::Cancelled => BrowserError::Cancelled,
        error => BrowserError::Unavailable(format!(
            "no browser answers at {host}: {error}. Start one with --remote-debugging-port=9222"
        )),
    };
    let request = HttpRequest::new(hermes_net::Method::GET, url).response_timeout(TIMEOUT);
    let deadline = Deadline::after(&**clock, TIMEOUT);
    let answer = http.send(request, deadline, cancel).await.map_err(unavailable)?;
    let bytes = answer.bytes(64 * 1024).await.map_err(unavailable)?;
    let version: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let address = version["webSocketDebuggerUrl"].as_str().and_then(|text| Url::parse(text).ok());
    address.ok_or_else(|| BrowserError::Unavailable(format!("what answers at {host} is no browser")))
}

/// Returns an address without what may be secret in it.
pub fn shown(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) if url.has_host() => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
        }
        _ => address.chars().take(60).collect(),
    }
}
