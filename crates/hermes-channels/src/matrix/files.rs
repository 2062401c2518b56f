//! Files: downloaded and decrypted with a message, encrypted and uploaded for one.

use hermes_types::{AttachmentKind, ChannelError, ChatPart};
use serde_json::{Value, json};

use super::MatrixChannel;
use super::encryption::{decrypt_file, encrypt_file};
use super::event::MatrixFile;
use super::rooms::RoomFacts;
use super::sign_in::MatrixSession;
use crate::incoming_file::DescribedFile;
use crate::media::{LARGEST_DOCUMENT, mime_of};
use crate::rest::RestError;

impl MatrixChannel {
    /// Downloads a file of a message, or returns a note in its place.
    pub(super) async fn fetch_file(&self, session: &MatrixSession, file: &MatrixFile) -> ChatPart {
        let described = DescribedFile {
            name: file.name.as_deref(),
            mime: file.mime.as_deref(),
            size: file.size,
            kind: Some(file.kind),
        };
        let download = async {
            let bytes = self.api.download(&session.token, &file.address, LARGEST_DOCUMENT).await?;
            let Some(encryption) = &file.encryption else { return Ok(bytes) };
            let plain = decrypt_file(&bytes, encryption).map_err(|error| {
                RestError::new(ChannelError::Refused(format!("it could not be decrypted: {error}")))
            })?;
            Ok(plain.into())
        };
        described.take(&*self.context.host, &*self.context.clock, download).await
    }

    /// Uploads a file, and returns the content of its message.
    pub(super) async fn upload(
        &self,
        session: &MatrixSession,
        facts: &RoomFacts,
        name: &str,
        bytes: Vec<u8>,
        kind: Option<AttachmentKind>,
    ) -> Result<Value, ChannelError> {
        let (mime, size) = (mime_of(name), bytes.len());
        let kind_name = match kind {
            Some(AttachmentKind::Document) => "m.file",
            _ if mime.starts_with("image/") => "m.image",
            _ if mime.starts_with("video/") => "m.video",
            _ if mime.starts_with("audio/") => "m.audio",
            _ => "m.file",
        };
        let mut content = json!({
            "msgtype": kind_name, "body": name, "filename": name, "info": {"mimetype": mime, "size": size},
        });
        if kind == Some(AttachmentKind::Voice) && kind_name == "m.audio" {
            content["org.matrix.msc3245.voice"] = json!({});
        }
        if facts.encryption.is_some() {
            let (sealed, description) = encrypt_file(&bytes).map_err(ChannelError::Refused)?;
            // Neither its name nor its type is for the server.
            let address = self.api.upload(&session.token, "file", "application/octet-stream", sealed).await?;
            content["file"] = description;
            content["file"]["url"] = json!(address);
        } else {
            content["url"] = json!(self.api.upload(&session.token, name, mime, bytes).await?);
        }
        Ok(content)
    }
}
