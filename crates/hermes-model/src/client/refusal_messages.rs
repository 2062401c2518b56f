//! Messages for users about a request that failed permanently: who refused, what exactly, and what to do.

use hermes_types::Cancel;

use super::background_discovery::BackgroundDiscovery;
use super::endpoint::{Endpoint, PresentedCredential};
use crate::wire::ProviderFailure;

/// The limit of model names in a message.
const MAX_NAMES: usize = 6;

/// Returns a more helpful message for a refusal than the provider's own, where there is one.
pub(super) async fn explain(
    failure: &ProviderFailure,
    endpoint: &Endpoint,
    presented: &PresentedCredential,
    learning: Option<&BackgroundDiscovery>,
    cancel: &Cancel,
) -> Option<String> {
    let base = &endpoint.wire.base;
    let host = base.host();
    if failure.is_page() {
        return Some(format!(
            "{} answered with a web page ({}). Is model.base_url right, or is a Wi-Fi login in between?",
            base.as_str(),
            failure.summary()
        ));
    }
    match failure.status()? {
        401 | 403 => {
            let key = masked_key(presented)?;
            let origin = endpoint.key_origin.as_deref().unwrap_or("the key");
            let remedy = match endpoint.key_origin.as_deref() {
                Some(name) if is_variable(name) => format!(" Set a new one: hermes config set {name} KEY"),
                _ => String::new(),
            };
            Some(format!("{host} rejected {origin} ({key}).{remedy} ({})", failure.summary()))
        }
        300..=399 => Some(format!(
            "{} redirects elsewhere ({}). Set model.base_url to the address it leads to.",
            base.as_str(),
            failure.summary()
        )),
        404 => {
            let served = learning?.lookup.served_models(endpoint, cancel).await;
            if served.is_empty() || served.contains(&endpoint.model) {
                return None;
            }
            let names: Vec<&str> = served.iter().take(MAX_NAMES).map(String::as_str).collect();
            let more = if served.len() > MAX_NAMES { ", …" } else { "" };
            Some(format!("{host} has no model \"{}\"; it has {}{more}", endpoint.model, names.join(", ")))
        }
        _ => None,
    }
}

/// Returns enough of a key to recognise it.
fn masked_key(presented: &PresentedCredential) -> Option<String> {
    let (PresentedCredential::Bearer(key) | PresentedCredential::ApiKeyHeader(key)) = presented else {
        return None;
    };
    let chars: Vec<char> = key.expose().chars().collect();
    if chars.len() < 16 {
        return Some("***".to_owned());
    }
    let first: String = chars.iter().take(4).collect();
    let last: String = chars.iter().skip(chars.len() - 4).collect();
    Some(format!("{first}…{last}"))
}

fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
