//! The text of PDF documents, page by page.

use lopdf::{Document, LoadOptions};

use crate::{ExtractError, tidy};

/// The most bytes that one compressed stream may expand to.
const LARGEST_STREAM: usize = 16 * 1024 * 1024;
/// The most pages and the most text that are read.
const MOST_PAGES: usize = 2_000;
const LONGEST_TEXT: usize = 4_000_000;

pub(crate) fn read(bytes: &[u8]) -> Result<(String, String), ExtractError> {
    let options = LoadOptions { max_decompressed_size: Some(LARGEST_STREAM), ..LoadOptions::default() };
    let document = Document::load_mem_with_options(bytes, options)
        .map_err(|error| ExtractError::Malformed { kind: "PDF", reason: short(&error.to_string()) })?;
    if document.is_encrypted() && document.encryption_state.is_none() {
        return Err(ExtractError::Encrypted);
    }
    let mut text = String::new();
    let pages: Vec<u32> = document.get_pages().into_keys().collect();
    for page in pages.iter().take(MOST_PAGES) {
        // A page that cannot be read does not hide the others.
        let Ok(page_text) = document.extract_text_with_limit(&[*page], LARGEST_STREAM) else { continue };
        let page_text = tidy::lines(&crate::plain(&page_text));
        if page_text.trim().is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(page_text.trim());
        if text.len() > LONGEST_TEXT {
            break;
        }
    }
    if text.is_empty() && !pages.is_empty() {
        let reason = format!("its {} pages have no text; they may be scanned pictures", pages.len());
        return Err(ExtractError::Malformed { kind: "PDF", reason });
    }
    Ok((title(&document), text))
}

/// Returns the title in the document's own description.
fn title(document: &Document) -> String {
    let info = document.trailer.get(b"Info").ok().and_then(|info| match info.as_reference() {
        Ok(id) => document.get_dictionary(id).ok(),
        Err(_) => info.as_dict().ok(),
    });
    let title =
        info.and_then(|info| info.get(b"Title").ok()).and_then(|title| lopdf::decode_text_string(title).ok());
    tidy::one_line(&title.unwrap_or_default())
}

fn short(reason: &str) -> String {
    reason.lines().next().unwrap_or_default().chars().take(200).collect()
}
