//! One request and its answer, streamed or in one piece.

use std::time::Duration;

use hermes_net::header::HeaderName;
use hermes_net::{Error as NetError, HttpClient, HttpResponse, Method, StatusCode, Url};
use hermes_types::{Clock, ModelRequest};

use super::endpoint::{Endpoint, PresentedCredential};
use super::replay_filter::ReplayFilter;
use crate::client::aws;
use crate::error::Error;
use crate::wire::{
    AnswerDecoder, DecodedAnswer, ProviderFailure, StreamEnding, StreamingMode, build_body, decode_plain,
    headers, url_for,
};

/// The largest answer that is read in one piece.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;
/// The most of a refusal's body that is read.
const REFUSAL_LIMIT: usize = 256 * 1024;

/// The reason why a request got no answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    Cancelled,
    DeadlinePassed,
    /// The provider or the connection to it failed.
    Failed(Box<ProviderFailure>),
    /// An answer arrived, but without the required parts.
    Malformed(String),
    /// The request cannot be sent as configured.
    Misconfigured(String),
}

impl From<NetError> for ExchangeError {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Cancelled => Self::Cancelled,
            NetError::DeadlinePassed => Self::DeadlinePassed,
            NetError::InvalidUrl | NetError::Settings { .. } | NetError::Tls { .. } | NetError::Denied(_) => {
                Self::Misconfigured(error.to_string())
            }
            other => Self::Failed(Box::new(ProviderFailure::network(other.to_string()))),
        }
    }
}

impl From<Error> for ExchangeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Retry { reason } => Self::Failed(Box::new(ProviderFailure::network(format!(
                "the answer could not be read: {reason}"
            )))),
            Error::UseFallback { missing } => Self::Malformed(missing.to_owned()),
            Error::Classify(fault) => Self::Failed(Box::new(ProviderFailure::from(&fault))),
        }
    }
}

/// The time limits of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExchangeTimeouts {
    pub(super) first_byte: Duration,
    /// The longest time without content.
    pub(super) stall: Duration,
    /// The longest time without a byte.
    pub(super) silence: Duration,
}

/// The options of one attempt to send a request.
pub(super) struct ExchangeOptions<'a> {
    pub(super) client: &'a HttpClient,
    pub(super) endpoint: &'a Endpoint,
    pub(super) presented: PresentedCredential,
    pub(super) streaming: StreamingMode,
    pub(super) timeouts: ExchangeTimeouts,
    pub(super) clock: &'a dyn Clock,
}

/// Sends the request once and reads the whole answer.
pub(super) async fn exchange(
    sending: &ExchangeOptions<'_>,
    request: &ModelRequest,
    shown: &mut ReplayFilter<'_>,
) -> Result<DecodedAnswer, ExchangeError> {
    let outgoing = prepare(sending, request)?
        .response_timeout(sending.timeouts.first_byte)
        .stall_timeout(sending.timeouts.silence)
        .body_limit(ANSWER_LIMIT);
    let endpoint = sending.endpoint;
    let response = sending.client.send(outgoing, request.deadline, &request.cancel).await?;
    if !response.status().is_success() {
        return Err(ExchangeError::Failed(Box::new(read_refusal(response).await?)));
    }
    match sending.streaming {
        // Some servers ignore the request for a stream and answer in one piece.
        StreamingMode::Streamed if !is_json(&response) => read_stream(sending, response, shown).await,
        _ => {
            let body = response.bytes(ANSWER_LIMIT).await?;
            let answer = decode_plain(&endpoint.wire, &body)?;
            emit_answer(&answer, shown);
            Ok(answer)
        }
    }
}

fn prepare(
    sending: &ExchangeOptions<'_>,
    request: &ModelRequest,
) -> Result<hermes_net::HttpRequest, ExchangeError> {
    let ExchangeOptions { endpoint, presented, streaming, clock, .. } = sending;
    let misconfigured = |what: String| ExchangeError::Misconfigured(what);
    let address = url_for(&endpoint.wire, &endpoint.model, *streaming);
    let url = Url::parse(&address).map_err(|_| {
        misconfigured(format!("`{}` is not an address; check model.base_url", endpoint.wire.base.as_str()))
    })?;
    let body = build_body(request, &endpoint.wire, *streaming).to_bytes();
    let mut outgoing = hermes_net::HttpRequest::new(Method::POST, url.clone());
    let mut sent = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("user-agent".to_owned(), concat!("HermesAgent/", env!("CARGO_PKG_VERSION")).to_owned()),
    ];
    let accept = match streaming {
        StreamingMode::Streamed => "text/event-stream, application/json",
        StreamingMode::Plain => "application/json",
    };
    sent.push(("accept".to_owned(), accept.to_owned()));
    sent.extend(headers(&endpoint.wire, request));
    for (name, value) in &sent {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| misconfigured(format!("`{name}` is not a header name")))?;
        outgoing = outgoing.header(name, value)?;
    }
    outgoing = match presented {
        PresentedCredential::Bearer(token) => outgoing.bearer(token)?,
        PresentedCredential::ApiKeyHeader(key) => {
            outgoing.secret_header(HeaderName::from_static("x-api-key"), key)?
        }
        PresentedCredential::Aws(keys) => {
            for (name, value) in aws::sign(keys, &url, &body, clock.now()) {
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| misconfigured("a header name".to_owned()))?;
                outgoing = outgoing.secret_header(name, &value)?;
            }
            outgoing
        }
        PresentedCredential::Anonymous => outgoing,
    };
    Ok(outgoing.body(body))
}

fn is_json(response: &HttpResponse) -> bool {
    let kind =
        response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("application/json")
}

async fn read_stream(
    sending: &ExchangeOptions<'_>,
    mut response: HttpResponse,
    shown: &mut ReplayFilter<'_>,
) -> Result<DecodedAnswer, ExchangeError> {
    let mut decoder = AnswerDecoder::new(&sending.endpoint.wire);
    let mut spoke_at = sending.clock.monotonic();
    let mut deltas = Vec::new();
    let mut broken = None;
    loop {
        match response.next_chunk().await {
            Ok(Some(chunk)) => {
                let now = sending.clock.monotonic();
                if !is_keep_alive(&chunk) {
                    spoke_at = now;
                } else if now.saturating_sub(spoke_at) >= sending.timeouts.stall {
                    let stalled = sending.timeouts.stall.as_secs();
                    let words =
                        format!("the stream said nothing for {stalled} s but kept its connection alive");
                    return Err(ExchangeError::Failed(Box::new(ProviderFailure::network(words))));
                }
                let read = decoder.push(&chunk, &mut deltas);
                deltas.drain(..).for_each(|delta| shown.pass(delta));
                read?;
            }
            Ok(None) => break,
            // The provider marked the end before the connection broke; nothing is missing.
            Err(_) if decoder.has_ended() => break,
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    if let Some(error) = broken {
        return Err(error.into());
    }
    let ending = decoder.finish(&mut deltas)?;
    deltas.drain(..).for_each(|delta| shown.pass(delta));
    match ending {
        StreamEnding::Complete(answer) => Ok(*answer),
        StreamEnding::CutOff(_) => Err(ExchangeError::Failed(Box::new(ProviderFailure::network(
            "the stream ended before the answer did",
        )))),
    }
}

/// Tells whether a chunk of a stream contains only comments, which proxies send to keep a connection open.
fn is_keep_alive(chunk: &[u8]) -> bool {
    let mut lines = chunk.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.all(|line| line.is_empty() || line.starts_with(b":"))
}

/// Emits deltas for an answer in one piece, so that a consumer sees the same as for a stream.
fn emit_answer(answer: &DecodedAnswer, shown: &mut ReplayFilter<'_>) {
    use hermes_types::Delta;
    if let Some(reasoning) = answer.message.reasoning.clone().filter(|text| !text.is_empty()) {
        shown.pass(Delta::Reasoning(reasoning));
    }
    let text = answer.message.content.text();
    let visible = hermes_text::strip_think(&text);
    if !visible.trim().is_empty() {
        shown.pass(Delta::Text(visible.into_owned()));
    }
    for call in &answer.message.tool_calls {
        shown.pass(Delta::ToolStarted { name: call.name.clone() });
    }
}

async fn read_refusal(response: HttpResponse) -> Result<ProviderFailure, ExchangeError> {
    let status: StatusCode = response.status();
    let named: Vec<(String, String)> = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect();
    let body = match response.bytes(REFUSAL_LIMIT).await {
        Ok(body) => body.to_vec(),
        Err(NetError::Cancelled) => return Err(ExchangeError::Cancelled),
        // The status alone is sufficient.
        Err(_) => Vec::new(),
    };
    Ok(ProviderFailure::http(status.as_u16(), &named, &body))
}
