//! Files of incoming messages, from their description to the part of a message; and messages that must be taken.

use std::time::Duration;

use hermes_net::Bytes;
use hermes_types::{AttachmentKind, Cancel, ChannelError, ChatPart, Clock, Envelope, Intake};

use crate::host::{ChannelHost, IncomingFile};
use crate::media::{FileDecision, LARGEST_DOCUMENT, classify_document, extension_for, extension_of};
use crate::rest::RestError;

/// The delay before storing a message is retried.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The time a file may take to arrive, for platforms that wait for an acknowledgement meanwhile.
const FILE_TIMEOUT: Duration = Duration::from_secs(20);

/// A file as its platform describes it. Its name and type come from the sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescribedFile<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) mime: Option<&'a str>,
    pub(crate) size: Option<u64>,
    /// The kind, where the platform says more than the MIME type.
    pub(crate) kind: Option<AttachmentKind>,
}

impl DescribedFile<'_> {
    /// Decides whether the file is accepted.
    fn classify(&self) -> FileDecision {
        let mime = self.mime.unwrap_or_default();
        let by_type = match mime.split('/').next() {
            Some("image") => Some(AttachmentKind::Image),
            Some("audio") => Some(AttachmentKind::Voice),
            Some("video") => Some(AttachmentKind::Video),
            _ => None,
        };
        let kind = self.kind.filter(|kind| *kind != AttachmentKind::Document);
        let Some(kind) = kind.or(by_type) else {
            // Where a platform names no size, the limit of the download holds.
            return classify_document(self.name, self.mime, Some(self.size.unwrap_or_default()));
        };
        if self.size.is_some_and(|size| size > LARGEST_DOCUMENT) {
            let text = "[The user sent a file that is too large. At most 20 MB are taken.]";
            return FileDecision::Reject(text.to_owned());
        }
        let extension = extension_for(mime).or_else(|| self.name.and_then(extension_of));
        FileDecision::Accept(kind, extension.unwrap_or_default())
    }

    /// Downloads and stores the file, or returns a note for the model with the reason why not.
    pub(crate) async fn take(
        &self,
        host: &dyn ChannelHost,
        clock: &dyn Clock,
        download: impl Future<Output = Result<Bytes, RestError>>,
    ) -> ChatPart {
        let (kind, extension) = match self.classify() {
            FileDecision::Accept(kind, extension) => (kind, extension),
            FileDecision::Reject(text) => return ChatPart::Text { text },
        };
        let loaded = tokio::select! {
            loaded = download => loaded.map_err(|failure| failure.error.to_string()),
            () = clock.sleep(FILE_TIMEOUT) => Err("it took too long".to_owned()),
        };
        let kept = match &loaded {
            Ok(bytes) => {
                let file =
                    IncomingFile { kind, name: self.name, extension: &extension, mime: self.mime, bytes };
                host.save_file(file).await
            }
            Err(reason) => Err(reason.clone()),
        };
        match kept {
            Ok(file) => ChatPart::File(file),
            Err(reason) => {
                tracing::warn!(%reason, "a file of a message could not be fetched");
                let name = self.name.unwrap_or("a file");
                ChatPart::Text { text: format!("[The user sent {name}, but it could not be fetched.]") }
            }
        }
    }
}

/// Submits a message, retrying until it is accepted or the channel is cancelled.
pub(crate) async fn submit(
    intake: &dyn Intake,
    envelope: Envelope,
    clock: &dyn Clock,
    cancel: &Cancel,
) -> SubmitOutcome {
    loop {
        match intake.accept(envelope.clone()).await {
            Ok(_) => return SubmitOutcome::Stored,
            Err(error) => tracing::warn!(%error, "a message could not be taken; trying again"),
        }
        tokio::select! {
            () = clock.sleep(RETRY_DELAY) => {}
            () = cancel.cancelled() => return SubmitOutcome::Cancelled,
        }
    }
}

/// The result of submitting a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubmitOutcome {
    /// The message is on disk, now or since an earlier delivery.
    Stored,
    /// The message may not be on disk.
    Cancelled,
}

/// Reads a file of an outgoing message; returns its name for the recipient and its bytes.
pub(crate) fn read_outgoing(file: &hermes_types::Attachment) -> Result<(String, Vec<u8>), ChannelError> {
    let bytes = std::fs::read(&file.path)
        .map_err(|error| ChannelError::Refused(format!("{}: {error}", file.path)))?;
    let name = file.name.clone().unwrap_or_else(|| file.path.rsplit('/').next().unwrap_or("file").to_owned());
    Ok((name, bytes))
}

/// Returns the name of a file for people.
pub(crate) fn file_name(file: &hermes_types::Attachment) -> &str {
    file.name.as_deref().or_else(|| file.path.rsplit('/').next()).unwrap_or("file")
}

/// Returns the text that takes the place of a file that is not sent.
pub(crate) fn file_note(file: &hermes_types::Attachment, why: &str) -> String {
    format!("📎 {} ({why}; it stays on the computer Hermes runs on)", file_name(file))
}
