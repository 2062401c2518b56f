//! Names of files and folders derived from names that users and models choose.

/// Returns a name that is one plain path component and contains no separator of any argument it is used in. A
/// name that had to be changed gets a hash, so that different names stay different.
pub(crate) fn safe_name(text: &str) -> String {
    const LONGEST: usize = 80;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let kept: String = text.chars().map(|c| if plain(c) { c } else { '_' }).take(LONGEST).collect();
    if kept == text && !kept.is_empty() && !kept.starts_with('.') && !kept.starts_with('-') {
        return kept;
    }
    format!("t_{kept}-{:016x}", fnv(text))
}

/// Returns a hash of the text that is the same in every release and on every machine (FNV-1a).
pub(crate) fn fnv(text: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_and_others_become_plain_and_different() {
        assert_eq!(safe_name("default"), "default");
        assert_eq!(safe_name("20260101_ab-1.x"), "20260101_ab-1.x");
        for text in ["", ".", "..", "a/b", "a:b", "../x", "-v", "ü"] {
            let name = safe_name(text);
            assert!(name.starts_with("t_") && !name.contains(['/', ':']), "{name}");
        }
        assert_ne!(safe_name("a/b"), safe_name("a:b"));
    }
}
