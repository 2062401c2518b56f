//! The AWS signature, version 4, for one JSON request.

use data_encoding::HEXLOWER;
use hermes_net::Url;
use hermes_types::{CivilTime, Secret, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::endpoint::AwsKeys;

const SERVICE: &str = "bedrock";

/// Returns the headers that sign a POST of `body` to `url`.
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
    // The signed path is the sent path with each segment escaped once more, as every service but S3 requires.
    let path = escape_path(url.path());
    let canonical = format!("POST\n{path}\n\n{lines}\n{names}\n{}", HEXLOWER.encode(&Sha256::digest(body)));
    let scope = format!("{date}/{}/{SERVICE}/aws4_request", keys.region);
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}",
        HEXLOWER.encode(&Sha256::digest(canonical.as_bytes()))
    );
    let mut key = format!("AWS4{}", keys.secret_key.expose()).into_bytes();
    for part in [date.as_str(), keys.region.as_str(), SERVICE, "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    let signature = HEXLOWER.encode(&mac(&key, to_sign.as_bytes()));
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
    // HMAC accepts a key of any length, so this never fails; AWS would refuse a request with the empty result.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn escape_path(path: &str) -> String {
    path.replace('%', "%25").replace(':', "%3A")
}

/// Returns `YYYYMMDD` and `HHMMSS` in UTC.
pub(super) fn stamp(now: Timestamp) -> (String, String) {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::utc(now);
    (format!("{year:04}{month:02}{day:02}"), format!("{hour:02}{minute:02}{second:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats the key derivation of the public signing example (20150830, us-east-1, iam).
    #[test]
    fn the_signing_key_is_derived_as_documented() {
        let mut key = b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_vec();
        for part in ["20150830", "us-east-1", "iam", "aws4_request"] {
            key = mac(&key, part.as_bytes());
        }
        assert_eq!(HEXLOWER.encode(&key), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
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
