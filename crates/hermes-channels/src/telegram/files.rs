//! Files on their way out.

use std::path::Path;

use hermes_types::{Attachment, AttachmentKind, ChannelError};

use super::Telegram;
use super::api::ApiError;
use super::outbound::{Post, Target, Upload};
use super::wire::Sent;
use crate::media::extension_of;

/// The largest file a bot may send.
const LARGEST: u64 = 50 * 1024 * 1024;

/// A way to send a file: the method, and the field its bytes go into.
type Way = (&'static str, &'static str);
const DOCUMENT: Way = ("sendDocument", "document");

impl Telegram {
    /// One message with a file, and its number.
    pub(super) async fn send_file(
        &self,
        target: Target,
        file: &Attachment,
        caption: Option<&str>,
    ) -> Result<i64, ChannelError> {
        let (name, bytes) = read(file)?;
        let way = way(file.kind, &name);
        let words = caption.map(|caption| ("caption", caption));
        let post = |(method, field): Way| {
            let upload = Upload { field, name: &name, bytes: &bytes };
            Post { method, words, file: Some(upload), ..Post::default() }
        };
        let first = self.deliver(target, &post(way)).await;
        let sent = match first {
            // Telegram looks at pictures and sounds and does not like them all.
            Err(ApiError::Refused { code: 400, .. }) if way != DOCUMENT => {
                tracing::warn!(way = way.0, "a file was refused as what it is and is sent as a document");
                self.deliver(target, &post(DOCUMENT)).await
            }
            other => other,
        };
        let sent: Sent = sent?;
        Ok(sent.message_id)
    }
}

fn way(kind: AttachmentKind, name: &str) -> Way {
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
