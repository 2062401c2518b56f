//! Requests to a server on behalf of a tool call: limits, cancellation, progress, and errors in words.

use std::fmt;
use std::time::Duration;

use hermes_types::{ToolContext, TurnEvent, TurnNoticeKind};
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ProgressToken, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::foreign_text::scrub_error;
use crate::link::ServerLink;

/// The shortest time between two notices of progress of one call.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// The longest wait for a server that is being connected again.
const RECONNECT_WAIT: Duration = Duration::from_secs(5);

/// The reason why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    NotConnected,
    Cancelled,
    Failed { kind: &'static str, reason: String },
}

/// A protocol error as it is shown: its kind and its text, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DescribedError {
    pub(crate) kind: &'static str,
    pub(crate) reason: String,
}

impl fmt::Display for DescribedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

pub(crate) fn describe_error(error: &ServiceError) -> DescribedError {
    let (kind, reason) = match error {
        ServiceError::McpError(error) => ("McpError", error.message.to_string()),
        ServiceError::TransportClosed => ("ConnectionError", "the server has ended".to_owned()),
        ServiceError::TransportSend(error) => ("ConnectionError", error.error.to_string()),
        ServiceError::Timeout { timeout } => {
            ("TimeoutError", format!("no answer within {} s", timeout.as_secs()))
        }
        other => ("ProtocolError", other.to_string()),
    };
    DescribedError { kind, reason: scrub_error(&reason) }
}

impl ServerLink {
    /// Sends a request and waits for its result within the server's time limit, that of the turn, and until the user
    /// interrupts.
    pub(crate) async fn request(
        &self,
        request: impl Into<ClientRequest>,
        context: &ToolContext<'_>,
    ) -> Result<ServerResult, CallError> {
        let clock = &*self.shared.clock;
        let Some(peer) = self.connected_peer(RECONNECT_WAIT, context.cancel).await else {
            return Err(CallError::NotConnected);
        };
        let limit = self.server.timeout.min(context.deadline.remaining(clock));
        let mut handle = send(&peer, request.into()).await?;
        let mut progress = self.progress.listen(&handle.progress_token);
        let mut questions = self.elicitations.listen();
        let mut out_of_time = clock.sleep(limit);
        let mut shown = None;
        let result = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => break match answer {
                    Ok(Ok(result)) => Ok(result),
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(ServiceError::TransportClosed),
                },
                () = context.cancel.cancelled() => {
                    self.forget_progress(&handle.progress_token);
                    withdraw(handle, "the user interrupted it").await;
                    return Err(CallError::Cancelled);
                }
                () = &mut out_of_time => {
                    self.forget_progress(&handle.progress_token);
                    withdraw(handle, "it took too long").await;
                    let reason = format!("no answer within {} s", limit.as_secs());
                    return Err(CallError::Failed { kind: "TimeoutError", reason });
                }
                Some(question) = questions.next() => {
                    questions.handle(question, &self.server.name, context).await;
                    // The time of a person does not count.
                    out_of_time = clock.sleep(limit);
                }
                Some(text) = next(&mut progress) => {
                    let now = clock.monotonic();
                    if shown.is_none_or(|before: Duration| now.saturating_sub(before) >= PROGRESS_INTERVAL) {
                        shown = Some(now);
                        let text = format!("{}: {text}", self.server.name);
                        context.frontend.show(TurnEvent::Notice { kind: TurnNoticeKind::Progress, text });
                    }
                }
            }
        };
        self.forget_progress(&handle.progress_token);
        result.map_err(|error| {
            let DescribedError { kind, reason } = describe_error(&error);
            CallError::Failed { kind, reason }
        })
    }

    fn forget_progress(&self, token: &ProgressToken) {
        self.progress.forget(token);
    }
}

async fn next(progress: &mut UnboundedReceiver<String>) -> Option<String> {
    progress.recv().await
}

async fn send(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
) -> Result<RequestHandle<RoleClient>, CallError> {
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    sent.map_err(|error| {
        let DescribedError { kind, reason } = describe_error(&error);
        CallError::Failed { kind, reason }
    })
}

/// Tells the server that nobody waits for the result any more.
async fn withdraw(handle: RequestHandle<RoleClient>, reason: &str) {
    if let Err(error) = handle.cancel(Some(reason.to_owned())).await {
        tracing::debug!(%error, "an MCP server was not told of a cancelled call");
    }
}
