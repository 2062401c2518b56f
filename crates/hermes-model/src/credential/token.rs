//! The claims inside a token.

use hermes_types::Timestamp;
use serde_json::Value;

/// Returns the expiry of a JSON web token, or `None` for a token of another kind. The signature is not checked: the
/// issuer does that.
pub(super) fn expiry(token: &str) -> Option<Timestamp> {
    let mut parts = token.split('.');
    let payload = parts.nth(1)?;
    parts.next()?;
    let claims: Value = serde_json::from_slice(&decode(payload)?).ok()?;
    claims.get("exp")?.as_f64().map(Timestamp)
}

/// Decodes URL-safe base64, with or without padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        held = (held << 6 | u32::from(value)) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_of_web_tokens() {
        // {"exp":1767323045,"x":"äöü"}
        let token = "eyJhbGciOiJub25lIn0.eyJleHAiOjE3NjczMjMwNDUsIngiOiLDpMO2w7wifQ.sig";
        assert_eq!(expiry(token), Some(Timestamp(1_767_323_045.0)));
        for other in ["", "sk-ant-api03-x", "a.b", "a.!!.c", "a.e30.c"] {
            assert_eq!(expiry(other), None, "{other}");
        }
    }
}
