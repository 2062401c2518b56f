//! Documents made to break or slow down a reader.

use hermes_extract::{DocumentKind, ExtractError, extract};
use proptest::prelude::*;

const URL: &str = "https://example.com/";

fn page(markup: &str) -> String {
    extract(markup.as_bytes(), Some("text/html"), URL).map(|document| document.text).unwrap_or_default()
}

#[test]
fn a_page_of_five_megabytes_is_read_to_its_end() {
    let line =
        "<p>The harbour master keeps two ledgers and trusts neither of them, whatever the gauge says.</p>\n";
    let markup = format!(
        "<html><body><article>{}<p>the last words</p></article>",
        line.repeat(5_000_000 / line.len())
    );
    let text = page(&markup);
    assert!(text.len() > 4_000_000 && text.ends_with("the last words"), "{} bytes", text.len());
}

#[test]
fn deep_nesting_is_read_without_recursion() {
    for open in [
        "<div>",
        "<span>",
        "<ul><li>",
        "<blockquote>",
        "<b>",
        "<font size=1>",
        "<table><tr><td>",
        "<a href=x>",
    ] {
        let text = page(&format!("<body>{}the middle{}", open.repeat(100_000), "</div>".repeat(1000)));
        assert!(text.contains("the middle"), "{open}");
    }
}

#[test]
fn nesting_up_to_the_limit_is_converted_on_a_small_stack() {
    for open in ["<div>", "<blockquote>", "<em>", "<ul><li>"] {
        let markup = format!("<body>{}the middle", open.repeat(390 / open.matches('<').count()));
        let text =
            std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || page(&markup)).unwrap();
        assert!(text.join().unwrap().contains("the middle"), "{open}");
    }
}

#[test]
fn formatting_that_multiplies_is_not_multiplied() {
    let fonts: Vec<String> = (0..300).map(|n| format!("<font color={n}>")).collect();
    let fonts = fonts.concat();
    let markup = format!("<body>{fonts}{}", "<p>x".repeat(200_000));
    assert!(page(&markup).len() < 2_000_000);
}

#[test]
fn what_has_no_text_is_said() {
    let refused = |bytes: &[u8], mime: Option<&str>| extract(bytes, mime, URL).unwrap_err();
    assert_eq!(
        refused(b"\x89PNG\r\n\x1a\nxxxx", Some("text/html")),
        ExtractError::NotText("a picture (PNG)".to_owned())
    );
    assert_eq!(
        refused(b"\0\x01\x02\x03", Some("application/octet-stream")),
        ExtractError::NotText("binary data (application/octet-stream)".to_owned())
    );
    assert_eq!(refused(b"", Some("text/html")), ExtractError::Empty);
    assert_eq!(refused(b"   \n", None), ExtractError::Empty);
    assert!(matches!(refused(b"x", Some("video/mp4")), ExtractError::NotText(_)));
    let read = extract(b"<?xml version='1.0'?><a><b>words</b></a>", Some("application/xml"), URL).unwrap();
    assert_eq!(read.kind, DocumentKind::Text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), kind in 0..6usize) {
        let mime = [None, Some("text/html"), Some("application/pdf"), Some("application/rss+xml"),
            Some("application/json"), Some("text/plain; charset=utf-16")][kind];
        drop(extract(&bytes, mime, URL));
    }

    #[test]
    fn no_markup_makes_it_panic(pieces in proptest::collection::vec(0..MARKUP.len(), 0..120)) {
        let markup: String = pieces.iter().map(|at| MARKUP[*at]).collect();
        drop(extract(markup.as_bytes(), Some("text/html"), URL));
        drop(extract(markup.as_bytes(), Some("application/atom+xml"), URL));
    }
}

const MARKUP: [&str; 32] = [
    "<p>",
    "</p>",
    "<div>",
    "</div>",
    "<b>",
    "</b>",
    "<table>",
    "<tr>",
    "<td>",
    "</table>",
    "<ul>",
    "<li>",
    "</ul>",
    "<pre>",
    "<code>",
    "</pre>",
    "<a href='/x'>",
    "</a>",
    "<!--",
    "-->",
    "words and more words, ",
    "&amp;",
    "&#0;",
    "é\u{202e}",
    "<svg><title>",
    "<select><option>",
    "<template>",
    "</template>",
    "<entry>",
    "<title>",
    "<![CDATA[",
    "]]>",
];
