//! The Socket Mode connections: several at once, each renewed when Slack requests it.
//!
//! Invariant: an envelope is acknowledged on the connection it came on, after its message is on disk: in the inbox,
//! or, while its files are still to be downloaded, in the spool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_net::{Error, HeaderMap, SocketFrame, SocketLimits, Url, WebSocket};
use hermes_types::{Cancel, ChannelError, ChatPart, ConnectionStatus, Deadline, Intake};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::SlackChannel;
use super::api::{MethodArguments, network_error};
use super::inbound::{self, MessageRelevance, SlackIdentity, SlackMessage};
use super::spool::DeferredMessage;
use crate::backoff::Backoff;
use crate::socket_text::{WRITE_TIMEOUT, next_text};

/// The time without a frame after which a ping is sent; after the same time again the connection is closed.
const SILENCE: Duration = Duration::from_secs(30);
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
const LIFETIME: Duration = Duration::from_hours(24 * 365);
/// The delay before storing a message is retried.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The state all connections of one `listen` share.
pub(super) struct SocketContext<'a> {
    pub(super) slack: &'a SlackChannel,
    pub(super) identity: SlackIdentity,
    pub(super) intake: &'a dyn Intake,
    pub(super) cancel: &'a Cancel,
    pub(super) deferred: UnboundedSender<DeferredMessage>,
    pub(super) open: AtomicUsize,
}

/// The reason for a regular end of a connection.
enum SocketEnd {
    Renew,
    Cancelled,
}

impl SocketContext<'_> {
    /// Keeps one connection open, reconnecting until cancelled or until a permanent failure.
    pub(super) async fn keep_open(&self) -> Result<(), ChannelError> {
        let clock = &self.slack.context.clock;
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        loop {
            let reason = match self.serve(&mut pauses).await {
                Ok(SocketEnd::Cancelled) => return Ok(()),
                Ok(SocketEnd::Renew) => continue,
                Err(ChannelError::Retry { after, reason }) => {
                    let pause = after.unwrap_or_default().max(pauses.next());
                    tokio::select! {
                        () = clock.sleep(pause) => {}
                        () = self.cancel.cancelled() => return Ok(()),
                    }
                    reason
                }
                Err(error) => return Err(error),
            };
            tracing::debug!(%reason, "reconnecting to Slack");
        }
    }

    async fn serve(&self, pauses: &mut Backoff) -> Result<SocketEnd, ChannelError> {
        let mut socket = self.connect().await?;
        let mut greeted = false;
        let ended = loop {
            let frame = tokio::select! {
                frame = next_text(&mut socket, SILENCE) => frame,
                () = self.cancel.cancelled() => break Ok(SocketEnd::Cancelled),
            };
            let frame = match frame {
                Ok(Some(text)) => text,
                Ok(None) => break Ok(SocketEnd::Renew),
                Err(error) => break Err(network_error(&error).error),
            };
            // A frame that is not JSON is ignored.
            let Ok(frame) = serde_json::from_str::<Value>(&frame) else { continue };
            match frame.get("type").and_then(Value::as_str) {
                Some("hello") if !greeted => {
                    greeted = true;
                    pauses.reset();
                    self.report_connected();
                }
                Some("disconnect") => {
                    if frame.get("reason").and_then(Value::as_str) == Some("link_disabled") {
                        let reason =
                            "Socket Mode is turned off for this app; turn it on at api.slack.com/apps";
                        break Err(ChannelError::Refused(reason.to_owned()));
                    }
                    break Ok(SocketEnd::Renew);
                }
                _ => {
                    if let Err(error) = self.handle_frame(&frame, &mut socket).await {
                        break Err(network_error(&error).error);
                    }
                }
            }
        };
        if greeted {
            self.report_disconnected(&ended);
        }
        // The connection may be closed already.
        socket.close(WRITE_TIMEOUT).await.ok();
        // A connection that ends before it was ready must not be retried in a tight loop.
        if !greeted && matches!(ended, Ok(SocketEnd::Renew)) {
            return Err(ChannelError::Retry {
                after: None,
                reason: "Slack closed the connection at once".to_owned(),
            });
        }
        ended
    }

    async fn connect(&self) -> Result<WebSocket, ChannelError> {
        let SlackChannel { api, settings, context: around, .. } = self.slack;
        let answer = api
            .call_as(&settings.app_token, "apps.connections.open", MethodArguments::Json(&json!({})))
            .await?;
        let url = answer.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
        let Some(url) = url else {
            return Err(ChannelError::Retry {
                after: None,
                reason: "apps.connections.open: no address came".to_owned(),
            });
        };
        let limits = SocketLimits { connect_timeout: HELLO_TIMEOUT, ..SocketLimits::default() };
        let deadline = Deadline::after(&*around.clock, LIFETIME);
        let opened = around.client.connect(&url, HeaderMap::new(), limits, deadline, &Cancel::new()).await;
        opened.map_err(|error| network_error(&error).error)
    }

    fn report_connected(&self) {
        if self.open.fetch_add(1, Ordering::Relaxed) == 0 {
            self.intake.report_connection("slack", ConnectionStatus::Up);
        }
    }

    fn report_disconnected(&self, ended: &Result<SocketEnd, ChannelError>) {
        let left = self.open.fetch_sub(1, Ordering::Relaxed).saturating_sub(1);
        if let (0, Err(error)) = (left, ended) {
            self.intake.report_connection("slack", ConnectionStatus::Down(error.to_string()));
        }
    }

    /// Handles an envelope and acknowledges it.
    async fn handle_frame(&self, frame: &Value, socket: &mut WebSocket) -> Result<(), Error> {
        let Some(id) = frame.get("envelope_id").and_then(Value::as_str) else { return Ok(()) };
        let payload = frame.get("payload").unwrap_or(&Value::Null);
        let now = self.slack.context.clock.now();
        match frame.get("type").and_then(Value::as_str) {
            Some("events_api") => self.handle_event(payload.get("event").unwrap_or(&Value::Null)).await,
            Some("slash_commands") => {
                if let Some(envelope) = inbound::command_envelope(payload, &self.slack.commands, now) {
                    self.submit(envelope).await;
                }
            }
            Some("interactive") => {
                if let Some(envelope) = inbound::button_envelope(payload, now) {
                    self.submit(envelope).await;
                }
            }
            _ => {}
        }
        if self.cancel.is_cancelled() {
            // The message may not be on disk: without an acknowledgement Slack sends it again.
            return Ok(());
        }
        socket.send(SocketFrame::Text(json!({"envelope_id": id}).to_string()), WRITE_TIMEOUT).await
    }

    async fn handle_event(&self, event: &Value) {
        let Some(message) = inbound::parse_message(event, &self.identity) else { return };
        let thread = message.thread_ts.as_deref();
        let in_thread = thread.is_some_and(|thread| self.slack.threads.contains(&message.channel, thread));
        if inbound::relevance(&message, &self.slack.settings, &self.identity, in_thread)
            == MessageRelevance::Irrelevant
        {
            return;
        }
        if message.files.is_empty() && !self.slack.spool.has_waiting(&message.channel) {
            return self.submit(self.build_envelope(&message).await).await;
        }
        // Downloads may take longer than Slack waits for an acknowledgement.
        let deferred = self.slack.spool.put(&*self.slack.context.host, &message.channel, event);
        // The receiver lives as long as this sender.
        self.deferred.send(deferred).ok();
    }

    /// Builds the envelope of a message, with its files and names.
    pub(super) async fn build_envelope(&self, message: &SlackMessage) -> hermes_types::Envelope {
        let slack = self.slack;
        let mut parts = Vec::new();
        let words = inbound::message_text(&message.text, &self.identity, &slack.commands);
        if !words.is_empty() {
            parts.push(ChatPart::Text { text: words });
        }
        for file in &message.files {
            parts.push(slack.fetch_file(file).await);
        }
        let mut envelope = inbound::message_envelope(message, parts, slack.context.clock.now());
        envelope.sender.user_name = slack.names.of_user(&slack.api, &message.user).await;
        if message.kind != hermes_types::ChatKind::Dm {
            envelope.place.chat_name = slack.names.of_channel(&slack.api, &message.channel).await;
        }
        envelope
    }

    /// Submits a message, retrying until it is accepted: what is not on disk is not acknowledged.
    pub(super) async fn submit(&self, envelope: hermes_types::Envelope) {
        let place = envelope.place.clone();
        loop {
            match self.intake.accept(envelope.clone()).await {
                Ok(_) => break,
                Err(error) => tracing::warn!(%error, "a message could not be taken; trying again"),
            }
            tokio::select! {
                () = self.slack.context.clock.sleep(RETRY_DELAY) => {}
                () = self.cancel.cancelled() => return,
            }
        }
        if let Some(thread) = &place.thread_id {
            self.slack.threads.insert(&*self.slack.context.host, &place.chat_id, thread);
        }
    }
}
