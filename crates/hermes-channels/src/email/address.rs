//! Addresses and message ids: what counts as one. Pure.

/// The longest address and the longest message id that are used.
const LONGEST_ADDRESS: usize = 254;
const LONGEST_ID: usize = 250;

/// Returns an address in lower case, or `None` if it is not one that can stand in a command and in a header as it is.
pub(super) fn normal_address(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    let (local, domain) = text.rsplit_once('@')?;
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"<>()[]\\,;:\"@".contains(c);
    let is_domain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
    let fits = !local.is_empty()
        && !domain.is_empty()
        && text.len() <= LONGEST_ADDRESS
        && local.chars().all(is_plain)
        && domain.chars().all(is_domain)
        && !domain.starts_with(['.', '-']);
    fits.then(|| text.to_lowercase())
}

/// Returns what follows the `@`.
pub(super) fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

/// Returns a message id without its brackets, if it can stand in a header as it is.
pub(super) fn message_id(text: &str) -> Option<&str> {
    let text = text.trim();
    let text = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>');
    (!text.is_empty() && text.len() <= LONGEST_ID && text.chars().all(is_plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_can_be_sent_to() {
        for (text, expected) in [
            ("Ann@Example.ORG", Some("ann@example.org")),
            (" <ann+x@example.org> ", Some("ann+x@example.org")),
            ("jürgen@example.org", Some("jürgen@example.org")),
            ("ann", None),
            ("ann@", None),
            ("@example.org", None),
            ("a b@example.org", None),
            ("ann@example.org>\r\nRCPT TO:<x@y.z", None),
            ("ann@evil.org,bob@example.org", None),
            ("\"a\"@example.org", None),
        ] {
            assert_eq!(normal_address(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ids_cannot_carry_other_headers() {
        assert_eq!(message_id("<a.b@c>"), Some("a.b@c"));
        assert_eq!(message_id("a@c>\r\nBcc: x"), None);
        assert_eq!(message_id("  "), None);
        assert_eq!(message_id(&"x".repeat(300)), None);
    }
}
