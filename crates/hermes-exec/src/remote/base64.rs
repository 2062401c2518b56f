//! Base64 as the `base64` program reads and writes it.

const DIGITS: [u8; 64] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let value = group
            .iter()
            .enumerate()
            .fold(0_u32, |value, (at, byte)| value | (u32::from(*byte) << (16 - 8 * at)));
        for at in 0..4 {
            let digit = DIGITS.get((value >> (18 - 6 * at) & 63) as usize).copied().unwrap_or(b'=');
            text.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Decodes the text; returns `None` if it is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let digits: Vec<u32> = text
        .trim_end_matches('=')
        .bytes()
        .map(|c| match c {
            b'A'..=b'Z' => Some(u32::from(c - b'A')),
            b'a'..=b'z' => Some(u32::from(c - b'a') + 26),
            b'0'..=b'9' => Some(u32::from(c - b'0') + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        })
        .collect::<Option<_>>()?;
    for group in digits.chunks(4) {
        let value = group.iter().enumerate().fold(0, |value, (at, digit)| value | (digit << (18 - 6 * at)));
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        bytes.extend(value.to_be_bytes().into_iter().skip(1).take(count));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_what_the_program_writes_and_nonsense_is_not() {
        for (text, bytes) in
            [("", &b""[..]), ("YQ==", b"a"), ("YWI=", b"ab"), ("YWJj", b"abc"), ("AP/+", &[0, 255, 254])]
        {
            assert_eq!(decode(text).as_deref(), Some(bytes));
            assert_eq!(encode(bytes), text);
        }
        for text in ["Y", "YW\nJj", "... [OUTPUT"] {
            assert!(decode(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
