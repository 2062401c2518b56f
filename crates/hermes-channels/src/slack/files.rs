//! Incoming and outgoing files.

use hermes_net::{Bytes, HttpRequest, Method, Url, header};
use hermes_text::dialect;
use hermes_types::{
    Attachment, AttachmentKind, ChannelError, ChatAddress, ChatPart, OutgoingMessage, WebImage,
};
use serde_json::{Value, json};

use super::SlackChannel;
use super::api::{MethodArguments, SlackError, network_error};
use super::inbound::SlackFile;
use crate::fetch::fetch_picture;
use crate::host::IncomingFile;
use crate::media::{FileDecision, LARGEST_DOCUMENT, classify_document, extension_for, extension_of, mime_of};

const MAX_TRIES: u32 = 3;

impl SlackChannel {
    /// Downloads and stores a file, or returns a note with the reason why not.
    pub(super) async fn fetch_file(&self, file: &SlackFile) -> ChatPart {
        let (kind, extension) = match classify_file(file) {
            FileDecision::Accept(kind, extension) => (kind, extension),
            FileDecision::Reject(text) => return ChatPart::Text { text },
        };
        let name = file.name.as_deref().unwrap_or("a file");
        let mut reason = String::new();
        for attempt in 0..MAX_TRIES {
            if attempt > 0 {
                self.context.clock.sleep(std::time::Duration::from_millis(1500 * u64::from(attempt))).await;
            }
            match self.download(file).await {
                Ok(bytes) => {
                    let incoming = IncomingFile {
                        kind,
                        name: file.name.as_deref(),
                        extension: &extension,
                        mime: file.mime.as_deref(),
                        bytes: &bytes,
                    };
                    match self.context.host.save_file(incoming).await {
                        Ok(kept) => return ChatPart::File(kept),
                        Err(error) => reason = error,
                    }
                }
                Err(failure @ SlackError { error: ChannelError::Retry { .. }, .. }) => {
                    reason = failure.error.to_string();
                }
                Err(failure) => {
                    reason = failure.error.to_string();
                    break;
                }
            }
        }
        tracing::warn!(%reason, "a shared file could not be fetched");
        ChatPart::Text { text: format!("[The user sent {name}, but it could not be fetched.]") }
    }

    async fn download(&self, file: &SlackFile) -> Result<Vec<u8>, SlackError> {
        let cap = usize::try_from(LARGEST_DOCUMENT).unwrap_or(usize::MAX);
        let request = self.file_request(&file.url).map_err(|error| network_error(&error))?.body_limit(cap);
        let response = self.api.send(request).await?;
        let status = response.status();
        if !status.is_success() {
            let reason = format!("Slack answered with status {}", status.as_u16());
            let error = if status.is_server_error() || status.as_u16() == 429 {
                ChannelError::Retry { after: None, reason }
            } else {
                ChannelError::Refused(reason)
            };
            return Err(SlackError { error, code: "http".to_owned(), may_have_succeeded: false });
        }
        Ok(response.bytes(cap).await.map_err(|error| network_error(&error))?.to_vec())
    }

    /// Builds the request for a file. The token is sent only to Slack; other hosts must be allowed by the network
    /// policy.
    fn file_request(&self, url: &str) -> Result<HttpRequest, hermes_net::Error> {
        let url = Url::parse(url).map_err(|_| hermes_net::Error::InvalidUrl)?;
        let ours = url.host_str().is_some_and(|host| {
            let secure = url.scheme() == "https" && (host == "slack.com" || host.ends_with(".slack.com"));
            secure || (self.settings.base.host_str() == Some(host) && self.settings.base.port() == url.port())
        });
        let request = HttpRequest::new(Method::GET, url).follow_redirects(3);
        if ours { request.bearer(&self.settings.bot_token) } else { Ok(request.untrusted()) }
    }

    pub(super) async fn share_file(
        &self,
        place: &ChatAddress,
        file: &Attachment,
    ) -> Result<String, ChannelError> {
        let bytes = read(&file.path)?;
        let name =
            file.name.clone().unwrap_or_else(|| file.path.rsplit('/').next().unwrap_or("file").to_owned());
        self.upload(place, &name, bytes.into(), None).await
    }

    /// Downloads and uploads an image. If that fails, sends its URL, which Slack previews where it can.
    pub(super) async fn share_picture(
        &self,
        reply: &OutgoingMessage,
        picture: &WebImage,
    ) -> Result<String, ChannelError> {
        match fetch_picture(&self.context.client, &*self.context.clock, &picture.url).await {
            Ok(file) => {
                let comment = picture.caption.as_deref();
                match self.upload(&reply.place, &file.name, file.bytes, comment).await {
                    Err(ChannelError::Refused(why)) => {
                        tracing::warn!(why, "a picture is sent as its address");
                    }
                    other => return other,
                }
            }
            Err(why) => tracing::warn!(why, "a picture is sent as its address"),
        }
        self.send_text(reply, &picture.fallback_text()).await
    }

    /// Uploads a file in three steps and returns its id as the receipt.
    async fn upload(
        &self,
        place: &ChatAddress,
        name: &str,
        bytes: Bytes,
        comment: Option<&str>,
    ) -> Result<String, ChannelError> {
        let length = bytes.len().to_string();
        let arguments = [("filename", name), ("length", length.as_str())];
        let slot = self.api.call("files.getUploadURLExternal", MethodArguments::Form(&arguments)).await?;
        let (Some(url), Some(id)) =
            (slot.get("upload_url").and_then(Value::as_str), slot.get("file_id").and_then(Value::as_str))
        else {
            return Err(ChannelError::Refused("files.getUploadURLExternal: no address came".to_owned()));
        };
        let request =
            HttpRequest::post(url).and_then(|request| request.header(header::CONTENT_TYPE, mime_of(name)));
        let request = request.map_err(|error| network_error(&error).error)?.body(bytes);
        let status = self.api.send(request).await?.status();
        if !status.is_success() {
            let reason = format!("the upload was answered with status {}", status.as_u16());
            return Err(ChannelError::Retry { after: None, reason });
        }
        let mut done = json!({"files": [{"id": id, "title": name}], "channel_id": place.chat_id});
        if let Some(thread) = &place.thread_id {
            done["thread_ts"] = json!(thread);
        }
        if let Some(comment) = comment {
            done["initial_comment"] = json!(dialect::slack(comment));
        }
        let shared = self.api.call("files.completeUploadExternal", MethodArguments::Json(&done)).await;
        shared.map_err(SlackError::into_send_error)?;
        Ok(id.to_owned())
    }
}

fn read(path: &str) -> Result<Vec<u8>, ChannelError> {
    std::fs::read(path).map_err(|error| ChannelError::Refused(format!("{path}: {error}")))
}

fn classify_file(file: &SlackFile) -> FileDecision {
    let mime = file.mime.as_deref().unwrap_or_default();
    let kind = match mime.split('/').next() {
        Some("image") => AttachmentKind::Image,
        Some("audio") => AttachmentKind::Voice,
        Some("video") => {
            let name = file.name.as_deref().unwrap_or("without a name");
            return FileDecision::Reject(format!("[The user sent a video ({name}). It was not fetched.]"));
        }
        _ => return classify_document(file.name.as_deref(), file.mime.as_deref(), file.size),
    };
    if file.size.is_some_and(|size| size > LARGEST_DOCUMENT) {
        return FileDecision::Reject(
            "[The user sent a file that is too large. At most 20 MB are taken.]".to_owned(),
        );
    }
    let extension = extension_for(mime).or_else(|| file.name.as_deref().and_then(extension_of));
    FileDecision::Accept(kind, extension.unwrap_or_default())
}
