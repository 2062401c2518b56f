//! The format of a document, from its content type and its first bytes.

use serde_json::Value;

use crate::ExtractError;

/// The formats that have readable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Html,
    Pdf,
    /// RSS or Atom.
    Feed,
    Json,
    Text,
}

/// The number of bytes that are examined to tell formats apart.
const SNIFFED: usize = 2048;

impl DocumentKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Html => "web page",
            Self::Pdf => "PDF",
            Self::Feed => "feed",
            Self::Json => "JSON document",
            Self::Text => "text",
        }
    }

    /// Returns the format. The first bytes decide where they are unmistakable, because servers send wrong types.
    pub(crate) fn detect(bytes: &[u8], content_type: Option<&str>) -> Result<Self, ExtractError> {
        let mime = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
        let mime = mime.trim().to_ascii_lowercase();
        let start = bytes.get(..SNIFFED).unwrap_or(bytes);
        if find(start, b"%PDF-").is_some_and(|at| at < 1024) {
            return Ok(Self::Pdf);
        }
        if let Some(media) = media_kind(start) {
            return Err(ExtractError::NotText(media.to_owned()));
        }
        match mime.as_str() {
            "text/html" | "application/xhtml+xml" => {
                return Ok(if looks_like_feed(start) { Self::Feed } else { Self::Html });
            }
            "application/rss+xml" | "application/atom+xml" | "application/rdf+xml" => return Ok(Self::Feed),
            "application/pdf" => return Ok(Self::Pdf),
            mime if mime == "application/json" || mime.ends_with("+json") => return Ok(Self::Json),
            mime if mime.starts_with("image/") && mime != "image/svg+xml" => {
                return Err(ExtractError::NotText(format!("a picture ({mime})")));
            }
            mime if mime.starts_with("audio/") || mime.starts_with("video/") => {
                return Err(ExtractError::NotText(format!("a recording ({mime})")));
            }
            _ => {}
        }
        if looks_like_feed(start) {
            return Ok(Self::Feed);
        }
        if looks_like_html(start) && !matches!(mime.as_str(), "text/plain" | "text/markdown") {
            return Ok(Self::Html);
        }
        if is_binary(start) {
            let what =
                if mime.is_empty() { "binary data".to_owned() } else { format!("binary data ({mime})") };
            return Err(ExtractError::NotText(what));
        }
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_untyped = mime.is_empty() || mime == "application/octet-stream";
        if is_untyped && matches!(first, Some(b'{' | b'[')) && serde_json::from_slice::<Value>(bytes).is_ok()
        {
            return Ok(Self::Json);
        }
        Ok(Self::Text)
    }
}

fn looks_like_html(start: &[u8]) -> bool {
    let marks: [&[u8]; 6] = [b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<article"];
    let lower = start.to_ascii_lowercase();
    marks.iter().any(|mark| find(&lower, mark).is_some())
}

fn looks_like_feed(start: &[u8]) -> bool {
    let lower = start.to_ascii_lowercase();
    let at = |mark: &[u8]| find(&lower, mark).is_some();
    let root = at(b"<rss") || at(b"<feed") || at(b"<rdf:rdf");
    root && !at(b"<html") && !at(b"<!doctype html")
}

/// Tells whether bytes are no text in any encoding. UTF-16 has many zeros, but begins with its mark.
fn is_binary(start: &[u8]) -> bool {
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return false;
    }
    let odd = |byte: &u8| matches!(byte, 0..=8 | 14..=26 | 28..=31);
    let count = start.iter().filter(|byte| odd(byte)).count();
    start.contains(&0) || count * 20 > start.len()
}

/// Names formats that are known by their first bytes and have no text.
fn media_kind(start: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 9] = [
        (b"\x89PNG\r\n\x1a\n", "a picture (PNG)"),
        (b"\xff\xd8\xff", "a picture (JPEG)"),
        (b"GIF8", "a picture (GIF)"),
        (b"PK\x03\x04", "an archive or an office document (ZIP)"),
        (b"\x1f\x8b", "an archive (gzip)"),
        (b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
        (b"OggS", "a recording (Ogg)"),
        (b"ID3", "a recording (MP3)"),
        (b"\x7fELF", "a program"),
    ];
    known.iter().find(|(mark, _)| start.starts_with(mark)).map(|(_, name)| *name)
}

pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
