//! The AWS signature, version 4, for one JSON request.

use hermes_net::Url;
use hermes_types::{Secret, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::endpoint::AwsKeys;

const SERVICE: &str = "bedrock";

/// The headers that sign a POST of `body` to `url`.
pub(super) fn sign(keys: &AwsKeys, url: &Url, body: &[u8], now: Timestamp) -> Vec<(String, Secret)> {
    let (date, time) = stamp(now);
    let moment = format!("{date}T{time}Z");
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let mut signed = vec![("host", host), ("x-amz-date", moment.clone())];
    if let Some(token) = &keys.session_token {
        signed.push(("x-amz-security-token", token.expose().to_owned()));
    }
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines: String =
        signed.iter().fold(String::new(), |text, (name, value)| text + name + ":" + value.trim() + "\n");
    // The path is signed as it is sent, each segment escaped once more, as every service but S3 wants it.
    let path = escape_path(url.path());
    let canonical = format!("POST\n{path}\n\n{lines}\n{names}\n{}", hex(&Sha256::digest(body)));
    let scope = format!("{date}/{}/{SERVICE}/aws4_request", keys.region);
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{}", keys.secret_key.expose()).into_bytes();
    for part in [date.as_str(), keys.region.as_str(), SERVICE, "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    let signature = hex(&mac(&key, to_sign.as_bytes()));
    let credential = format!("{}/{scope}", keys.access_key);
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}");
    let mut headers = vec![
        ("x-amz-date".to_owned(), Secret::new(moment)),
        ("authorization".to_owned(), Secret::new(authorization)),
    ];
    if let Some(token) = &keys.session_token {
        headers.push(("x-amz-security-token".to_owned(), token.clone()));
    }
    headers
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // A key of any length is allowed, so this never fails; the empty result would only be refused by AWS.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn escape_path(path: &str) -> String {
    path.replace('%', "%25").replace(':', "%3A")
}

/// `YYYYMMDD` and `HHMMSS` in UTC.
pub(super) fn stamp(now: Timestamp) -> (String, String) {
    #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970")]
    let seconds = now.seconds().max(0.0) as i64;
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    (
        format!("{year:04}{month:02}{day:02}"),
        format!("{:02}{:02}{:02}", rest / 3600, rest / 60 % 60, rest % 60),
    )
}

/// The date of a day number since 1970, by the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(stamp(Timestamp(0.0)), ("19700101".into(), "000000".into()));
        assert_eq!(stamp(Timestamp(951_782_399.0)), ("20000228".into(), "235959".into()));
        assert_eq!(stamp(Timestamp(951_782_400.0)), ("20000229".into(), "000000".into()));
        assert_eq!(stamp(Timestamp(1_772_702_107.0)), ("20260305".into(), "091507".into()));
    }

    /// The key derivation of the public signing example (20150830, us-east-1, iam), restated.
    #[test]
    fn the_signing_key_is_derived_as_documented() {
        let mut key = b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_vec();
        for part in ["20150830", "us-east-1", "iam", "aws4_request"] {
            key = mac(&key, part.as_bytes());
        }
        assert_eq!(hex(&key), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    }

    #[test]
    fn what_is_signed_is_named_and_the_secret_is_not_shown() {
        let keys = AwsKeys {
            access_key: "AKIDEXAMPLE".into(),
            secret_key: Secret::new("hidden"),
            session_token: Some(Secret::new("session")),
            region: "us-east-1".into(),
        };
        let url = Url::parse("https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/converse").unwrap();
        let headers = sign(&keys, &url, b"{}", Timestamp(1_440_938_160.0));
        let authorization =
            headers.iter().find(|(name, _)| name == "authorization").unwrap().1.expose().to_owned();
        assert!(
            authorization.contains("Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request"),
            "{authorization}"
        );
        assert!(
            authorization.contains("SignedHeaders=host;x-amz-date;x-amz-security-token"),
            "{authorization}"
        );
        assert!(!format!("{headers:?}").contains("hidden") && !format!("{keys:?}").contains("hidden"));
    }
}
