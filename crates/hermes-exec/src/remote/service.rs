//! A client for a service's HTTP interface: requests with an API key, JSON responses, and error messages.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::{Error, HeaderName, HttpClient, HttpRequest, Method, StatusCode, Url};
use hermes_types::{Cancel, Clock, Deadline, Secret};
use serde::Deserialize;
use serde_json::Value;

use super::CliError;

pub(crate) const ASK_LIMIT: Duration = Duration::from_secs(30);
const MOST_ANSWER: usize = 32 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct HttpService {
    /// The name of the service in messages.
    pub(crate) name: &'static str,
    /// The setting that holds the address of the service.
    pub(crate) setting: &'static str,
    pub(crate) client: HttpClient,
    pub(crate) address: String,
    pub(crate) key: Secret,
    pub(crate) clock: Arc<dyn Clock>,
}

impl HttpService {
    /// Requests an action on a resource; a missing resource is no failure.
    pub(crate) async fn request_action(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
        cancel: &Cancel,
    ) -> Result<(), CliError> {
        let request = self.request(method, path, None)?;
        let request = match body {
            Some(body) => request.json(body).map_err(failed)?,
            None => request,
        };
        let (status, text) = self.send(request, ASK_LIMIT, cancel).await.map_err(failed)?;
        if status.is_success() || status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        Err(self.refused(status, &text))
    }

    /// Returns a resource, if it exists.
    pub(crate) async fn get<T: for<'a> Deserialize<'a>>(
        &self,
        path: &[&str],
        query: Option<(&str, &str)>,
        cancel: &Cancel,
    ) -> Result<Option<T>, CliError> {
        let request = self.request(Method::GET, path, query)?;
        let (status, text) = self.send(request, ASK_LIMIT, cancel).await.map_err(failed)?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(self.refused(status, &text));
        }
        self.parse(&text).map(Some)
    }

    /// Creates a resource. With `once`, a request that arrives twice creates only one.
    pub(crate) async fn create<T: for<'a> Deserialize<'a>>(
        &self,
        path: &[&str],
        body: &Value,
        once: Option<&str>,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<T, CliError> {
        let mut request = self.request(Method::POST, path, None)?.json(body).map_err(failed)?;
        if let Some(key) = once {
            request = request.header(HeaderName::from_static("x-idempotency-key"), key).map_err(failed)?;
        }
        let (status, text) =
            self.send(request.response_timeout(limit), limit, cancel).await.map_err(failed)?;
        if !status.is_success() {
            return Err(self.refused(status, &text));
        }
        self.parse(&text)
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &[&str],
        query: Option<(&str, &str)>,
    ) -> Result<HttpRequest, CliError> {
        let bad = || CliError::Refused(format!("{} is no address", self.setting));
        let mut url: Url = self.address.parse().map_err(|_| bad())?;
        url.path_segments_mut().map_err(|()| bad())?.pop_if_empty().extend(path);
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        HttpRequest::new(method, url).bearer(&self.key).map_err(failed)
    }

    pub(crate) async fn send(
        &self,
        request: HttpRequest,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<(StatusCode, String), Error> {
        let deadline = Deadline::after(&*self.clock, limit);
        let response = self.client.send(request, deadline, cancel).await?;
        let status = response.status();
        Ok((status, response.text(MOST_ANSWER).await?))
    }

    pub(crate) fn parse<T: for<'a> Deserialize<'a>>(&self, text: &str) -> Result<T, CliError> {
        serde_json::from_str(text)
            .map_err(|_| CliError::Refused(format!("{}'s answer is not what was expected", self.name)))
    }

    /// Returns the message of a response that is no success.
    pub(crate) fn error_text(&self, status: StatusCode, text: &str) -> String {
        let excerpt: String = text.trim().chars().take(300).collect();
        format!("{} answered {status}: {excerpt}", self.name)
    }

    fn refused(&self, status: StatusCode, text: &str) -> CliError {
        CliError::Refused(self.error_text(status, text))
    }
}

pub(crate) fn failed(error: Error) -> CliError {
    match error {
        Error::Cancelled => CliError::Interrupted,
        error => CliError::Refused(error.to_string()),
    }
}
