//! Media of incoming messages.

use hermes_types::{Attachment, AttachmentKind};

use super::TelegramChannel;
use super::wire::{Location, Sticker, TelegramFile, TelegramMessage, Venue};
use crate::host::IncomingFile;
use crate::media::{FileDecision, classify_document, extension_for, extension_of};

/// The files that were stored, and notes about the others.
#[derive(Debug, Default)]
pub(super) struct MessageFiles {
    pub(super) notes: Vec<String>,
    pub(super) files: Vec<Attachment>,
}

/// A file to download.
struct FileToFetch<'a> {
    file: &'a TelegramFile,
    kind: AttachmentKind,
    /// The extension, with its dot.
    extension: String,
    mime: Option<&'a str>,
    /// The word for the file in a note when it cannot be downloaded.
    label: &'static str,
}

pub(super) async fn gather_files(telegram: &TelegramChannel, message: &TelegramMessage) -> MessageFiles {
    let mut found = MessageFiles::default();
    found.notes.extend(note_for_message(message));
    found.notes.extend(message.sticker.as_ref().map(sticker_note));
    match file_to_fetch(message) {
        Some(Ok(wanted)) => match fetch(telegram, &wanted).await {
            Ok(file) => found.files.push(file),
            Err(why) => {
                tracing::warn!(why, "a file of a message could not be kept");
                found
                    .notes
                    .push(format!("[The user sent {} that could not be fetched: {why}]", wanted.label));
            }
        },
        Some(Err(explanation)) => found.notes.push(explanation),
        None => {}
    }
    found
}

/// Returns the file of a message, or the reason why it is not accepted.
fn file_to_fetch(message: &TelegramMessage) -> Option<Result<FileToFetch<'_>, String>> {
    let wanted = |file, kind, extension: &str, mime, what| {
        Some(Ok(FileToFetch { file, kind, extension: extension.to_owned(), mime, label: what }))
    };
    if let Some(photo) =
        message.photo.iter().max_by_key(|size| (size.width.saturating_mul(size.height), size.file_size))
    {
        return wanted(photo, AttachmentKind::Image, ".jpg", Some("image/jpeg"), "a picture");
    }
    if let Some(voice) = &message.voice {
        return wanted(voice, AttachmentKind::Voice, ".ogg", Some("audio/ogg"), "a voice message");
    }
    if let Some(audio) = &message.audio {
        let extension = named_extension(audio).unwrap_or_else(|| ".mp3".to_owned());
        let mime = audio.mime_type.as_deref().or(Some("audio/mpeg"));
        return wanted(audio, AttachmentKind::Audio, &extension, mime, "a sound");
    }
    if let Some(sticker) =
        message.sticker.as_ref().filter(|sticker| !sticker.is_animated && !sticker.is_video)
    {
        return wanted(&sticker.file, AttachmentKind::Image, ".webp", Some("image/webp"), "a sticker");
    }
    // Telegram repeats an animation as a document; it gets one note, as an animation.
    let document = message.document.as_ref().filter(|_| message.animation.is_none())?;
    Some(document_to_fetch(document))
}

fn document_to_fetch(document: &TelegramFile) -> Result<FileToFetch<'_>, String> {
    let mime = document.mime_type.as_deref();
    let extension = named_extension(document);
    let picture = extension
        .filter(|extension| [".jpg", ".jpeg", ".png", ".webp", ".gif"].contains(&extension.as_str()));
    if let Some(extension) = picture {
        return Ok(FileToFetch {
            file: document,
            kind: AttachmentKind::Image,
            extension,
            mime,
            label: "a picture",
        });
    }
    match classify_document(document.file_name.as_deref(), mime, document.file_size) {
        FileDecision::Accept(kind, extension) => {
            Ok(FileToFetch { file: document, kind, extension, mime, label: "a document" })
        }
        FileDecision::Reject(words) => Err(words),
    }
}

fn named_extension(file: &TelegramFile) -> Option<String> {
    let by_name = file.file_name.as_deref().and_then(extension_of);
    by_name.or_else(|| file.mime_type.as_deref().and_then(extension_for))
}

async fn fetch(telegram: &TelegramChannel, wanted: &FileToFetch<'_>) -> Result<Attachment, String> {
    let bytes = telegram.api.download(&wanted.file.file_id).await.map_err(|error| error.to_string())?;
    let incoming = IncomingFile {
        kind: wanted.kind,
        name: wanted.file.file_name.as_deref(),
        extension: &wanted.extension,
        mime: wanted.mime,
        bytes: &bytes,
    };
    telegram.host.save_file(incoming).await
}

/// Returns the note for content that is only described in words.
fn note_for_message(message: &TelegramMessage) -> Option<String> {
    if let Some(venue) = &message.venue {
        return Some(venue_words(venue));
    }
    if let Some(location) = &message.location {
        return Some(location_words(location, None));
    }
    let film = message.video.as_ref().or(message.video_note.as_ref()).or(message.animation.as_ref());
    if let Some(film) = film {
        let name = film.file_name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
        let length = film.duration.map(|seconds| format!(", {seconds:.0} s long")).unwrap_or_default();
        return Some(format!("[The user sent a video{name}{length}. Videos are not looked at here.]"));
    }
    let others = [
        ("a contact", message.contact.is_some()),
        ("a poll", message.poll.is_some()),
        ("a dice", message.dice.is_some()),
        ("a story", message.story.is_some()),
    ];
    let (what, _) = others.into_iter().find(|(_, sent)| *sent)?;
    Some(format!("[The user sent {what}, which cannot be read here.]"))
}

fn sticker_note(sticker: &Sticker) -> String {
    let emoji = sticker.emoji.as_deref().map(|emoji| format!(" {emoji}")).unwrap_or_default();
    let set = sticker.set_name.as_deref().map(|set| format!(" from the set \"{set}\"")).unwrap_or_default();
    let moving = sticker.is_animated || sticker.is_video;
    let what = if moving { "a moving sticker, of which only this is known:" } else { "a sticker:" };
    format!("[The user sent {what}{emoji}{set}]")
}

fn venue_words(venue: &Venue) -> String {
    let name = format!("Venue: {}\nAddress: {}", venue.title, venue.address);
    location_words(&venue.location, Some(&name))
}

fn location_words(location: &Location, venue: Option<&str>) -> String {
    let Location { latitude, longitude } = location;
    let venue = venue.map(|venue| format!("{venue}\n")).unwrap_or_default();
    format!(
        "[The user sent a location]\n{venue}Latitude: {latitude}\nLongitude: {longitude}\n\
         Map: https://www.google.com/maps/search/?api=1&query={latitude},{longitude}"
    )
}
