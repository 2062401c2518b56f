//! Derives the request for the next hop of a redirect.

use hermes_guard::UrlDenialReason;
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, LOCATION,
    PROXY_AUTHORIZATION,
};
use reqwest::{Method, StatusCode};
use url::Url;

use crate::error::Error;
use crate::request::{HttpRequest, host_of};

/// Headers that carry credentials even if the caller did not mark them as secret.
const CREDENTIALS: [HeaderName; 3] = [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE];

/// Returns the request for the next hop, or `None` when the response is not a redirect.
pub(crate) fn next(
    request: &HttpRequest,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<HttpRequest>, Error> {
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(LOCATION).filter(|_| redirects) else { return Ok(None) };
    let mut url = location
        .to_str()
        .ok()
        .and_then(|location| request.url.join(location).ok())
        .ok_or(Error::InvalidUrl)?;
    url.set_fragment(None);
    let mut next = request.clone();
    let becomes_get = status == StatusCode::SEE_OTHER && request.method != Method::HEAD
        || matches!(status.as_u16(), 301 | 302) && request.method == Method::POST;
    if becomes_get {
        next.method = Method::GET;
        next.body.clear();
        for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
            next.headers.remove(name);
        }
    }
    if !same_origin(&request.url, &url) {
        if !next.body.is_empty() {
            return Err(Error::Denied(UrlDenialReason::BodyElsewhere(host_of(&url)).into()));
        }
        drop_secrets(&mut next.headers);
    }
    if request.url.host_str() != url.host_str() {
        // From here on the URL comes from a server, not from the user.
        next = next.untrusted();
    }
    next.url = url;
    Ok(Some(next))
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

fn drop_secrets(headers: &mut HeaderMap) {
    let secret: Vec<HeaderName> = headers
        .iter()
        .filter(|(name, value)| value.is_sensitive() || CREDENTIALS.contains(name))
        .map(|(name, _)| name.clone())
        .collect();
    for name in secret {
        headers.remove(name);
    }
}
