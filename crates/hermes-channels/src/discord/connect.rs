//! The two ends of a connection: how it is opened, and what its end means.

use std::time::Duration;

use hermes_net::{Frame, HeaderMap, Socket, SocketLimits, Url};
use hermes_types::{Cancel, ChannelError, Deadline};
use serde_json::{Value, json};

use super::Discord;
use super::rest::Failure;
use super::session::Session;
use super::wire::Payload;

const SENDING: Duration = Duration::from_secs(20);

/// Whether a session can be resumed after its connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequel {
    Resume,
    Anew,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    Cancelled,
    /// Trying again helps nobody.
    Fatal(ChannelError),
    Broken {
        reason: String,
        sequel: Sequel,
        pause: Option<Duration>,
    },
}

pub(super) fn broken(reason: impl Into<String>, sequel: Sequel) -> End {
    End::Broken { reason: reason.into(), sequel, pause: None }
}

impl Discord {
    /// Opens the socket where the session is resumed, or where Discord says.
    pub(super) async fn open_socket(
        &self,
        session: Option<&Session>,
        cancel: &Cancel,
    ) -> Result<Socket, End> {
        let address = match session {
            Some(session) => session.url.clone(),
            None => self.gateway_address().await?,
        };
        let mut url =
            Url::parse(&address).map_err(|_| broken("Discord's gateway has no address", Sequel::Anew))?;
        url.set_query(Some("v=10&encoding=json"));
        let forever = Deadline::after(&*self.rest.clock, Duration::MAX);
        let opened =
            self.rest.client.connect(&url, HeaderMap::new(), SocketLimits::default(), forever, cancel).await;
        opened.map_err(|error| lost(&error))
    }

    async fn gateway_address(&self) -> Result<String, End> {
        let told =
            self.rest.get("/gateway/bot").await.map_err(|failure| match ChannelError::from(failure) {
                ChannelError::Retry { after, reason } => {
                    End::Broken { reason, sequel: Sequel::Resume, pause: after }
                }
                error => End::Fatal(error),
            })?;
        let limit = told.get("session_start_limit").unwrap_or(&Value::Null);
        if limit.get("remaining").and_then(Value::as_u64) == Some(0) {
            let pause = limit.get("reset_after").and_then(Value::as_u64).map(Duration::from_millis);
            let reason =
                "Discord takes no new session today; was the gateway restarted very often?".to_owned();
            return Err(End::Broken { reason, sequel: Sequel::Resume, pause });
        }
        let address = told.get("url").and_then(Value::as_str).map(str::to_owned);
        address.ok_or_else(|| broken("Discord does not say where its gateway is", Sequel::Resume))
    }
}

pub(super) async fn say(socket: &mut Socket, op: u64, data: &Value) -> Result<(), hermes_net::Error> {
    socket.send(Frame::Text(json!({"op": op, "d": data}).to_string()), SENDING).await
}

pub(super) fn interval_of(frame: Option<Frame>) -> Option<Duration> {
    let Some(Frame::Text(text)) = frame else { return None };
    let payload = serde_json::from_str::<Payload>(&text).ok().filter(|payload| payload.op == 10)?;
    let interval = payload.d.get("heartbeat_interval")?.as_u64()?;
    // A server that wants none or one every instant is not humoured.
    Some(Duration::from_millis(interval.clamp(1000, 600_000)))
}

pub(super) fn lost(error: &hermes_net::Error) -> End {
    match error {
        hermes_net::Error::Cancelled => End::Cancelled,
        error => broken(error.to_string(), Sequel::Resume),
    }
}

/// What a code at the end of a connection means.
pub(super) fn closed(code: u16) -> End {
    let refused = |words: &str| End::Fatal(ChannelError::Refused(words.to_owned()));
    match code {
        4004 => End::Fatal(Failure::Unauthorised.into()),
        4010 | 4011 => refused(
            "Discord wants this bot to be sharded, which Hermes does not do: it is in too many servers",
        ),
        4012 => refused("Discord no longer speaks version 10 of its API; update Hermes"),
        4013 | 4014 => refused(
            "Discord does not let this bot read messages. Open https://discord.com/developers/applications, choose the \
             application, go to Bot, and turn on \"Message Content Intent\" under Privileged Gateway Intents",
        ),
        4003 | 4007 | 4009 => broken(format!("Discord ended the session (code {code})"), Sequel::Anew),
        0 => broken("Discord closed the connection", Sequel::Resume),
        code => broken(format!("Discord closed the connection (code {code})"), Sequel::Resume),
    }
}
