//! The WebSocket: kept open, and posts passed on one after the other.

use std::time::Duration;

use hermes_net::{HeaderMap, Method, SocketFrame, SocketLimits, WebSocket};
use hermes_types::{Cancel, ChannelError, ChatPart, ConnectionStatus, Deadline, Intake};
use serde_json::{Value, json};

use super::MattermostChannel;
use super::api::{MattermostIdentity, is_id};
use super::catch_up::CatchUpPoint;
use super::inbound::{self, MattermostFile, MattermostPlace, MattermostPost};
use crate::backoff::Backoff;
use crate::incoming_file::{DescribedFile, SubmitOutcome, submit};
use crate::media::LARGEST_DOCUMENT;
use crate::rest::RestError;
use crate::socket_text::{WRITE_TIMEOUT, next_text};

/// The time without a frame after which a ping is sent; after the same time again the connection is closed.
const SILENCE: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const LIFETIME: Duration = Duration::from_hours(24 * 365);

/// What the connections of one `listen` share.
pub(super) struct MattermostListener<'a> {
    pub(super) channel: &'a MattermostChannel,
    pub(super) intake: &'a dyn Intake,
    pub(super) cancel: &'a Cancel,
    pub(super) point: CatchUpPoint,
}

impl MattermostChannel {
    pub(super) async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let point = CatchUpPoint::load(&*self.context.host, self.context.clock.now());
        let listener = MattermostListener { channel: self, intake, cancel, point };
        let mut pauses = Backoff::new(Duration::from_secs(2), Duration::from_mins(1));
        loop {
            let ended = tokio::select! {
                ended = listener.serve(&mut pauses) => ended,
                () = cancel.cancelled() => return Ok(()),
            };
            let (after, reason) = match ended {
                ChannelError::Retry { after, reason } => (after, reason),
                ChannelError::DeliveryUnknown(reason) => (None, reason),
                error => return Err(error),
            };
            intake.report_connection(super::NAME, ConnectionStatus::Down(reason));
            let pause = after.unwrap_or_default().max(pauses.next_with_jitter());
            tokio::select! {
                () = self.context.clock.sleep(pause) => {}
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }
}

fn lost(reason: impl Into<String>) -> ChannelError {
    ChannelError::Retry { after: None, reason: reason.into() }
}

impl MattermostListener<'_> {
    /// Serves one connection; returns the reason why it ended.
    async fn serve(&self, pauses: &mut Backoff) -> ChannelError {
        match self.try_serve(pauses).await {
            Ok(()) => lost("Mattermost closed the connection"),
            Err(error) => error,
        }
    }

    async fn try_serve(&self, pauses: &mut Backoff) -> Result<(), ChannelError> {
        // Also shows whether the token still counts.
        let me = self.channel.api.fetch_identity().await?;
        let mut socket = self.connect().await?;
        self.catch_up(&me).await?;
        self.intake.report_connection(super::NAME, ConnectionStatus::Up);
        pauses.reset();
        let ended = loop {
            match next_text(&mut socket, SILENCE).await {
                Ok(Some(frame)) => self.handle_frame(&frame, &me).await,
                Ok(None) => break Ok(()),
                Err(error) => break Err(lost(error.to_string())),
            }
            if self.cancel.is_cancelled() {
                break Ok(());
            }
        };
        self.point.save(&*self.channel.context.host);
        socket.close(WRITE_TIMEOUT).await.ok();
        ended
    }

    /// Opens the socket and signs in.
    async fn connect(&self) -> Result<WebSocket, ChannelError> {
        let context = &self.channel.context;
        let url = self.channel.settings.socket();
        let url =
            url.ok_or_else(|| ChannelError::Refused("MATTERMOST_URL is not a web address".to_owned()))?;
        let limits = SocketLimits { connect_timeout: CONNECT_TIMEOUT, ..SocketLimits::default() };
        let deadline = Deadline::after(&*context.clock, LIFETIME);
        let opened = context.client.connect(&url, HeaderMap::new(), limits, deadline, &Cancel::new()).await;
        let mut socket = opened.map_err(|error| lost(error.to_string()))?;
        let token = self.channel.api.token().expose();
        let hello = json!({"seq": 1, "action": "authentication_challenge", "data": {"token": token}});
        let sent = socket.send(SocketFrame::Text(hello.to_string()), WRITE_TIMEOUT).await;
        sent.map_err(|error| lost(error.to_string()))?;
        loop {
            let frame = next_text(&mut socket, SILENCE).await.map_err(|error| lost(error.to_string()))?;
            let Some(frame) = frame else { return Err(lost("Mattermost closed the connection at once")) };
            let frame: Value = serde_json::from_str(&frame).unwrap_or_default();
            match frame.get("status").and_then(Value::as_str) {
                Some("OK") => return Ok(socket),
                Some(_) => return Err(lost("Mattermost did not accept the connection")),
                None if frame.get("event").and_then(Value::as_str) == Some("hello") => return Ok(socket),
                None => {}
            }
        }
    }

    async fn handle_frame(&self, frame: &str, me: &MattermostIdentity) {
        // A frame that is not JSON is ignored.
        let Ok(frame) = serde_json::from_str::<Value>(frame) else { return };
        match frame.get("event").and_then(Value::as_str) {
            Some("posted") => {}
            Some("reaction_added") => return self.take_reaction(&frame, me).await,
            _ => return,
        }
        let data = frame.get("data").unwrap_or(&Value::Null);
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        // The post is JSON within a text.
        let post = text("post").and_then(|post| serde_json::from_str::<Value>(post).ok());
        let Some(post) = post.and_then(|post| inbound::parse_post(&post, me)) else { return };
        let place =
            MattermostPlace::new(text("channel_type").unwrap_or_default(), text("channel_display_name"));
        if let Some(name) = text("sender_name") {
            self.channel.api.remember_name(&post.user, name.trim_start_matches('@'));
        }
        self.take(&post, &place, me).await;
    }

    /// Passes on what a reaction to a question of the bot stands for.
    async fn take_reaction(&self, frame: &Value, me: &MattermostIdentity) {
        let channel = self.channel;
        let Some(mut reaction) = inbound::parse_reaction(frame, me) else { return };
        reaction.sender.handle = match &reaction.sender.user_id {
            Some(user) => channel.api.user_name(user).await,
            None => None,
        };
        reaction.sender.user_name.clone_from(&reaction.sender.handle);
        if let Some(answer) = channel.questions.answer(reaction) {
            submit(self.intake, answer, &*channel.context.clock, self.cancel).await;
        }
    }

    /// Passes a post on, if it is for the bot.
    pub(super) async fn take(&self, post: &MattermostPost, place: &MattermostPlace, me: &MattermostIdentity) {
        let channel = self.channel;
        if inbound::is_relevant(post, place, &channel.settings, me) {
            let mut parts = Vec::new();
            let words = inbound::message_text(&post.text, me, &channel.commands);
            if !words.is_empty() {
                parts.push(ChatPart::Text { text: words });
            }
            for file in &post.files {
                parts.push(channel.fetch_file(file).await);
            }
            if !parts.is_empty() {
                let name = channel.api.user_name(&post.user).await;
                let envelope = inbound::envelope(post, place, parts, name, channel.settings.reply_mode);
                let outcome = submit(self.intake, envelope, &*channel.context.clock, self.cancel).await;
                if outcome == SubmitOutcome::Cancelled {
                    return;
                }
            }
        }
        self.point.advance(post.created, &*channel.context.host);
    }
}

impl MattermostChannel {
    async fn fetch_file(&self, file: &MattermostFile) -> ChatPart {
        let mut file = file.clone();
        if !is_id(&file.id) {
            return ChatPart::Text { text: "[The user sent a file that could not be fetched.]".to_owned() };
        }
        if file.name.is_none() {
            let info = self.api.get(&format!("files/{}/info", file.id)).await.ok();
            file = inbound::parse_file(&file.id, info.as_ref());
        }
        let described = DescribedFile {
            name: file.name.as_deref(),
            mime: file.mime.as_deref(),
            size: file.size,
            kind: None,
        };
        let download = async {
            let request = self.api.request(Method::GET, &format!("files/{}", file.id));
            self.api
                .rest
                .download(request.map_err(|error| RestError::network(&error))?, LARGEST_DOCUMENT)
                .await
        };
        described.take(&*self.context.host, &*self.context.clock, download).await
    }
}
