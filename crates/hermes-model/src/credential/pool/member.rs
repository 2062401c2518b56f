//! One key of a pool, as `auth.json` describes it.

use std::time::Duration;

use hermes_config::is_usable_key;
use hermes_types::{Secret, Timestamp};
use serde_json::Value;

use super::super::{time, token};
use crate::wire::Base;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rest {
    None,
    Until(Timestamp),
    Dead,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    /// Absent for a key that is not stored.
    pub(super) id: Option<String>,
    pub(super) key: Secret,
    pub(super) host: Option<String>,
    pub(super) priority: i64,
    pub(super) used: u64,
    pub(super) rest: Rest,
    pub(super) until: Option<Timestamp>,
    /// Whether it can be exchanged for a new one.
    pub(super) renewal: Renewal,
}

/// Whether a key has a way to its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    Possible,
    Impossible,
}

pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const AFTER_REFUSAL: Duration = Duration::from_mins(5);

impl Member {
    pub(super) fn read(entry: &Value) -> Option<Self> {
        let text =
            |name: &str| entry.get(name).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty());
        let at = |name: &str| entry.get(name).and_then(time::read);
        // A key that a sign-in bought is what inference wants to see, not the sign-in's own token.
        let bought = text("agent_key").filter(|key| is_usable_key(key));
        let key = bought.or_else(|| text("access_token").filter(|key| is_usable_key(key)))?;
        let until = at(if bought.is_some() { "agent_key_expires_at" } else { "expires_at" });
        let refused = entry.get("last_error_code").and_then(Value::as_u64) == Some(401);
        let rest = match text("last_status") {
            Some("dead") => Rest::Dead,
            Some("exhausted") => {
                let cool = if refused { AFTER_REFUSAL } else { HOUR };
                let since = at("last_status_at").map(|since| since.plus(cool));
                at("last_error_reset_at").or(since).map_or(Rest::None, Rest::Until)
            }
            _ => Rest::None,
        };
        Some(Self {
            id: text("id").map(str::to_owned),
            key: Secret::new(key),
            host: text("base_url").map(|url| Base::parse(url).host().to_owned()),
            priority: entry.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            used: entry.get("request_count").and_then(Value::as_u64).unwrap_or_default(),
            rest,
            until: until.or_else(|| token::expiry(key)),
            renewal: if text("refresh_token").is_some() { Renewal::Possible } else { Renewal::Impossible },
        })
    }

    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        let rested = match self.rest {
            Rest::None => true,
            Rest::Until(at) => at.seconds() <= now.seconds(),
            Rest::Dead => false,
        };
        rested && (self.renewal == Renewal::Possible || self.lasts(now))
    }

    /// Whether the key itself is still good.
    pub(super) fn lasts(&self, at: Timestamp) -> bool {
        self.until.is_none_or(|until| until.seconds() > at.seconds())
    }

    /// A key from elsewhere that takes part too.
    pub(super) fn besides(key: Secret) -> Self {
        Self {
            id: None,
            key,
            host: None,
            priority: 0,
            used: 0,
            rest: Rest::None,
            until: None,
            renewal: Renewal::Impossible,
        }
    }
}
