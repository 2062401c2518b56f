//! The encoding of a text: what the bytes show, then what the server and the document say, then a guess.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

/// The number of bytes in which a document names its own encoding.
const DECLARED_WITHIN: usize = 4096;
/// The number of bytes from which an encoding is guessed.
const GUESSED_FROM: usize = 64 * 1024;

/// Decodes a text. Bytes that the encoding does not have become U+FFFD.
pub(crate) fn decode<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(bytes.get(mark..).unwrap_or_default()).0;
    }
    let declared = content_type.and_then(header_charset).or_else(|| document_charset(bytes));
    // These two hide behind ASCII bytes, so that the check for UTF-8 below would pass.
    if let Some(encoding) = declared.filter(|known| [UTF_16LE, UTF_16BE, ISO_2022_JP].contains(known)) {
        return encoding.decode_without_bom_handling(bytes).0;
    }
    // Text in another encoding is hardly ever valid UTF-8, and servers often declare a wrong one.
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    match declared {
        Some(encoding) if encoding != UTF_8 => encoding.decode_without_bom_handling(bytes).0,
        _ if is_damaged_utf8(bytes) => String::from_utf8_lossy(bytes),
        _ => guess(bytes).decode_without_bom_handling(bytes).0,
    }
}

/// Returns the encoding in a content type.
fn header_charset(content_type: &str) -> Option<&'static Encoding> {
    let label = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
    })?;
    Encoding::for_label(label.as_bytes())
}

/// Returns the encoding that a web page or XML document names.
fn document_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = bytes.get(..DECLARED_WITHIN).unwrap_or(bytes);
    let text = String::from_utf8_lossy(start).to_ascii_lowercase();
    let named = |mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        let rest = rest.trim_start().strip_prefix('=')?;
        let rest = rest.trim_start().trim_start_matches(['"', '\'']);
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.+".contains(c))).unwrap_or(rest.len());
        Encoding::for_label(rest.get(..end)?.as_bytes())
    };
    let in_xml = text.starts_with("<?xml").then(|| named("encoding")).flatten();
    let found = in_xml.or_else(|| text.contains("<meta").then(|| named("charset")).flatten())?;
    // A declaration that could be read as ASCII was not written in UTF-16.
    Some(if [UTF_16LE, UTF_16BE].contains(&found) { UTF_8 } else { found })
}

/// Tells whether bytes are UTF-8 with some damage, and not another encoding.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let start = bytes.get(..GUESSED_FROM).unwrap_or(bytes);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(start, start.len() == bytes.len());
    detector.guess(None, Utf8Detection::Deny)
}
