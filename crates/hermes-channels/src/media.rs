//! Files of incoming messages: their kind, and which are accepted.

use hermes_types::AttachmentKind;

/// Limits the size of accepted documents.
pub(crate) const LARGEST_DOCUMENT: u64 = 20 * 1024 * 1024;

/// The accepted documents, by extension and MIME type.
const DOCUMENTS: [(&str, &str); 6] = [
    (".pdf", "application/pdf"),
    (".md", "text/markdown"),
    (".txt", "text/plain"),
    (".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
];

/// The decision about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileDecision {
    /// Download the file and store it with this extension.
    Accept(AttachmentKind, String),
    /// Tell the model this instead.
    Reject(String),
}

/// Decides about a file that was sent as a document.
pub(crate) fn classify_document(name: Option<&str>, mime: Option<&str>, size: Option<u64>) -> FileDecision {
    let shown = name.unwrap_or("without a name");
    let extension = name.and_then(extension_of).or_else(|| mime.and_then(extension_for));
    let known = extension.filter(|extension| DOCUMENTS.iter().any(|(known, _)| known == extension));
    let Some(extension) = known else {
        let list: Vec<&str> = DOCUMENTS.iter().map(|(extension, _)| *extension).collect();
        return FileDecision::Reject(format!(
            "[The user sent a file ({shown}) of a kind that is not taken here. Taken are: {}]",
            list.join(", ")
        ));
    };
    match size {
        Some(size) if size <= LARGEST_DOCUMENT => FileDecision::Accept(AttachmentKind::Document, extension),
        _ => FileDecision::Reject(format!(
            "[The user sent a document ({shown}) that is too large, or whose size is not known. At most 20 MB are taken.]"
        )),
    }
}

/// Returns the extension of a name, in lower case and with its dot.
pub(crate) fn extension_of(name: &str) -> Option<String> {
    let (stem, extension) = name.rsplit_once('.')?;
    let plain =
        !extension.is_empty() && extension.len() <= 8 && extension.chars().all(|c| c.is_ascii_alphanumeric());
    (plain && !stem.is_empty()).then(|| format!(".{}", extension.to_ascii_lowercase()))
}

/// Returns the file name of a URL: the text after the last slash of its path.
pub(crate) fn file_name_from_url(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the usual extension of a MIME type.
pub(crate) fn extension_for(mime: &str) -> Option<String> {
    let mime = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if let Some((extension, _)) = DOCUMENTS.iter().find(|(_, known)| *known == mime) {
        return Some((*extension).to_owned());
    }
    let extension = match mime.as_str() {
        "image/jpeg" | "image/jpg" => ".jpg",
        "image/png" => ".png",
        "image/gif" => ".gif",
        "image/webp" => ".webp",
        "audio/ogg" | "audio/opus" => ".ogg",
        "audio/mpeg" | "audio/mp3" => ".mp3",
        "audio/wav" | "audio/x-wav" => ".wav",
        "audio/mp4" | "audio/m4a" | "audio/x-m4a" => ".m4a",
        "audio/aac" => ".aac",
        "audio/amr" => ".amr",
        "audio/webm" => ".webm",
        "video/mp4" => ".mp4",
        "text/x-markdown" => ".md",
        _ => return None,
    };
    Some(extension.to_owned())
}

/// Returns the MIME type a file is sent with.
pub(crate) fn mime_of(name: &str) -> &'static str {
    let extension = extension_of(name).unwrap_or_default();
    if let Some((_, mime)) = DOCUMENTS.iter().find(|(known, _)| *known == extension) {
        return mime;
    }
    match extension.as_str() {
        ".jpg" | ".jpeg" => "image/jpeg",
        ".png" => "image/png",
        ".gif" => "image/gif",
        ".webp" => "image/webp",
        ".ogg" | ".opus" => "audio/ogg",
        ".mp3" => "audio/mpeg",
        ".aac" => "audio/aac",
        ".wav" => "audio/wav",
        ".m4a" => "audio/mp4",
        ".mp4" => "video/mp4",
        ".mov" => "video/quicktime",
        ".webm" => "video/webm",
        ".json" => "application/json",
        ".csv" => "text/csv",
        ".html" => "text/html",
        ".zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_by_name_type_and_size() {
        let take = |extension: &str| FileDecision::Accept(AttachmentKind::Document, extension.to_owned());
        assert_eq!(classify_document(Some("Report.PDF"), None, Some(10)), take(".pdf"));
        assert_eq!(classify_document(None, Some("text/plain; charset=utf-8"), Some(10)), take(".txt"));
        for (name, mime, size) in [
            (Some("a.exe"), None, Some(1)),
            (Some("a.pdf"), None, None),
            (Some("a.pdf"), None, Some(LARGEST_DOCUMENT + 1)),
        ] {
            assert!(
                matches!(classify_document(name, mime, size), FileDecision::Reject(_)),
                "{name:?} {size:?}"
            );
        }
        assert_eq!(extension_of(".env"), None);
        assert_eq!(extension_of("a.b/c"), None);
    }
}
