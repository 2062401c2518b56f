//! Pictures and recordings of chats, as the model can read them.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::ProgramSurface;
use hermes_gateway::{AttachmentContent, AttachmentRequest, GatewaySettings};
use hermes_model::provider::reads_pictures;
use hermes_store::Store;
use hermes_tools::{PictureFailure, data_url, load_picture};
use hermes_types::{Clock, Deadline};

use crate::context::ProgramContext;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::{configured_vision, web};

/// The time for describing one picture.
const TIMEOUT: Duration = Duration::from_mins(3);
const QUESTION: &str = "What is in this picture that a person who talks about it would refer to?";

/// Reads the files of one message.
pub(super) struct AttachmentReader {
    pub(super) settings: Arc<GatewaySettings>,
    pub(super) context: ProgramContext,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
}

impl AttachmentReader {
    /// Returns a picture itself if the model reads pictures, otherwise a description by the model for them.
    pub(super) async fn picture(self, request: AttachmentRequest<'_>) -> AttachmentContent {
        let unreadable = |reason: String| AttachmentContent::Unreadable(reason);
        let picture = match load_picture(request.file.path.clone().into()).await {
            Ok(picture) => picture,
            Err(reason) => return unreadable(reason),
        };
        let config = &self.settings.config;
        let mode = config.text("agent.image_input_mode");
        if mode == "native" || mode != "text" && reads_pictures(request.model) {
            return AttachmentContent::Picture(data_url(&picture));
        }
        let from = ProgramConfig { context: &self.context, config };
        let side = match configured_vision(from, ProgramSurface::Gateway, &self.clock, &self.store) {
            // The model itself may read pictures; if it refuses them, it gets the text without them.
            Ok(Some(side)) if mode != "text" && side.name == request.model => {
                return AttachmentContent::Picture(data_url(&picture));
            }
            Ok(Some(side)) => side,
            Ok(None) => return AttachmentContent::PathOnly,
            Err(error) => return unreadable(format!("{error:#}")),
        };
        let reader = web::picture_reader(side, &self.store, &self.clock, from);
        let deadline = Deadline::after(&*self.clock, TIMEOUT);
        match reader.describe(&picture.bytes, QUESTION, request.session, deadline, request.cancel).await {
            Ok(said) => AttachmentContent::Text(said),
            Err(PictureFailure::Cancelled) => AttachmentContent::PathOnly,
            Err(PictureFailure::Unreadable(reason) | PictureFailure::Model(reason)) => {
                tracing::warn!(reason, "a picture could not be described");
                unreadable(reason)
            }
        }
    }

    /// Returns the words of a recording.
    pub(super) async fn recording(self, request: AttachmentRequest<'_>) -> AttachmentContent {
        let from = ProgramConfig { context: &self.context, config: &self.settings.config };
        let said = match web::transcriber(&self.clock, from) {
            Ok(transcriber) => {
                transcriber.transcribe(std::path::Path::new(&request.file.path), request.cancel).await
            }
            Err(reason) => Err(reason),
        };
        match said {
            Ok(words) => AttachmentContent::Text(words),
            Err(reason) => {
                tracing::warn!(reason, "a recording could not be transcribed");
                AttachmentContent::Unreadable(reason)
            }
        }
    }
}
