//! Fetched documents of any kind.

use hermes_extract::extract;

const KINDS: [Option<&str>; 6] = [
    None,
    Some("text/html"),
    Some("application/pdf"),
    Some("application/rss+xml"),
    Some("application/json"),
    Some("text/plain; charset=utf-16"),
];

/// The first byte chooses the content type; the rest is the document. Its text is bounded by its size.
pub fn documents(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let kind = KINDS[usize::from(*choice) % KINDS.len()];
    if let Ok(document) = extract(body, kind, "https://example.com/folder/page") {
        assert!(!document.text.trim().is_empty());
        assert!(document.text.len() <= 400 * body.len() + 4096, "{} bytes", document.text.len());
    }
}
