//! The requests of the streamable HTTP transport, made with the program's own HTTP client.
//!
//! The address is the user's word and may be private. Where a server redirects to is not: such a hop is checked like
//! any address from outside, and gets no secret. A token goes only to the configured address.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use hermes_config::settings::{McpServer, McpTransport};
use hermes_net::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use hermes_net::{HeaderName, HeaderValue, HttpClient, HttpRequest, HttpResponse, StatusCode};
use hermes_text::SseParser;
use hermes_types::{Cancel, Clock, Deadline, Secret};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::connections::SharedParts;
use crate::error::Error;
use crate::oauth::{AccessTokens, TokenRenewal};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The longest event and the largest answer, in bytes.
const LARGEST_MESSAGE: usize = 32 * 1024 * 1024;
const LARGEST_ERROR: usize = 64 * 1024;
const MOST_REDIRECTS: usize = 5;
/// The longest silence within an answer.
const STALL: Duration = Duration::from_mins(5);
/// The longest silence of the stream on which a server speaks up by itself.
const QUIET: Duration = Duration::from_hours(1);
/// A stream lasts as long as its connection; this only bounds a forgotten one.
const FOREVER: Duration = Duration::from_hours(24 * 365);

type HttpError = StreamableHttpError<hermes_net::Error>;
type EventStream = BoxStream<'static, Result<Sse, SseError>>;

/// The HTTP side of one server.
#[derive(Clone)]
pub(crate) struct HttpTransport {
    http: HttpClient,
    clock: Arc<dyn Clock>,
    headers: Arc<Vec<(HeaderName, Secret)>>,
    tokens: Option<AccessTokens>,
    timeout: Duration,
    cancel: Cancel,
}

impl HttpTransport {
    pub(crate) fn new(server: &McpServer, shared: &SharedParts) -> Result<Self, Error> {
        let McpTransport::Http { url, headers, oauth } = &server.transport else {
            return Err(Error::Configuration("it has no address".to_owned()));
        };
        if HttpRequest::get(url).is_err() {
            return Err(Error::Configuration("its url is not a valid URL".to_owned()));
        }
        let headers = headers
            .iter()
            .map(|(name, value)| {
                let invalid =
                    || Error::Configuration(format!("its header {name} has characters that cannot be sent"));
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
                HeaderValue::from_str(value).map_err(|_| invalid())?;
                Ok((name, Secret::new(value.as_str())))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let tokens = oauth.then(|| AccessTokens::new(&server.name, &shared.options));
        Ok(Self {
            http: shared.options.http.clone(),
            clock: shared.clock.clone(),
            headers: Arc::new(headers),
            tokens,
            timeout: server.timeout.max(server.connect_timeout),
            cancel: Cancel::new(),
        })
    }

    /// Sends a request with the user's headers and the token. A token that is refused is renewed once.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.send_with(request.clone(), TokenRenewal::IfExpired).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.tokens.is_none() {
            return Ok(response);
        }
        self.send_with(request, TokenRenewal::Now).await
    }

    async fn send_with(
        &self,
        request: HttpRequest,
        renewal: TokenRenewal,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = request;
        for (name, value) in self.headers.iter() {
            request = request.secret_header(name.clone(), value).map_err(StreamableHttpError::Client)?;
        }
        if let Some(tokens) = &self.tokens
            && !self.headers.iter().any(|(name, _)| name == AUTHORIZATION)
        {
            let Some(token) = tokens.current(renewal).await else {
                return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())));
            };
            request = request.bearer(&token).map_err(StreamableHttpError::Client)?;
        }
        let deadline = Deadline::after(&*self.clock, FOREVER);
        let request = request.follow_redirects(MOST_REDIRECTS).response_timeout(self.timeout);
        self.http.send(request, deadline, &self.cancel).await.map_err(StreamableHttpError::Client)
    }
}

impl StreamableHttpClient for HttpTransport {
    type Error = hermes_net::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let request = HttpRequest::post(&uri).and_then(|request| request.json(&message));
        let request = with_headers(request, session_id.as_deref(), custom_headers)?
            .header(ACCEPT, "application/json, text/event-stream")
            .map_err(StreamableHttpError::Client)?;
        let response = self.send(request.stall_timeout(STALL)).await?;
        let status = response.status();
        if let Some(error) = authorization_error(&response) {
            return Err(error);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(HttpStatusError::new(status.as_u16(), None).into());
        }
        let session = header_text(&response, &SESSION);
        let kind = header_text(&response, &CONTENT_TYPE).unwrap_or_default();
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        if !status.is_success() {
            let body = response.text(LARGEST_ERROR).await.unwrap_or_default();
            if let Ok(error @ ServerJsonRpcMessage::Error(_)) = serde_json::from_str(&body) {
                return Ok(StreamableHttpPostResponse::Json(error, session));
            }
            return Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}").into()));
        }
        if kind.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(events(response), session));
        }
        let body = response.bytes(LARGEST_MESSAGE).await.map_err(StreamableHttpError::Client)?;
        match serde_json::from_slice(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            // Nothing is expected in answer to a notification, whatever the server writes there.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let url = HttpRequest::get(&uri).map_err(StreamableHttpError::Client)?.url().clone();
        let request = Ok(HttpRequest::new(hermes_net::Method::DELETE, url));
        let request = with_headers(request, Some(&session_id), custom_headers)?;
        self.send(request).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<EventStream, HttpError> {
        let request = with_headers(HttpRequest::get(&uri), session_id.as_deref(), custom_headers)?;
        let mut request = request.header(ACCEPT, "text/event-stream").map_err(StreamableHttpError::Client)?;
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT, &id).map_err(StreamableHttpError::Client)?;
        }
        let response = self.send(request.stall_timeout(QUIET)).await?;
        if let Some(error) = authorization_error(&response) {
            return Err(error);
        }
        let kind = header_text(&response, &CONTENT_TYPE).unwrap_or_default();
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            status if !status.is_success() => Err(HttpStatusError::new(status.as_u16(), None).into()),
            _ if kind.starts_with("text/event-stream") => Ok(events(response)),
            _ => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        }
    }
}

fn with_headers(
    request: Result<HttpRequest, hermes_net::Error>,
    session: Option<&str>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Result<HttpRequest, HttpError> {
    let mut request = request.map_err(StreamableHttpError::Client)?;
    for (name, value) in headers {
        let value = value.to_str().unwrap_or_default();
        request = request.header(name, value).map_err(StreamableHttpError::Client)?;
    }
    if let Some(session) = session {
        request = request.header(SESSION, session).map_err(StreamableHttpError::Client)?;
    }
    Ok(request)
}

fn header_text(response: &HttpResponse, name: &HeaderName) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

fn authorization_error(response: &HttpResponse) -> Option<HttpError> {
    let challenge = header_text(response, &WWW_AUTHENTICATE);
    match (response.status(), challenge) {
        (StatusCode::UNAUTHORIZED, challenge) => {
            Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.unwrap_or_default())))
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            Some(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => None,
    }
}

/// Reads the events of a body. An event that is too large, or an error of the connection, ends the stream.
fn events(response: HttpResponse) -> EventStream {
    let state = (response, SseParser::new(LARGEST_MESSAGE), Stage::Open);
    stream::unfold(state, |(mut response, mut parser, mut stage)| async move {
        loop {
            if let Some(event) = parser.next_event() {
                let event = Sse {
                    event: Some(event.event).filter(|name| !name.is_empty()),
                    data: Some(event.data),
                    id: event.id,
                    retry: None,
                };
                return Some((Ok(event), (response, parser, stage)));
            }
            if stage == Stage::Closed {
                return None;
            }
            let read = match response.next_chunk().await {
                Ok(Some(chunk)) => parser.push(&chunk).map_err(|error| error.to_string()),
                Ok(None) => {
                    parser.finish();
                    stage = Stage::Closed;
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(reason) = read {
                let error = SseError::Body(reason.into());
                return Some((Err(error), (response, parser, Stage::Closed)));
            }
        }
    })
    .boxed()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Closed,
}
