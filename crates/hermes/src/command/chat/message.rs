//! What a person sent: text, and the pictures that go with it.

use std::path::PathBuf;

use hermes_tui::EditedText;

use super::input::is_command;

/// A message or a command as it was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TypedMessage {
    pub(crate) text: String,
    pub(crate) images: Vec<PathBuf>,
    /// True when it was spoken.
    pub(crate) is_spoken: bool,
}

impl TypedMessage {
    /// Tells whether it is a command. A message with pictures is none.
    pub(crate) fn is_command(&self) -> bool {
        self.images.is_empty() && is_command(&self.text)
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && self.images.is_empty()
    }

    /// Adds a message that was sent right after this one.
    pub(crate) fn append(&mut self, next: Self) {
        if !self.text.is_empty() && !next.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&next.text);
        self.images.extend(next.images);
    }
}

impl From<String> for TypedMessage {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<EditedText> for TypedMessage {
    fn from(EditedText { text, images, .. }: EditedText) -> Self {
        Self { text, images, ..Self::default() }
    }
}
