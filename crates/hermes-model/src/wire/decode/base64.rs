//! Base64, in which AWS wraps the events of another wire.

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};

/// Decodes either alphabet; padding may be missing, any other character gives `None`.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    BASE64_NOPAD.decode(digits).or_else(|_| BASE64URL_NOPAD.decode(digits)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes() {
        let check =
            |text: &str, expected: Option<&[u8]>| assert_eq!(decode(text).as_deref(), expected, "{text}");
        check("", Some(b""));
        check("aGk=", Some(b"hi"));
        check("aGk", Some(b"hi"));
        check("eyJhIjoxfQ==", Some(br#"{"a":1}"#));
        check("/+8=", Some(b"\xff\xef"));
        check("a", None);
        check("a b", None);
    }
}
