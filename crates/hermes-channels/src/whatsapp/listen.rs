//! Receiving: the lines of the bridge, and its queue of messages.
//!
//! Invariant: a message is acknowledged to the bridge after the intake has accepted it; the file of a message is removed from
//! the bridge's folder after that.

use std::time::Duration;

use hermes_net::Bytes;
use hermes_types::{AttachmentKind, Cancel, ChannelError, ChatPart, ConnectionStatus, Intake};
use serde_json::{Value, json};

use super::bridge::{ending, parse_line};
use super::inbound::{self, BridgedFile, BridgedMessage};
use super::{NAME, WhatsAppChannel};
use crate::backoff::Backoff;
use crate::host::RunningHelper;
use crate::incoming_file::{DescribedFile, SubmitOutcome, submit};
use crate::media::LARGEST_DOCUMENT;
use crate::rest::RestError;

/// The bridge answers after this many seconds where no message came.
const WAIT: &str = "messages?ack=1&wait=25";
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How long a bridge must have run for its end to count as the first.
const STEADY: Duration = Duration::from_mins(10);

impl WhatsAppChannel {
    pub(super) async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let mut pauses = Backoff::new(Duration::from_secs(2), Duration::from_mins(5));
        loop {
            let started = self.context.clock.monotonic();
            let reason = match self.serve(intake, cancel).await {
                Ok(()) => return Ok(()),
                Err(ChannelError::Retry { reason, .. } | ChannelError::DeliveryUnknown(reason)) => reason,
                Err(error) => return Err(error),
            };
            if self.context.clock.monotonic().saturating_sub(started) > STEADY {
                pauses.reset();
            }
            tracing::warn!(reason, "the WhatsApp bridge is started again");
            intake.report_connection(NAME, ConnectionStatus::Down(reason));
            tokio::select! {
                () = self.context.clock.sleep(pauses.next_with_jitter()) => {}
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }

    /// Runs one bridge until it ends or the channel does.
    async fn serve(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        // Kept while it runs, so that a send waits for it and does not start another.
        let mut slot = self.bridge.helper.lock().await;
        let mut helper = match slot.take() {
            // It was started for a message, and its lines up to here were read.
            Some(helper) => {
                if self.bridge.get("health").await.is_ok_and(|health| health["status"] == "connected") {
                    intake.report_connection(NAME, ConnectionStatus::Up);
                }
                helper
            }
            None => self.bridge.start(&self.settings, &self.context).await?,
        };
        drop(slot);
        let ended = tokio::select! {
            ended = read_lines(&mut *helper, intake) => Err(ended),
            () = self.read_queue(intake, cancel) => Ok(()),
            () = cancel.cancelled() => Ok(()),
        };
        self.bridge.forget();
        helper.stop().await;
        ended
    }

    /// Takes messages until cancelled; failures of the bridge end with it.
    async fn read_queue(&self, intake: &dyn Intake, cancel: &Cancel) {
        loop {
            let items = match self.bridge.get(WAIT).await {
                Ok(items) => items,
                Err(failure) => {
                    tracing::debug!(error = %failure.error, "the WhatsApp bridge did not answer");
                    self.context.clock.sleep(AFTER_FAILURE).await;
                    continue;
                }
            };
            let items = items.as_array().cloned().unwrap_or_default();
            for item in &items {
                if let Some(answer) =
                    inbound::parse_reaction(item).and_then(|found| self.questions.answer(found))
                    && submit(intake, answer, &*self.context.clock, cancel).await == SubmitOutcome::Cancelled
                {
                    return;
                }
                let Some(message) = inbound::parse(item, &self.settings) else {
                    self.acknowledge(inbound::ack_id(item)).await;
                    continue;
                };
                let envelope = message.envelope(self.parts(&message).await);
                if submit(intake, envelope, &*self.context.clock, cancel).await == SubmitOutcome::Cancelled {
                    return;
                }
                self.acknowledge(message.ack_id.clone()).await;
                if let Some(path) = message.file.and_then(|file| file.path) {
                    // Somebody else may have removed it.
                    let _ = std::fs::remove_file(path);
                }
            }
        }
    }

    /// Tells the bridge that an item is dealt with. If that fails, the item comes again and is known.
    async fn acknowledge(&self, id: Option<String>) {
        let Some(id) = id else { return };
        if let Err(failure) = self.bridge.post("ack", &json!({"ids": [id]})).await {
            tracing::debug!(error = %failure.error, "a message was not acknowledged; it comes again");
            self.context.clock.sleep(AFTER_FAILURE).await;
        }
    }

    async fn parts(&self, message: &BridgedMessage) -> Vec<ChatPart> {
        let mut parts = Vec::new();
        if !message.text.trim().is_empty() {
            parts.push(ChatPart::Text { text: message.text.clone() });
        }
        if let Some(file) = message.file.as_ref().filter(|file| file.path.is_some()) {
            parts.push(self.take_file(file).await);
        }
        parts
    }

    async fn take_file(&self, file: &BridgedFile) -> ChatPart {
        let path = file.path.clone().unwrap_or_default();
        let described = DescribedFile {
            name: file.name.as_deref(),
            mime: file.mime.as_deref(),
            size: std::fs::metadata(&path).map(|found| found.len()).ok(),
            kind: Some(file.kind).filter(|kind| *kind != AttachmentKind::Document),
        };
        let read = async {
            let unreadable = |why: String| RestError::new(ChannelError::Refused(why));
            let size = std::fs::metadata(&path).map_err(|error| unreadable(error.to_string()))?.len();
            if size > LARGEST_DOCUMENT {
                return Err(unreadable("it is too large".to_owned()));
            }
            std::fs::read(&path).map(Bytes::from).map_err(|error| unreadable(error.to_string()))
        };
        described.take(&*self.context.host, &*self.context.clock, read).await
    }
}

/// Reads lines until the bridge ends, and names the end.
async fn read_lines(helper: &mut dyn RunningHelper, intake: &dyn Intake) -> ChannelError {
    let mut end = None;
    while let Some(line) = helper.next_line().await {
        let event = parse_line(&line);
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match event.get("event").and_then(Value::as_str) {
            Some("connected") => intake.report_connection(NAME, ConnectionStatus::Up),
            Some("disconnected" | "paused") => {
                let reason = format!("the bridge is not connected to WhatsApp: {}", text("text"));
                intake.report_connection(NAME, ConnectionStatus::Down(reason));
            }
            _ => end = ending(&event).or(end),
        }
    }
    let reason = || "the WhatsApp bridge ended (whatsapp_bridge_exited)".to_owned();
    end.unwrap_or_else(|| ChannelError::Retry { after: None, reason: reason() })
}
