//! Opening a gateway connection, and the meaning of its end.

use std::time::Duration;

use hermes_net::{HeaderMap, SocketFrame, SocketLimits, Url, WebSocket};
use hermes_types::{Cancel, ChannelError, Deadline};
use serde_json::{Value, json};

use super::DiscordChannel;
use super::rest::DiscordError;
use super::session::GatewaySession;
use super::wire::GatewayPayload;

const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// Says whether a session can be resumed after its connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReconnectMode {
    Resume,
    NewSession,
}

/// Says how a connection ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    Cancelled,
    /// Another attempt would not help.
    Fatal(ChannelError),
    Broken {
        reason: String,
        reconnect: ReconnectMode,
        pause: Option<Duration>,
    },
}

pub(super) fn broken(reason: impl Into<String>, sequel: ReconnectMode) -> ConnectionEnd {
    ConnectionEnd::Broken { reason: reason.into(), reconnect: sequel, pause: None }
}

impl DiscordChannel {
    /// Opens the socket at the session's resume URL, or at the URL Discord names.
    pub(super) async fn open_socket(
        &self,
        session: Option<&GatewaySession>,
        cancel: &Cancel,
    ) -> Result<WebSocket, ConnectionEnd> {
        let address = match session {
            Some(session) => session.url.clone(),
            None => self.gateway_address().await?,
        };
        let mut url = Url::parse(&address)
            .map_err(|_| broken("Discord's gateway has no address", ReconnectMode::NewSession))?;
        url.set_query(Some("v=10&encoding=json"));
        let forever = Deadline::after(&*self.api.clock, Duration::MAX);
        let opened =
            self.api.client.connect(&url, HeaderMap::new(), SocketLimits::default(), forever, cancel).await;
        opened.map_err(|error| broken_by(&error))
    }

    async fn gateway_address(&self) -> Result<String, ConnectionEnd> {
        let told =
            self.api.get("/gateway/bot").await.map_err(|failure| match ChannelError::from(failure) {
                ChannelError::Retry { after, reason } => {
                    ConnectionEnd::Broken { reason, reconnect: ReconnectMode::Resume, pause: after }
                }
                error => ConnectionEnd::Fatal(error),
            })?;
        let limit = told.get("session_start_limit").unwrap_or(&Value::Null);
        if limit.get("remaining").and_then(Value::as_u64) == Some(0) {
            let pause = limit.get("reset_after").and_then(Value::as_u64).map(Duration::from_millis);
            let reason =
                "Discord takes no new session today; was the gateway restarted very often?".to_owned();
            return Err(ConnectionEnd::Broken { reason, reconnect: ReconnectMode::Resume, pause });
        }
        let address = told.get("url").and_then(Value::as_str).map(str::to_owned);
        address.ok_or_else(|| broken("Discord does not say where its gateway is", ReconnectMode::Resume))
    }
}

pub(super) async fn send_frame(
    socket: &mut WebSocket,
    op: u64,
    data: &Value,
) -> Result<(), hermes_net::Error> {
    socket.send(SocketFrame::Text(json!({"op": op, "d": data}).to_string()), SEND_TIMEOUT).await
}

pub(super) fn heartbeat_interval(frame: Option<SocketFrame>) -> Option<Duration> {
    let Some(SocketFrame::Text(text)) = frame else { return None };
    let payload = serde_json::from_str::<GatewayPayload>(&text).ok().filter(|payload| payload.op == 10)?;
    let interval = payload.d.get("heartbeat_interval")?.as_u64()?;
    // Zero or extreme intervals from the server are clamped.
    Some(Duration::from_millis(interval.clamp(1000, 600_000)))
}

pub(super) fn broken_by(error: &hermes_net::Error) -> ConnectionEnd {
    match error {
        hermes_net::Error::Cancelled => ConnectionEnd::Cancelled,
        error => broken(error.to_string(), ReconnectMode::Resume),
    }
}

/// Returns the meaning of a close code.
pub(super) fn end_for_close_code(code: u16) -> ConnectionEnd {
    let refused = |words: &str| ConnectionEnd::Fatal(ChannelError::Refused(words.to_owned()));
    match code {
        4004 => ConnectionEnd::Fatal(DiscordError::Unauthorised.into()),
        4010 | 4011 => refused(
            "Discord wants this bot to be sharded, which Hermes does not do: it is in too many servers",
        ),
        4012 => refused("Discord no longer speaks version 10 of its API; update Hermes"),
        4013 | 4014 => refused(
            "Discord does not let this bot read messages. Open https://discord.com/developers/applications, choose the \
             application, go to Bot, and turn on \"Message Content Intent\" under Privileged Gateway Intents",
        ),
        4003 | 4007 | 4009 => {
            broken(format!("Discord ended the session (code {code})"), ReconnectMode::NewSession)
        }
        0 => broken("Discord closed the connection", ReconnectMode::Resume),
        code => broken(format!("Discord closed the connection (code {code})"), ReconnectMode::Resume),
    }
}
