//! Verifies that an event comes from a sender who knows the secret. Pure; comparisons take constant time.

use std::time::Duration;

use axum::http::HeaderMap;
use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::header;
use super::route::NO_CHECK;

/// The largest difference in seconds between a signed time and now.
const WINDOW: f64 = 300.0;

/// Verifies the signature; the first header that is present decides.
pub(super) fn is_valid_signature(
    headers: &HeaderMap,
    body: &[u8],
    secret: &str,
    now: f64,
    loopback: bool,
) -> bool {
    if secret.is_empty() {
        return false;
    }
    if secret == NO_CHECK {
        return loopback;
    }
    if let Some(given) = header(headers, "svix-signature") {
        return svix(headers, body, secret, given, now);
    }
    if let Some(given) = header(headers, "x-hub-signature-256") {
        return given
            .strip_prefix("sha256=")
            .is_some_and(|hex| constant_time_eq(hex, &HEXLOWER.encode(&mac(secret.as_bytes(), &[body]))));
    }
    if let Some(given) = header(headers, "x-gitlab-token") {
        return constant_time_eq(given, secret);
    }
    if let Some(given) = header(headers, "x-webhook-signature-v2") {
        let Some(time) = header(headers, "x-webhook-timestamp") else { return false };
        return is_recent(time, now)
            && constant_time_eq(
                given,
                &HEXLOWER.encode(&mac(secret.as_bytes(), &[time.as_bytes(), b".", body])),
            );
    }
    header(headers, "x-webhook-signature")
        .is_some_and(|given| constant_time_eq(given, &HEXLOWER.encode(&mac(secret.as_bytes(), &[body]))))
}

/// The replay window of GitHub-style events: they hold times and ids, so the same bytes are the same event.
pub(super) const SIGNED_REPLAY_WINDOW: Duration = Duration::from_hours(24);
/// The replay window of other events, whose content may legitimately repeat later.
const PLAIN_REPLAY_WINDOW: Duration = Duration::from_mins(5);

/// Returns how long the same bytes under another delivery id count as a replay. It is `None` where the signature
/// covers a time, or there is no signature: whoever saw such a request knows the secret.
pub(super) fn replay_window(headers: &HeaderMap) -> Option<Duration> {
    let has = |name: &str| header(headers, name).is_some();
    if has("svix-signature") {
        return None;
    }
    if has("x-hub-signature-256") {
        return Some(SIGNED_REPLAY_WINDOW);
    }
    let plain = !has("x-gitlab-token") && !has("x-webhook-signature-v2") && has("x-webhook-signature");
    plain.then_some(PLAIN_REPLAY_WINDOW)
}

/// Computes the GitHub-style signature for `X-Hub-Signature-256`.
pub fn sign(secret: &str, body: &[u8]) -> String {
    format!("sha256={}", HEXLOWER.encode(&mac(secret.as_bytes(), &[body])))
}

fn svix(headers: &HeaderMap, body: &[u8], secret: &str, given: &str, now: f64) -> bool {
    let (Some(id), Some(time)) = (header(headers, "svix-id"), header(headers, "svix-timestamp")) else {
        return false;
    };
    let key = match secret.strip_prefix("whsec_") {
        Some(encoded) => match BASE64_NOPAD.decode(encoded.trim_end_matches('=').as_bytes()).ok() {
            Some(key) => key,
            None => return false,
        },
        None => secret.as_bytes().to_vec(),
    };
    let expected = BASE64.encode(&mac(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", body]));
    is_recent(time, now)
        && given
            .split(' ')
            .filter_map(|one| one.strip_prefix("v1,"))
            .any(|one| constant_time_eq(one, &expected))
}

fn is_recent(time: &str, now: f64) -> bool {
    time.trim().parse::<f64>().is_ok_and(|time| (time - now).abs() <= WINDOW)
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // HMAC accepts a key of any length, so this cannot fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

fn constant_time_eq(given: &str, expected: &str) -> bool {
    !expected.is_empty() && bool::from(given.as_bytes().ct_eq(expected.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn each_manner_of_signing_is_known_and_forgeries_are_not() {
        let (secret, body, now) = ("s3cret", b"{\"a\":1}".as_slice(), 1_700_000_000.0);
        let hex = HEXLOWER.encode(&mac(secret.as_bytes(), &[body]));
        let check =
            |pairs: &[(&'static str, &str)]| is_valid_signature(&headers(pairs), body, secret, now, false);
        assert!(check(&[("x-hub-signature-256", &format!("sha256={hex}"))]));
        assert!(!check(&[("x-hub-signature-256", &hex)]));
        assert!(!check(&[(
            "x-hub-signature-256",
            &format!("sha256={}0", hex.chars().take(63).collect::<String>())
        )]));
        assert!(check(&[("x-gitlab-token", "s3cret")]));
        assert!(!check(&[("x-gitlab-token", "s3cre")]));
        assert!(check(&[("x-webhook-signature", &hex)]));
        let v2 = HEXLOWER.encode(&mac(secret.as_bytes(), &[b"1700000000", b".", body]));
        assert!(check(&[("x-webhook-signature-v2", &v2), ("x-webhook-timestamp", "1700000000")]));
        assert!(
            !check(&[("x-webhook-signature-v2", &v2), ("x-webhook-timestamp", "1699999000")]),
            "another time"
        );
        assert!(!check(&[
            ("x-webhook-signature-v2", "no"),
            ("x-webhook-timestamp", "1700000000"),
            ("x-webhook-signature", &hex)
        ]));
        assert!(!check(&[]));
        assert!(!is_valid_signature(&headers(&[("x-gitlab-token", "")]), body, "", now, true));
        let old = HEXLOWER.encode(&mac(secret.as_bytes(), &[b"1699999000", b".", body]));
        assert!(
            !check(&[("x-webhook-signature-v2", &old), ("x-webhook-timestamp", "1699999000")]),
            "a replay"
        );
    }

    #[test]
    fn svix_is_as_its_makers_document_it() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let pairs = [
            ("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("svix-timestamp", "1614265330"),
            ("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,other"),
        ];
        assert!(is_valid_signature(&headers(&pairs), body, secret, 1_614_265_330.0, false));
        assert!(!is_valid_signature(&headers(&pairs), body, secret, 1_614_265_931.0, false));
    }

    #[test]
    fn not_checking_is_for_this_machine_only() {
        assert!(is_valid_signature(&HeaderMap::new(), b"", NO_CHECK, 0.0, true));
        assert!(!is_valid_signature(&HeaderMap::new(), b"", NO_CHECK, 0.0, false));
    }
}
