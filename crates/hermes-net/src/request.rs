//! The request: URL, method, headers, body and limits.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hermes_types::Secret;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use url::Url;

use crate::error::Error;

/// The origin of a URL, which decides the checks made on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UrlTrust {
    /// The user configured the URL: any address is allowed.
    #[default]
    Configured,
    /// A model or a web page gave the URL: only addresses that the policy allows, checked before and after the name
    /// is resolved.
    Untrusted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RedirectPolicy {
    /// A redirect is returned to the caller like any other response.
    #[default]
    Return,
    /// Redirects are followed and each hop is checked; a hop to another host counts as untrusted. Secrets are sent
    /// only to the host they were meant for.
    Follow { most: usize },
}

/// The largest body of an untrusted response, unless the request sets another limit.
const UNTRUSTED_BODY_LIMIT: usize = 32 * 1024 * 1024;

/// A request. Its `Debug` form shows the host, names of headers and sizes, never values.
#[derive(Clone)]
pub struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trust: UrlTrust,
    pub(crate) redirects: RedirectPolicy,
    pub(crate) response_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) body_limit: Option<usize>,
}

impl HttpRequest {
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            trust: UrlTrust::Configured,
            redirects: RedirectPolicy::Return,
            response_timeout: Duration::from_mins(1),
            stall_timeout: Duration::from_mins(1),
            body_limit: None,
        }
    }

    pub fn get(url: &str) -> Result<Self, Error> {
        Ok(Self::new(Method::GET, parse(url)?))
    }

    pub fn post(url: &str) -> Result<Self, Error> {
        Ok(Self::new(Method::POST, parse(url)?))
    }

    /// Sets a header that is not secret. The error for an invalid value does not repeat the value.
    pub fn header(mut self, name: HeaderName, value: &str) -> Result<Self, Error> {
        let value = HeaderValue::from_str(value).map_err(|_| invalid_header_error(&self.url, &name))?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Sets a header that is never shown, never stored in compression tables, and never sent to another host.
    pub fn secret_header(mut self, name: HeaderName, value: &Secret) -> Result<Self, Error> {
        let mut value =
            HeaderValue::from_str(value.expose()).map_err(|_| invalid_header_error(&self.url, &name))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Sets `Authorization: Bearer …`.
    pub fn bearer(self, token: &Secret) -> Result<Self, Error> {
        self.secret_header(AUTHORIZATION, &Secret::new(format!("Bearer {}", token.expose())))
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub fn json(mut self, value: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(value).map_err(|_| Error::Other {
            host: host_of(&self.url),
            why: "its body cannot be written as JSON".to_owned(),
        })?;
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = body.into();
        Ok(self)
    }

    /// Marks the URL as untrusted, and caps the response body.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.trust = UrlTrust::Untrusted;
        self.body_limit = self.body_limit.or(Some(UNTRUSTED_BODY_LIMIT));
        self
    }

    #[must_use]
    pub fn follow_redirects(mut self, most: usize) -> Self {
        self.redirects = RedirectPolicy::Follow { most };
        self
    }

    /// Sets how long to wait for the status line, including connecting and sending.
    #[must_use]
    pub fn response_timeout(mut self, patience: Duration) -> Self {
        self.response_timeout = patience;
        self
    }

    /// Sets how long the body may pause.
    #[must_use]
    pub fn stall_timeout(mut self, patience: Duration) -> Self {
        self.stall_timeout = patience;
        self
    }

    /// Sets the most bytes that the body may have in total, however it is read.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = Some(bytes);
        self
    }

    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("host", &host_of(&self.url))
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .field("body", &self.body.len())
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

fn invalid_header_error(url: &Url, name: &HeaderName) -> Error {
    Error::Other { host: host_of(url), why: format!("its header {name} has characters that cannot be sent") }
}

pub(crate) fn parse(url: &str) -> Result<Url, Error> {
    Url::parse(url).map_err(|_| Error::InvalidUrl)
}

/// Returns the host, with its port where that is not the default one: the only part of a URL that may be shown.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("(no host)");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
