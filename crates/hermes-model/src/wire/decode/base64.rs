//! Base64, in which AWS wraps the events of another wire.

/// Decodes the standard alphabet; padding may be missing, any other character gives `None`.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(((bits >> count) & 0xff) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // A single remaining digit cannot encode a byte.
    (count < 6).then_some(out)
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
