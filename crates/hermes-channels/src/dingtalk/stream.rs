//! The stream: kept open, its frames acknowledged, its messages passed on.

use std::time::Duration;

use hermes_net::{HeaderMap, SocketFrame, SocketLimits, WebSocket};
use hermes_types::{Cancel, ChannelError, ChatPart, ConnectionStatus, Deadline, Intake};
use serde_json::{Value, json};

use super::inbound::{self, DingTalkFile, DingTalkMessage};
use super::{DingTalkChannel, NAME};
use crate::incoming_file::{DescribedFile, SubmitOutcome, submit};
use crate::socket_text::{WRITE_TIMEOUT, next_text};

/// The time without a frame after which a ping is sent; after the same time again the connection is closed.
const SILENCE: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const LIFETIME: Duration = Duration::from_hours(24 * 365);
/// The seconds before each attempt to connect again; the last one is repeated.
const PAUSES: [u64; 5] = [2, 5, 10, 30, 60];

/// Says how a frame was dealt with.
#[derive(Debug, PartialEq, Eq)]
enum FrameOutcome {
    /// It is acknowledged with this data.
    Acknowledge(String),
    /// It is acknowledged, and a new connection is made.
    Renew(String),
    /// It is not acknowledged: its message may not be on disk.
    Leave,
}

impl DingTalkChannel {
    pub(super) async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let mut failures = 0_usize;
        loop {
            let ended = tokio::select! {
                ended = self.serve(intake, cancel, &mut failures) => ended,
                () = cancel.cancelled() => return Ok(()),
            };
            let (after, reason) = match ended {
                Ok(()) if cancel.is_cancelled() => return Ok(()),
                // A stream that DingTalk renews is opened again at once.
                Ok(()) if failures == 0 => {
                    failures = 1;
                    continue;
                }
                Ok(()) => (None, "DingTalk closed the stream at once".to_owned()),
                Err(ChannelError::Retry { after, reason }) => (after, reason),
                Err(error) => return Err(error),
            };
            intake.report_connection(NAME, ConnectionStatus::Down(reason));
            let pause = PAUSES.get(failures).or(PAUSES.last()).copied().unwrap_or_default();
            failures += 1;
            tokio::select! {
                () = self.context.clock.sleep(after.unwrap_or_default().max(Duration::from_secs(pause))) => {}
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }

    /// Serves one stream until it ends or is to be renewed.
    async fn serve(
        &self,
        intake: &dyn Intake,
        cancel: &Cancel,
        failures: &mut usize,
    ) -> Result<(), ChannelError> {
        let url = self.api.open_connection().await?;
        let limits = SocketLimits { connect_timeout: CONNECT_TIMEOUT, ..SocketLimits::default() };
        let clock = &self.context.clock;
        let deadline = Deadline::after(&**clock, LIFETIME);
        let opened =
            self.context.client.connect(&url, HeaderMap::new(), limits, deadline, &Cancel::new()).await;
        let mut socket = opened.map_err(|error| lost(error.to_string()))?;
        intake.report_connection(NAME, ConnectionStatus::Up);
        loop {
            let frame = next_text(&mut socket, SILENCE).await.map_err(|error| lost(error.to_string()))?;
            let Some(frame) = frame else { break };
            // A frame that is not JSON is ignored.
            let Ok(frame) = serde_json::from_str::<Value>(&frame) else { continue };
            *failures = 0;
            match self.handle_frame(&frame, intake, cancel).await {
                FrameOutcome::Acknowledge(data) => acknowledge(&mut socket, &frame, &data).await?,
                FrameOutcome::Renew(data) => {
                    acknowledge(&mut socket, &frame, &data).await?;
                    break;
                }
                FrameOutcome::Leave => {}
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        socket.close(WRITE_TIMEOUT).await.ok();
        Ok(())
    }

    async fn handle_frame(&self, frame: &Value, intake: &dyn Intake, cancel: &Cancel) -> FrameOutcome {
        let text = |pointer: &str| frame.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let data = text("/data");
        match (text("/type"), text("/headers/topic")) {
            ("SYSTEM", "disconnect") => FrameOutcome::Renew(data.to_owned()),
            ("SYSTEM", _) => FrameOutcome::Acknowledge(data.to_owned()),
            ("CALLBACK", _) => {
                let message = serde_json::from_str(data).ok().and_then(|data| inbound::parse_message(&data));
                let outcome = match message {
                    Some(message) => self.take(&message, intake, cancel).await,
                    None => SubmitOutcome::Stored,
                };
                match outcome {
                    SubmitOutcome::Stored => FrameOutcome::Acknowledge(json!({"response": "OK"}).to_string()),
                    SubmitOutcome::Cancelled => FrameOutcome::Leave,
                }
            }
            _ => FrameOutcome::Acknowledge(json!({"status": "SUCCESS", "message": "OK"}).to_string()),
        }
    }

    async fn take(&self, message: &DingTalkMessage, intake: &dyn Intake, cancel: &Cancel) -> SubmitOutcome {
        if !message.is_relevant(&self.settings) {
            return SubmitOutcome::Stored;
        }
        let context = &self.context;
        self.chats.remember(message.chat.clone(), &*context.host);
        let mut parts = Vec::new();
        if !message.text.is_empty() {
            parts.push(ChatPart::Text { text: message.text.clone() });
        }
        for file in &message.files {
            parts.push(self.fetch_file(message, file).await);
        }
        let envelope = message.envelope(parts, context.clock.now());
        submit(intake, envelope, &*context.clock, cancel).await
    }

    async fn fetch_file(&self, message: &DingTalkMessage, file: &DingTalkFile) -> ChatPart {
        let robot =
            if message.chat.robot.is_empty() { &self.settings.client_id } else { &message.chat.robot };
        let described =
            DescribedFile { name: file.name.as_deref(), mime: file.mime, size: None, kind: Some(file.kind) };
        let download = self.api.download(&file.code, robot);
        described.take(&*self.context.host, &*self.context.clock, download).await
    }
}

fn lost(reason: impl Into<String>) -> ChannelError {
    ChannelError::Retry { after: None, reason: reason.into() }
}

async fn acknowledge(socket: &mut WebSocket, frame: &Value, data: &str) -> Result<(), ChannelError> {
    let id = frame.pointer("/headers/messageId").cloned().unwrap_or_default();
    let answer = json!({
        "code": 200, "headers": {"messageId": id, "contentType": "application/json"}, "message": "OK", "data": data,
    });
    let sent = socket.send(SocketFrame::Text(answer.to_string()), WRITE_TIMEOUT).await;
    sent.map_err(|error| lost(error.to_string()))
}
