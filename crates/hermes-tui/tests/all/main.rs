//! What a person sees: keys and events go in, an emulated terminal shows what comes out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attachments;
mod crash;
mod dialogs;
mod editing;
mod painting;
mod properties;
mod terminal;
mod turns;
