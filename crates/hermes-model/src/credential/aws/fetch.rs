//! Requests to the services that grant keys, and parsing the keys in their responses.

use std::time::Duration;

use hermes_net::{Config, HttpClient, HttpRequest, ProxyMode};
use hermes_types::{Cancel, Deadline, Secret};
use serde_json::Value;

use super::super::{CredentialContext, time};
use super::TemporaryKeys;

const LIMIT: usize = 256 * 1024;

/// Returns a client without a proxy: metadata addresses of machines and containers are valid only locally.
pub(super) fn direct_client(means: &CredentialContext) -> Option<HttpClient> {
    HttpClient::new(Config { proxies: ProxyMode::Direct, ..Config::new(means.clock.clone()) }).ok()
}

/// Returns the body of a successful response. The error omits the body, which may contain keys.
pub(super) async fn fetch(
    means: &CredentialContext,
    client: &HttpClient,
    request: HttpRequest,
    patience: Duration,
    cancel: &Cancel,
) -> Result<Vec<u8>, String> {
    let request = request.response_timeout(patience).stall_timeout(patience).body_limit(LIMIT);
    let deadline = Deadline::after(&*means.clock, patience);
    let response = client.send(request, deadline, cancel).await.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(format!("it answered with HTTP {}", response.status().as_u16()));
    }
    let body = response.bytes(LIMIT).await.map_err(|error| error.to_string())?;
    Ok(body.to_vec())
}

/// Parses keys from the JSON of AWS services and programs, which spell the field names differently.
pub(super) fn read_keys(body: &[u8]) -> Option<TemporaryKeys> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let fields = value.get("roleCredentials").or_else(|| value.get("Credentials")).unwrap_or(&value);
    let found =
        |names: &[&str]| names.iter().find_map(|name| fields.get(name)).filter(|value| !value.is_null());
    let text = |names: &[&str]| found(names)?.as_str().map(str::to_owned).filter(|text| !text.is_empty());
    Some(TemporaryKeys {
        access_key: text(&["AccessKeyId", "accessKeyId"])?,
        secret_key: Secret::new(text(&["SecretAccessKey", "secretAccessKey"])?),
        session_token: text(&["Token", "SessionToken", "sessionToken"]).map(Secret::new),
        expires_at: found(&["Expiration", "expiration"]).and_then(time::read),
    })
}

/// Parses keys from the XML of the token service.
pub(super) fn read_keys_in_xml(body: &[u8]) -> Option<TemporaryKeys> {
    let body = String::from_utf8_lossy(body);
    let inside = |tag: &str| -> Option<String> {
        let (_, rest) = body.split_once(&format!("<{tag}>"))?;
        let (text, _) = rest.split_once(&format!("</{tag}>"))?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    Some(TemporaryKeys {
        access_key: inside("AccessKeyId")?,
        secret_key: Secret::new(inside("SecretAccessKey")?),
        session_token: inside("SessionToken").map(Secret::new),
        expires_at: inside("Expiration").and_then(|text| time::read(&Value::from(text))),
    })
}
