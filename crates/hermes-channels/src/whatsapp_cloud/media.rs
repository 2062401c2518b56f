//! Files in both directions.

use hermes_net::{Bytes, HttpRequest, Method, Url, header};
use hermes_types::{Attachment, AttachmentKind, ChannelError, ChatPart};
use serde_json::Value;

use super::WhatsAppCloudChannel;
use super::inbound::WhatsAppMedia;
use crate::incoming_file::{DescribedFile, read_outgoing};
use crate::media::{LARGEST_DOCUMENT, mime_of};
use crate::multipart::MultipartForm;
use crate::rest::RestError;

const MEGABYTE: usize = 1024 * 1024;
const LARGEST_IMAGE: usize = 5 * MEGABYTE;
const LARGEST_SOUND: usize = 16 * MEGABYTE;
const LARGEST_FILE: usize = 100 * MEGABYTE;
/// The hosts of Meta that files are downloaded from.
const MEDIA_HOSTS: [&str; 3] = [".fbsbx.com", ".facebook.com", ".whatsapp.net"];

/// A file that was uploaded, and the type of message that shows it.
#[derive(Debug)]
pub(super) struct UploadedMedia {
    pub(super) id: String,
    /// The type of the message: `image`, `video`, `audio` or `document`.
    pub(super) shown_as: &'static str,
    pub(super) name: String,
}

impl WhatsAppCloudChannel {
    /// Downloads and stores a file, or returns a note with the reason why not.
    pub(super) async fn fetch_media(&self, file: &WhatsAppMedia) -> ChatPart {
        let described = DescribedFile {
            name: file.name.as_deref(),
            mime: file.mime.as_deref(),
            size: None,
            kind: Some(file.kind),
        };
        described.take(&*self.context.host, &*self.context.clock, self.download(&file.id)).await
    }

    async fn download(&self, id: &str) -> Result<Bytes, RestError> {
        // The id becomes part of an address.
        if id.is_empty()
            || !id.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
            || id.starts_with('.')
        {
            return Err(RestError::new(ChannelError::Refused("the id of a file cannot be used".to_owned())));
        }
        let facts = self.call(Method::GET, id, None).await?;
        let url = facts.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
        let url = url.filter(|url| self.is_media_host(url)).ok_or_else(|| {
            RestError::new(ChannelError::Refused("a file has no address at WhatsApp".to_owned()))
        })?;
        let request = HttpRequest::new(Method::GET, url).bearer(&self.settings.token);
        let request = request.map_err(|error| RestError::network(&error))?;
        self.rest.download(request, LARGEST_DOCUMENT).await
    }

    /// Tells whether an address may be sent the token.
    fn is_media_host(&self, url: &Url) -> bool {
        let base = &self.settings.base;
        let is_ours =
            url.host_str() == base.host_str() && url.port() == base.port() && url.scheme() == base.scheme();
        let host = url.host_str().unwrap_or_default();
        is_ours || url.scheme() == "https" && MEDIA_HOSTS.iter().any(|known| host.ends_with(known))
    }

    pub(super) async fn upload_file(&self, file: &Attachment) -> Result<UploadedMedia, ChannelError> {
        let (name, bytes) = read_outgoing(file)?;
        let shown_as = shown_as(file.kind, mime_of(&name), bytes.len());
        self.upload(&name, shown_as, &bytes).await
    }

    /// Uploads a picture; `None` when it is of a kind or size that WhatsApp shows only as a document.
    pub(super) async fn upload_picture(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<UploadedMedia, ChannelError> {
        self.upload(name, shown_as(AttachmentKind::Image, mime_of(name), bytes.len()), bytes).await
    }

    async fn upload(
        &self,
        name: &str,
        shown_as: &'static str,
        bytes: &[u8],
    ) -> Result<UploadedMedia, ChannelError> {
        if bytes.len() > LARGEST_FILE {
            return Err(ChannelError::Refused(format!("{name}: WhatsApp takes files of at most 100 MB")));
        }
        let mime = mime_of(name);
        let form = MultipartForm::new().text("messaging_product", "whatsapp").text("type", mime);
        let (kind, body) = form.file("file", name, mime, bytes).finish();
        let path = format!("{}/media", self.settings.phone_number_id);
        let request = self
            .settings
            .endpoint(&path)
            .and_then(|url| HttpRequest::new(Method::POST, url).bearer(&self.settings.token))
            .and_then(|request| request.header(header::CONTENT_TYPE, &kind));
        let request = request.map_err(|error| RestError::network(&error).error)?.body(body);
        // Nobody sees an upload before its message: it may be repeated.
        let answer =
            self.rest.call(request).await.map_err(|failure| super::outbound::explain(failure).error)?;
        let id = answer.get("id").and_then(Value::as_str);
        let id =
            id.ok_or_else(|| ChannelError::Refused("the upload to WhatsApp returned no id".to_owned()))?;
        Ok(UploadedMedia { id: id.to_owned(), shown_as, name: name.to_owned() })
    }
}

/// Returns the type of message for a file. What is too large for its kind, or of another format, is a document.
fn shown_as(kind: AttachmentKind, mime: &str, size: usize) -> &'static str {
    let sounds = ["audio/ogg", "audio/mpeg", "audio/mp4", "audio/aac", "audio/amr"];
    match kind {
        AttachmentKind::Image if ["image/jpeg", "image/png"].contains(&mime) && size <= LARGEST_IMAGE => {
            "image"
        }
        AttachmentKind::Video if mime == "video/mp4" && size <= LARGEST_SOUND => "video",
        AttachmentKind::Audio | AttachmentKind::Voice if sounds.contains(&mime) && size <= LARGEST_SOUND => {
            "audio"
        }
        _ => "document",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_a_document() {
        for (kind, mime, size, expected) in [
            (AttachmentKind::Image, "image/png", 10, "image"),
            (AttachmentKind::Image, "image/png", 6 * MEGABYTE, "document"),
            (AttachmentKind::Image, "image/gif", 10, "document"),
            (AttachmentKind::Voice, "audio/ogg", 10, "audio"),
            (AttachmentKind::Audio, "audio/wav", 10, "document"),
            (AttachmentKind::Video, "video/mp4", 17 * MEGABYTE, "document"),
            (AttachmentKind::Document, "image/png", 10, "document"),
        ] {
            assert_eq!(shown_as(kind, mime, size), expected, "{kind:?} {mime} {size}");
        }
    }
}
