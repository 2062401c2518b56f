//! The user's settings for Home Assistant.

use std::time::Duration;

use hermes_net::Url;
use hermes_types::Secret;
use serde_json::Value;

use crate::options::Options;
use crate::rest::base_url;

const DEFAULT_URL: &str = "http://homeassistant.local:8123";
const DEFAULT_COOLDOWN: f64 = 30.0;
pub(super) const REVOKED: &str =
    "Home Assistant does not take HASS_TOKEN; create a new long-lived access token";

#[derive(Debug, Clone)]
pub(super) struct HomeAssistantSettings {
    /// The address, with a trailing slash.
    pub(super) base: Url,
    pub(super) token: Secret,
    pub(super) watch_domains: Vec<String>,
    pub(super) watch_entities: Vec<String>,
    pub(super) ignore_entities: Vec<String>,
    pub(super) watch_all: bool,
    /// The time after an event during which others of the same entity are dropped.
    pub(super) cooldown: Duration,
}

impl HomeAssistantSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let given =
            options.extra_text("base_url").or_else(|| options.text("HASS_URL")).unwrap_or(DEFAULT_URL);
        let names = |key: &str| match options.extra(key) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(text)) => text.split(',').map(|part| part.trim().to_owned()).collect(),
            _ => Vec::new(),
        };
        let cooldown = options.extra("cooldown_seconds").and_then(Value::as_f64).unwrap_or(DEFAULT_COOLDOWN);
        Ok(Self {
            base: base_url(given, "HASS_URL")?,
            token: options.secret("HASS_TOKEN").ok_or("HASS_TOKEN is not set")?,
            watch_domains: names("watch_domains"),
            watch_entities: names("watch_entities"),
            ignore_entities: names("ignore_entities"),
            watch_all: options.extra("watch_all").and_then(Value::as_bool).unwrap_or_default(),
            cooldown: Duration::try_from_secs_f64(cooldown).unwrap_or_default(),
        })
    }

    /// Tells whether the user selected anything.
    pub(super) fn watches_something(&self) -> bool {
        self.watch_all || !self.watch_domains.is_empty() || !self.watch_entities.is_empty()
    }

    /// Returns the address of the WebSocket.
    pub(super) fn socket(&self) -> Option<Url> {
        let mut url = self.base.join("api/websocket").ok()?;
        url.set_scheme(if url.scheme() == "https" { "wss" } else { "ws" }).ok()?;
        Some(url)
    }
}
