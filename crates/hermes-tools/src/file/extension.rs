//! File types by file name extension.

use std::path::Path;

// Ambiguous extensions (`dat`, `obj`, `svg` …) are not listed; the content decides.
const BINARY: &[&str] = &[
    "3ds", "7z", "a", "aac", "ai", "aiff", "avi", "bin", "blend", "bmp", "bz2", "class", "db", "deb", "dll",
    "dmg", "doc", "docx", "dylib", "ear", "eot", "eps", "exe", "fig", "fla", "flac", "flv", "gif", "gz",
    "ico", "iso", "jar", "jpeg", "jpg", "lockb", "m4a", "m4v", "mdb", "mkv", "mov", "mp3", "mp4", "mpeg",
    "mpg", "msi", "node", "o", "odp", "ods", "odt", "ogg", "opus", "otf", "pdf", "png", "ppt", "pptx", "psd",
    "pyc", "pyo", "rar", "rlib", "rpm", "sketch", "so", "sqlite", "sqlite3", "swf", "tar", "tgz", "tif",
    "tiff", "ttf", "war", "wasm", "wav", "webm", "webp", "wma", "wmv", "woff", "woff2", "xd", "xls", "xlsx",
    "xz", "z", "zip",
];

const IMAGES: &[&str] = &["png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "tif", "tiff"];

/// Returns the extension in lower case without its dot, or an empty text if there is none.
pub(crate) fn extension(path: &Path) -> String {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase()
}

pub(crate) fn is_binary(extension: &str) -> bool {
    BINARY.binary_search(&extension).is_ok()
}

pub(crate) fn is_image(extension: &str) -> bool {
    IMAGES.contains(&extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(BINARY.is_sorted());
    }
}
