//! One key of a pool, as `auth.json` describes it.

use std::time::Duration;

use hermes_config::is_usable_key;
use hermes_types::{Secret, Timestamp};
use serde_json::Value;

use super::super::{time, token};
use crate::wire::BaseUrl;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum KeyCooldown {
    None,
    Until(Timestamp),
    Dead,
}

#[derive(Debug, Clone)]
pub(super) struct PooledKey {
    /// The entry's id; absent for a key that is not stored.
    pub(super) id: Option<String>,
    pub(super) key: Secret,
    pub(super) host: Option<String>,
    pub(super) priority: i64,
    pub(super) use_count: u64,
    pub(super) cooldown: KeyCooldown,
    pub(super) expires_at: Option<Timestamp>,
    /// Tells whether the key can be exchanged for a new one.
    pub(super) renewal: RenewalSupport,
}

/// Tells whether a key can be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RenewalSupport {
    Possible,
    Impossible,
}

pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const REFUSAL_COOLDOWN: Duration = Duration::from_mins(5);

impl PooledKey {
    pub(super) fn read(entry: &Value) -> Option<Self> {
        let text =
            |name: &str| entry.get(name).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty());
        let at = |name: &str| entry.get(name).and_then(time::read);
        // Inference requires the key that a sign-in obtained, not the sign-in's own token.
        let bought = text("agent_key").filter(|key| is_usable_key(key));
        let key = bought.or_else(|| text("access_token").filter(|key| is_usable_key(key)))?;
        let until = at(if bought.is_some() { "agent_key_expires_at" } else { "expires_at" });
        let refused = entry.get("last_error_code").and_then(Value::as_u64) == Some(401);
        let rest = match text("last_status") {
            Some("dead") => KeyCooldown::Dead,
            Some("exhausted") => {
                let cool = if refused { REFUSAL_COOLDOWN } else { HOUR };
                let since = at("last_status_at").map(|since| since.plus(cool));
                at("last_error_reset_at").or(since).map_or(KeyCooldown::None, KeyCooldown::Until)
            }
            _ => KeyCooldown::None,
        };
        Some(Self {
            id: text("id").map(str::to_owned),
            key: Secret::new(key),
            host: text("base_url").map(|url| BaseUrl::parse(url).host().to_owned()),
            priority: entry.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            use_count: entry.get("request_count").and_then(Value::as_u64).unwrap_or_default(),
            cooldown: rest,
            expires_at: until.or_else(|| token::expiry(key)),
            renewal: if text("refresh_token").is_some() {
                RenewalSupport::Possible
            } else {
                RenewalSupport::Impossible
            },
        })
    }

    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        let rested = match self.cooldown {
            KeyCooldown::None => true,
            KeyCooldown::Until(at) => at.seconds() <= now.seconds(),
            KeyCooldown::Dead => false,
        };
        rested && (self.renewal == RenewalSupport::Possible || self.is_valid_at(now))
    }

    /// Tells whether the key itself is still valid.
    pub(super) fn is_valid_at(&self, at: Timestamp) -> bool {
        self.expires_at.is_none_or(|until| until.seconds() > at.seconds())
    }

    /// Creates a key from another source, which is not stored.
    pub(super) fn unstored(key: Secret) -> Self {
        Self {
            id: None,
            key,
            host: None,
            priority: 0,
            use_count: 0,
            cooldown: KeyCooldown::None,
            expires_at: None,
            renewal: RenewalSupport::Impossible,
        }
    }
}
