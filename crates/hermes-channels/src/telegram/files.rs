//! Outgoing files.

use std::borrow::Cow;
use std::path::Path;

use hermes_text::length;
use hermes_types::{Attachment, AttachmentKind, ChannelError, LengthUnit, WebImage};
use serde_json::json;

use super::TelegramChannel;
use super::api::TelegramError;
use super::outbound::{LONGEST_CAPTION, TelegramPost, TelegramTarget, Upload, truncate};
use super::wire::SentMessage;
use crate::fetch::fetch_picture;
use crate::media::{extension_of, file_name_from_url};

/// The largest file a bot may send.
const LARGEST: u64 = 50 * 1024 * 1024;

/// The API method for a kind of file, and the field that holds its bytes.
type UploadMethod = (&'static str, &'static str);
const DOCUMENT: UploadMethod = ("sendDocument", "document");

impl TelegramChannel {
    /// Sends a message with a file and returns its id.
    pub(super) async fn send_file(
        &self,
        target: TelegramTarget,
        file: &Attachment,
        caption: Option<&str>,
    ) -> Result<i64, ChannelError> {
        let (name, bytes) = read(file)?;
        Ok(self.upload(target, upload_method(file.kind, &name), (&name, &bytes), caption).await?)
    }

    /// Sends an image by URL: Telegram downloads it, or this process does, or the URL is sent as text.
    pub(super) async fn send_picture(
        &self,
        target: TelegramTarget,
        picture: &WebImage,
    ) -> Result<i64, ChannelError> {
        let caption = picture.caption.as_deref().map(truncate_caption);
        let caption = caption.as_deref();
        let way = upload_method(AttachmentKind::Image, file_name_from_url(&picture.url));
        let by_address = TelegramPost {
            method: way.0,
            text: caption.map(|caption| ("caption", caption)),
            extra_fields: [(way.1.to_owned(), json!(picture.url))].into_iter().collect(),
            ..TelegramPost::default()
        };
        match self.send_with_fallbacks::<SentMessage>(target, &by_address).await {
            Ok(sent) => return Ok(sent.message_id),
            Err(TelegramError::Refused { description, .. }) => {
                tracing::debug!(description, "Telegram does not take the address of a picture");
            }
            Err(error) => return Err(error.into()),
        }
        match fetch_picture(&self.client, &*self.clock, &picture.url).await {
            Ok(file) => {
                let way = self::upload_method(AttachmentKind::Image, &file.name);
                match self.upload(target, way, (&file.name, &file.bytes), caption).await {
                    Err(TelegramError::Refused { description, .. }) => {
                        tracing::warn!(description, "a picture is sent as its address");
                    }
                    other => return Ok(other?),
                }
            }
            Err(why) => tracing::warn!(why, "a picture is sent as its address"),
        }
        self.send_text(target, &picture.fallback_text(), None).await
    }

    async fn upload(
        &self,
        target: TelegramTarget,
        way: UploadMethod,
        (name, bytes): (&str, &[u8]),
        caption: Option<&str>,
    ) -> Result<i64, TelegramError> {
        let words = caption.map(|caption| ("caption", caption));
        let post = |(method, field): UploadMethod| {
            let upload = Upload { field, name, bytes };
            TelegramPost { method, text: words, file: Some(upload), ..TelegramPost::default() }
        };
        let first = self.send_with_fallbacks(target, &post(way)).await;
        let sent = match first {
            // Telegram refuses some images and audio files; those are sent as documents.
            Err(TelegramError::Refused { code: 400, .. }) if way != DOCUMENT => {
                tracing::warn!(way = way.0, "a file was refused as what it is and is sent as a document");
                self.send_with_fallbacks(target, &post(DOCUMENT)).await
            }
            other => other,
        };
        let sent: SentMessage = sent?;
        Ok(sent.message_id)
    }
}

/// Shortens a caption to Telegram's limit.
fn truncate_caption(caption: &str) -> Cow<'_, str> {
    if length(caption, LengthUnit::Utf16) <= LONGEST_CAPTION {
        return Cow::Borrowed(caption);
    }
    Cow::Owned(truncate(caption, LONGEST_CAPTION - 1))
}

fn upload_method(kind: AttachmentKind, name: &str) -> UploadMethod {
    let extension = extension_of(name).unwrap_or_default();
    match (kind, extension.as_str()) {
        (AttachmentKind::Image, ".gif") => ("sendAnimation", "animation"),
        (AttachmentKind::Image, _) => ("sendPhoto", "photo"),
        (AttachmentKind::Voice, ".ogg" | ".opus") => ("sendVoice", "voice"),
        (AttachmentKind::Voice | AttachmentKind::Audio, _) => ("sendAudio", "audio"),
        (AttachmentKind::Video, _) => ("sendVideo", "video"),
        (AttachmentKind::Document, _) => DOCUMENT,
    }
}

fn read(file: &Attachment) -> Result<(String, Vec<u8>), ChannelError> {
    let path = Path::new(&file.path);
    let refused = |why: String| ChannelError::Refused(format!("{}: {why}", file.path));
    let size = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?.len();
    if size > LARGEST {
        return Err(refused("it is larger than the 50 MB a bot may send".to_owned()));
    }
    let bytes = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let of_path = || path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = file.name.clone().or_else(of_path).unwrap_or_else(|| "file".to_owned());
    Ok((name, bytes))
}
