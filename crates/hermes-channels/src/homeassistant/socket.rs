//! The WebSocket: signing in, subscribing, and passing events on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_net::{HeaderMap, SocketFrame, SocketLimits, WebSocket};
use hermes_types::{
    Cancel, ChannelError, ChatAddress, ChatKind, ChatPart, ConnectionStatus, Deadline, Envelope, Intake,
    Sender,
};
use serde_json::{Value, json};

use super::event::{StateChange, describe, parse_event};
use super::{CHAT, HomeAssistantChannel, NAME, settings};
use crate::incoming_file::submit;
use crate::socket_text::{WRITE_TIMEOUT, next_text};

/// The time without a frame after which a ping is sent; after the same time again the connection is closed.
const SILENCE: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const LIFETIME: Duration = Duration::from_hours(24 * 365);
/// The seconds before each attempt to connect again; the last one is repeated.
const PAUSES: [u64; 4] = [5, 10, 30, 60];
/// The number of the only request.
const SUBSCRIPTION: u64 = 1;

impl HomeAssistantChannel {
    pub(super) async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        if !self.settings.watches_something() && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "Home Assistant: no event is taken; name some in platforms.homeassistant.extra (watch_domains, \
                 watch_entities, or watch_all)"
            );
        }
        let mut failures = 0_usize;
        loop {
            let mut subscribed = false;
            let ended = tokio::select! {
                ended = self.serve(intake, cancel, &mut subscribed) => ended,
                () = cancel.cancelled() => return Ok(()),
            };
            let reason = match ended {
                Ok(()) if cancel.is_cancelled() => return Ok(()),
                Ok(()) => "Home Assistant closed the connection".to_owned(),
                Err(ChannelError::Retry { reason, .. }) => reason,
                Err(error) => return Err(error),
            };
            if subscribed {
                failures = 0;
            }
            intake.report_connection(NAME, ConnectionStatus::Down(reason));
            let pause = PAUSES.get(failures).or(PAUSES.last()).copied().unwrap_or_default();
            failures += 1;
            tokio::select! {
                () = self.context.clock.sleep(Duration::from_secs(pause)) => {}
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }

    async fn serve(
        &self,
        intake: &dyn Intake,
        cancel: &Cancel,
        subscribed: &mut bool,
    ) -> Result<(), ChannelError> {
        let mut socket = self.connect().await?;
        while let Some(frame) = receive(&mut socket).await? {
            match frame.get("type").and_then(Value::as_str) {
                Some("result") if frame.get("success").and_then(Value::as_bool) == Some(true) => {
                    *subscribed = true;
                    intake.report_connection(NAME, ConnectionStatus::Up);
                }
                Some("result") => {
                    let text =
                        "Home Assistant refused the subscription; the token's user must be an administrator";
                    return Err(ChannelError::Refused(text.to_owned()));
                }
                Some("event") => {
                    let change = frame.get("event").and_then(parse_event);
                    let now = self.context.clock.monotonic();
                    if let Some(change) = change.filter(|change| self.filter.accepts(change, now)) {
                        submit(intake, self.envelope(&change), &*self.context.clock, cancel).await;
                    }
                }
                _ => {}
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        socket.close(WRITE_TIMEOUT).await.ok();
        Ok(())
    }

    /// Opens the socket, signs in and subscribes.
    async fn connect(&self) -> Result<WebSocket, ChannelError> {
        let context = &self.context;
        let url = self.settings.socket();
        let url = url.ok_or_else(|| ChannelError::Refused("HASS_URL is not a web address".to_owned()))?;
        let limits = SocketLimits { connect_timeout: CONNECT_TIMEOUT, ..SocketLimits::default() };
        let deadline = Deadline::after(&*context.clock, LIFETIME);
        let opened = context.client.connect(&url, HeaderMap::new(), limits, deadline, &Cancel::new()).await;
        let mut socket = opened.map_err(|error| lost(error.to_string()))?;
        loop {
            let frame = receive(&mut socket).await?;
            let frame = frame.ok_or_else(|| lost("Home Assistant closed the connection at once"))?;
            match frame.get("type").and_then(Value::as_str) {
                Some("auth_required") => {
                    let token = self.settings.token.expose();
                    send(&mut socket, &json!({"type": "auth", "access_token": token})).await?;
                }
                Some("auth_ok") => break,
                Some("auth_invalid") => return Err(ChannelError::Reauthorise(settings::REVOKED.to_owned())),
                _ => {}
            }
        }
        let wish = json!({"id": SUBSCRIPTION, "type": "subscribe_events", "event_type": "state_changed"});
        send(&mut socket, &wish).await?;
        Ok(socket)
    }

    fn envelope(&self, change: &StateChange) -> Envelope {
        let mut place = ChatAddress::new(ChatKind::Channel, CHAT);
        place.chat_name = Some("Home Assistant Events".to_owned());
        Envelope {
            platform: NAME.to_owned(),
            platform_key: change.key.clone(),
            place,
            sender: Sender {
                user_id: Some(NAME.to_owned()),
                user_name: Some("Home Assistant".to_owned()),
                ..Sender::default()
            },
            parts: vec![ChatPart::Text { text: describe(change) }],
            message_id: None,
            reply_to: None,
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            received_at: self.context.clock.now(),
        }
    }
}

fn lost(reason: impl Into<String>) -> ChannelError {
    ChannelError::Retry { after: None, reason: reason.into() }
}

/// Returns the next frame; `Null` for one that is not JSON, and `None` at the end.
async fn receive(socket: &mut WebSocket) -> Result<Option<Value>, ChannelError> {
    let text = next_text(socket, SILENCE).await.map_err(|error| lost(error.to_string()))?;
    Ok(text.map(|text| serde_json::from_str(&text).unwrap_or_default()))
}

async fn send(socket: &mut WebSocket, frame: &Value) -> Result<(), ChannelError> {
    let sent = socket.send(SocketFrame::Text(frame.to_string()), WRITE_TIMEOUT).await;
    sent.map_err(|error| lost(error.to_string()))
}
