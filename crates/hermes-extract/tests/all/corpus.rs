//! Documents of many kinds, compared with the text a reader should get.
//!
//! Each document of `tests/corpus` has its text beside it in `NAME.expected`; the first line is the title. With
//! `UPDATE_CORPUS` set, the files are written instead of compared.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_extract::extract;

fn content_type(name: &str) -> Option<&'static str> {
    match name {
        // The server says one thing, the bytes are another.
        "charset-utf8-called-latin1.html" => Some("text/html; charset=ISO-8859-1"),
        "charset-latin1-undeclared.html" => Some("text/html; charset=utf-8"),
        "feed-broken.xml" => Some("application/xml"),
        "feed-rss.xml" => Some("text/html"),
        "readme.md" => Some("text/markdown; charset=utf-8"),
        name => match Path::new(name).extension()?.to_str()? {
            "html" => Some("text/html"),
            "txt" => Some("text/plain"),
            "json" => None,
            _ => Some("application/rss+xml"),
        },
    }
}

fn documents() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "expected"))
        .collect();
    found.sort();
    found
}

fn text_of(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(path).unwrap();
    match extract(&bytes, content_type(name), "https://example.com/folder/page.html") {
        Ok(document) => format!("{}\n\n{}\n", document.title, document.text),
        Err(error) => format!("! {error}\n"),
    }
}

#[test]
fn every_document_of_the_corpus_has_its_text() {
    let documents = documents();
    assert!(documents.len() >= 60, "{} documents", documents.len());
    let mut different = Vec::new();
    for path in documents {
        let text = text_of(&path);
        let expected = PathBuf::from(format!("{}.expected", path.display()));
        #[expect(clippy::disallowed_methods, reason = "a switch of this test")]
        let updates = std::env::var_os("UPDATE_CORPUS").is_some();
        if updates {
            fs::write(&expected, &text).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != text {
            different.push(format!("{}:\n{text}", path.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n====\n"));
}

#[test]
fn what_nobody_sees_is_not_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/article-hidden.html");
    let text = text_of(&path);
    assert!(text.contains("harbour master") && text.contains("dredger"), "{text}");
    for hidden in ["Ignore all previous", "Secret one", "Secret two", "Secret three", "Secret four"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}
