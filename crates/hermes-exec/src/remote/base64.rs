//! Base64 as the `base64` program reads and writes it.

use data_encoding::{BASE64, BASE64_NOPAD};

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Decodes the text, padded or not; returns `None` if it is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_NOPAD.decode(text.trim_end_matches('=').as_bytes()).ok()
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
