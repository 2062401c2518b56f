//! The stream of events: kept open, checked when it is silent, and read one message after the other.

use std::sync::PoisonError;
use std::time::Duration;

use data_encoding::BASE64;
use hermes_net::{Bytes, Error};
use hermes_text::SseParser;
use hermes_types::{AttachmentKind, Cancel, ChannelError, ChatPart, ConnectionStatus, Envelope, Intake};
use serde_json::{Value, json};

use super::inbound::{self, OwnAccount, SignalFile, SignalMessage};
use super::rpc::RpcParameters;
use super::{NAME, SignalChannel};
use crate::backoff::Backoff;
use crate::incoming_file::{DescribedFile, SubmitOutcome, submit};
use crate::rest::RestError;

/// The interval at which a silent stream is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The silence after which the daemon is asked whether it still runs.
const SILENCE: Duration = Duration::from_mins(2);
const LARGEST_EVENT: usize = 1024 * 1024;

impl SignalChannel {
    pub(super) async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let mut pauses = Backoff::new(Duration::from_secs(2), Duration::from_mins(1));
        loop {
            let ended = tokio::select! {
                ended = self.serve(intake, cancel, &mut pauses) => ended,
                () = cancel.cancelled() => return Ok(()),
            };
            let reason = match ended {
                Ok(()) if cancel.is_cancelled() => return Ok(()),
                Ok(()) => "signal-cli closed the stream".to_owned(),
                Err(ChannelError::Retry { reason, .. } | ChannelError::DeliveryUnknown(reason)) => reason,
                Err(error) => return Err(error),
            };
            intake.report_connection(NAME, ConnectionStatus::Down(reason));
            tokio::select! {
                () = self.context.clock.sleep(pauses.next_with_jitter()) => {}
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }

    async fn serve(
        &self,
        intake: &dyn Intake,
        cancel: &Cancel,
        pauses: &mut Backoff,
    ) -> Result<(), ChannelError> {
        self.rpc.check().await?;
        self.learn_own_uuid().await?;
        let mut stream = self.rpc.events(LOOK_EVERY).await?;
        intake.report_connection(NAME, ConnectionStatus::Up);
        pauses.reset();
        let mut parser = SseParser::new(LARGEST_EVENT);
        let mut silent = Duration::ZERO;
        loop {
            match stream.next_chunk().await {
                // Comments count too: they show that the stream is alive.
                Ok(Some(bytes)) => {
                    silent = Duration::ZERO;
                    let pushed = parser.push(&bytes);
                    pushed.map_err(|error| ChannelError::Retry { after: None, reason: error.to_string() })?;
                }
                Ok(None) => return Ok(()),
                Err(Error::Stalled { .. }) => {
                    silent = silent.saturating_add(LOOK_EVERY);
                    if silent >= SILENCE {
                        silent = Duration::ZERO;
                        self.rpc.check().await?;
                    }
                }
                Err(error) => return Err(RestError::network(&error).error),
            }
            while let Some(event) = parser.next_event() {
                self.take_event(&event.data, intake, cancel).await;
                if cancel.is_cancelled() {
                    return Ok(());
                }
            }
        }
    }

    /// Asks for the other id of the account, by which people who do not see its number mention it. An account that is
    /// not registered any more ends the listening.
    async fn learn_own_uuid(&self) -> Result<(), ChannelError> {
        let mut parameters = RpcParameters::new();
        parameters.insert("recipient".to_owned(), json!([self.settings.account]));
        match self.rpc.call("getUserStatus", parameters).await {
            Ok(answer) => {
                let uuid = answer.pointer("/0/uuid").and_then(Value::as_str).map(str::to_owned);
                *self.uuid.lock().unwrap_or_else(PoisonError::into_inner) = uuid;
                Ok(())
            }
            Err(failure) if matches!(failure.error, ChannelError::Reauthorise(_)) => Err(failure.error),
            // Older releases know it under other conditions; only mentions by that id are missed.
            Err(failure) => {
                tracing::debug!(error = %failure.error, "the account's other id is not known");
                Ok(())
            }
        }
    }

    async fn take_event(&self, data: &str, intake: &dyn Intake, cancel: &Cancel) {
        // An event that is not JSON is ignored.
        let Ok(event) = serde_json::from_str::<Value>(data) else { return };
        let own = OwnAccount {
            uuid: self.uuid.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            sent: self.sent.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect(),
        };
        if let Some(reaction) = inbound::parse_reaction(&event, &self.settings, &own) {
            if let Some(answer) = self.questions.answer(reaction) {
                self.submit(answer, intake, cancel).await;
            }
            return;
        }
        let Some(message) = inbound::parse_event(&event, &self.settings, &own) else { return };
        let mut parts = Vec::new();
        if !message.text.is_empty() {
            parts.push(ChatPart::Text { text: message.text.clone() });
        }
        for file in &message.files {
            parts.push(self.fetch_file(&message, file).await);
        }
        self.submit(message.envelope(parts), intake, cancel).await;
    }

    async fn submit(&self, envelope: Envelope, intake: &dyn Intake, cancel: &Cancel) {
        if submit(intake, envelope, &*self.context.clock, cancel).await == SubmitOutcome::Cancelled {
            tracing::warn!("a Signal message could not be taken before the end; it is lost");
        }
    }

    async fn fetch_file(&self, message: &SignalMessage, file: &SignalFile) -> ChatPart {
        let mut loaded = None;
        let mut mime = file.mime.clone();
        if mime.as_deref().is_none_or(|mime| mime == "application/octet-stream") && file.name.is_none() {
            // What the sender does not name is recognised by its first bytes.
            let bytes = self.download(message, file).await;
            mime = bytes.as_ref().ok().and_then(|bytes| sniff(bytes)).map(str::to_owned).or(mime);
            loaded = Some(bytes);
        }
        let described = DescribedFile {
            name: file.name.as_deref(),
            mime: mime.as_deref(),
            size: file.size,
            kind: file.is_note.then_some(AttachmentKind::Voice),
        };
        let download = async {
            match loaded {
                Some(loaded) => loaded,
                None => self.download(message, file).await,
            }
        };
        described.take(&*self.context.host, &*self.context.clock, download).await
    }

    async fn download(&self, message: &SignalMessage, file: &SignalFile) -> Result<Bytes, RestError> {
        let mut parameters = RpcParameters::new();
        parameters.insert("id".to_owned(), json!(file.id));
        let (name, value) = match &message.group {
            Some(group) => ("groupId", json!(group)),
            None => ("recipient", json!(message.envelope(Vec::new()).place.chat_id)),
        };
        parameters.insert(name.to_owned(), value);
        let answer = self.rpc.call("getAttachment", parameters).await?;
        let text = answer.as_str().or_else(|| answer.get("data").and_then(Value::as_str)).unwrap_or_default();
        let bytes = BASE64.decode(text.trim().as_bytes()).ok().filter(|bytes| !bytes.is_empty());
        let unreadable = || RestError::new(ChannelError::Refused("signal-cli returned no file".to_owned()));
        bytes.map(Bytes::from).ok_or_else(unreadable)
    }
}

/// Returns the type of a file by its first bytes.
fn sniff(bytes: &[u8]) -> Option<&'static str> {
    let begins = |start: &[u8]| bytes.starts_with(start);
    Some(match () {
        () if begins(b"\x89PNG") => "image/png",
        () if begins(b"\xFF\xD8\xFF") => "image/jpeg",
        () if begins(b"GIF8") => "image/gif",
        () if begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => "image/webp",
        () if begins(b"%PDF") => "application/pdf",
        () if bytes.get(4..8) == Some(b"ftyp") => "video/mp4",
        () if begins(b"OggS") => "audio/ogg",
        () if begins(b"ID3") || begins(b"\xFF\xFB") => "audio/mpeg",
        () => return None,
    })
}
