//! What a model can read of a foreign document: web pages as Markdown, PDF, feeds, JSON, plain text, and pictures that are
//! small enough for it.
//!
//! Pure: bytes in, text out; no network, no files, no clock. Whatever the bytes are, nothing here panics, and the
//! work is bounded by the size of the input and by the limits of each format.

mod charset;
mod data_table;
mod document_kind;
mod feed;
mod html;
mod json;
mod markup_cost;
mod pdf;
mod picture;
mod plain_markup;
mod tidy;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thiserror::Error;

pub use document_kind::DocumentKind;
pub use picture::{Picture, PictureLimits, ScaledPicture, fit_picture, scale_picture};

/// The readable text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentText {
    /// The title, or an empty text where the document has none.
    pub title: String,
    pub text: String,
    pub kind: DocumentKind,
}

/// The reason why a document has no readable text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExtractError {
    #[error("it is {0}, which has no text to read")]
    NotText(String),
    #[error("it contains no readable text; a page may build its text with scripts, which are not run")]
    Empty,
    #[error("the PDF is encrypted and cannot be read without its password")]
    Encrypted,
    #[error("it is not a readable {kind}: {reason}")]
    Malformed { kind: &'static str, reason: String },
}

/// Extracts the text. `content_type` is the header of that name; `url` is the address the bytes came from, against
/// which relative links are resolved.
pub fn extract(bytes: &[u8], content_type: Option<&str>, url: &str) -> Result<DocumentText, ExtractError> {
    let kind = DocumentKind::detect(bytes, content_type)?;
    // The parsers below this crate are not ours: one that panics must not end more than this document.
    let work = AssertUnwindSafe(|| read(kind, bytes, content_type, url));
    let (title, text) = catch_unwind(work).unwrap_or_else(|_| {
        Err(ExtractError::Malformed { kind: kind.name(), reason: "its parser failed".to_owned() })
    })?;
    if text.trim().is_empty() {
        return Err(ExtractError::Empty);
    }
    Ok(DocumentText { title, text, kind })
}

/// Converts a piece of markup, such as the text of a mail, to Markdown. Nothing of it is left out but what a reader would
/// not see.
pub fn read_markup(markup: &str) -> String {
    let work = AssertUnwindSafe(|| html::fragment(markup, ""));
    catch_unwind(work).unwrap_or_else(|_| plain_markup::text_of(markup))
}

fn read(
    kind: DocumentKind,
    bytes: &[u8],
    content_type: Option<&str>,
    url: &str,
) -> Result<(String, String), ExtractError> {
    let decoded = || charset::decode(bytes, content_type);
    match kind {
        DocumentKind::Html => Ok(html::read(&decoded(), url)),
        DocumentKind::Pdf => pdf::read(bytes),
        DocumentKind::Feed => Ok(feed::read(&decoded(), url)),
        DocumentKind::Json => Ok(json::read(&decoded(), url)),
        DocumentKind::Text => Ok((String::new(), plain(&decoded()))),
    }
}

/// Returns a plain text with line ends of one kind and without control characters.
fn plain(text: &str) -> String {
    let text: Cow<'_, str> =
        if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text.into() };
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}
