//! Attachments of incoming messages: downloaded and stored, or replaced by a note.

use std::time::Duration;

use hermes_net::{HttpRequest, StatusCode};
use hermes_types::{AttachmentKind, Cancel, ChatPart, Deadline};

use super::inbound::MAX_TRIES;
use super::rest::DiscordApi;
use super::wire::{DiscordAttachment, DiscordMessage};
use crate::backoff::Backoff;
use crate::host::{ChannelHost, IncomingFile};
use crate::media::{self, FileDecision, LARGEST_DOCUMENT};

/// The flag of a voice message.
const VOICE: u64 = 8192;
const NO_TEXT: &str = "(This message has no text content.)";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Downloads the attachments of messages.
pub(super) struct DiscordFiles<'a> {
    api: &'a DiscordApi,
    host: &'a dyn ChannelHost,
}

impl<'a> DiscordFiles<'a> {
    pub(super) fn new(api: &'a DiscordApi, host: &'a dyn ChannelHost) -> Self {
        Self { api, host }
    }

    /// Returns the text with notes about files that could not be downloaded, then the files.
    pub(super) async fn message_parts(&self, message: &DiscordMessage, text: String) -> Vec<ChatPart> {
        let mut texts = vec![text];
        let mut files = Vec::new();
        let forwarded = message.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
        for attachment in message.attachments.iter().chain(forwarded) {
            match self.fetch(attachment, message.flags & VOICE != 0).await {
                Ok(file) => files.push(ChatPart::File(file)),
                Err(note) => texts.push(note),
            }
        }
        texts.retain(|text| !text.is_empty());
        if texts.is_empty() && files.is_empty() {
            texts.push(NO_TEXT.to_owned());
        }
        let mut parts = Vec::new();
        if !texts.is_empty() {
            parts.push(ChatPart::Text { text: texts.join("\n\n") });
        }
        parts.extend(files);
        parts
    }

    /// Downloads a file, or returns a note in its place.
    async fn fetch(
        &self,
        attachment: &DiscordAttachment,
        recorded: bool,
    ) -> Result<hermes_types::Attachment, String> {
        let (kind, extension) = classify_attachment(attachment, recorded)?;
        let name = Some(attachment.filename.as_str()).filter(|name| !name.is_empty());
        let missing = |why: &str| {
            let shown = name.unwrap_or("without a name");
            format!(
                "[The user sent a file ({shown}) that could not be fetched: {why}. It is at {}]",
                attachment.url
            )
        };
        let bytes = self.download(&attachment.url).await.map_err(|why| missing(&why))?;
        let mime = attachment.content_type.as_deref();
        let incoming = IncomingFile { kind, name, extension: &extension, mime, bytes: &bytes };
        self.host.save_file(incoming).await.map_err(|why| missing(&why))
    }

    async fn download(&self, url: &str) -> Result<bytes::Bytes, String> {
        let cap = usize::try_from(LARGEST_DOCUMENT).unwrap_or(usize::MAX);
        let mut pauses = Backoff::new(Duration::from_millis(1500), Duration::from_secs(3));
        loop {
            let deadline = Deadline::after(&*self.api.clock, TIMEOUT);
            let request = HttpRequest::get(url)
                .map_err(|error| error.to_string())?
                .follow_redirects(3)
                .response_timeout(TIMEOUT);
            let problem = match self.api.client.send(request, deadline, &Cancel::new()).await {
                Ok(response) if response.status().is_success() => match response.bytes(cap).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(error) => (error.is_transient(), error.to_string()),
                },
                Ok(response) => {
                    let status = response.status();
                    let later = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                    (later, format!("status {}", status.as_u16()))
                }
                Err(error) => (error.is_transient(), error.to_string()),
            };
            let (later, why) = problem;
            if !later || pauses.failures() + 1 >= MAX_TRIES {
                return Err(why);
            }
            self.api.clock.sleep(pauses.next()).await;
        }
    }
}

/// Returns the kind of file and the extension it is stored with, or the reason why it is not accepted.
fn classify_attachment(
    attachment: &DiscordAttachment,
    recorded: bool,
) -> Result<(AttachmentKind, String), String> {
    let name = Some(attachment.filename.as_str()).filter(|name| !name.is_empty());
    let mime = attachment.content_type.as_deref().unwrap_or_default();
    let (kind, usual) = match mime.split('/').next() {
        Some("image") => (AttachmentKind::Image, ".jpg"),
        Some("audio") if recorded => (AttachmentKind::Voice, ".ogg"),
        Some("audio") => (AttachmentKind::Audio, ".mp3"),
        _ => match media::classify_document(name, attachment.content_type.as_deref(), attachment.size) {
            FileDecision::Accept(kind, extension) => return Ok((kind, extension)),
            FileDecision::Reject(note) => return Err(format!("{note} It is at {}", attachment.url)),
        },
    };
    if attachment.size.is_some_and(|size| size > LARGEST_DOCUMENT) {
        let shown = name.unwrap_or("without a name");
        return Err(format!(
            "[The user sent a file ({shown}) of more than 20 MB. It is at {}]",
            attachment.url
        ));
    }
    let extension = media::extension_for(mime).or_else(|| name.and_then(media::extension_of));
    Ok((kind, extension.unwrap_or_else(|| usual.to_owned())))
}
