//! Models that cannot see pictures: which ones said so, and what they get instead.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use hermes_types::{ContentPart, JsonFields, MessageContent, ModelRequest};

const LEFT_OUT: &str = "[a picture was left out here: this model cannot see pictures]";

/// The models that refused pictures, as long as the client lives.
#[derive(Debug, Default)]
pub(super) struct PictureRefusals(Mutex<HashSet<String>>);

impl PictureRefusals {
    pub(super) fn remember(&self, model: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned());
    }

    pub(super) fn contains(&self, model: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(model)
    }
}

/// Replaces the pictures of a request by a sentence, and tells whether there were any. Its text parts stay.
pub(super) fn leave_out_pictures(request: &mut ModelRequest) -> bool {
    let mut found = false;
    for message in &mut request.messages {
        let MessageContent::Parts(parts) = &mut message.content else { continue };
        for part in parts.iter_mut().filter(|part| is_picture(part)) {
            *part = ContentPart::Text(LEFT_OUT.to_owned());
            found = true;
        }
    }
    found
}

fn is_picture(part: &ContentPart) -> bool {
    match part {
        ContentPart::Text(_) => false,
        ContentPart::Image { .. } => true,
        ContentPart::Other(raw) => {
            let kind =
                raw.read::<JsonFields>().ok().and_then(|fields| fields.get("type")?.read::<String>().ok());
            matches!(kind.as_deref(), Some("image" | "image_url" | "input_image"))
        }
    }
}
