//! Rate limits: one bucket per route and resource, reported in the response headers.

use std::collections::HashMap;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct FakeRateLimits {
    pub(super) most: u32,
    pub(super) per: Duration,
    used: HashMap<String, (u32, Duration)>,
    /// The number of calls made although their bucket was empty.
    pub(super) overruns: usize,
}

impl Default for FakeRateLimits {
    fn default() -> Self {
        Self { most: 10_000, per: Duration::from_secs(1), used: HashMap::new(), overruns: 0 }
    }
}

/// The state of the bucket for one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateAllowance {
    pub(super) limit: u32,
    pub(super) remaining: u32,
    pub(super) reset_after: Duration,
    pub(super) allowed: bool,
}

impl FakeRateLimits {
    pub(super) fn take(&mut self, bucket: &str, now: Duration) -> RateAllowance {
        let (most, per) = (self.most, self.per);
        let (used, until) = self.used.entry(bucket.to_owned()).or_insert((0, now + per));
        if *until <= now {
            (*used, *until) = (0, now + per);
        }
        let allowed = *used < most;
        if allowed {
            *used += 1;
        } else {
            self.overruns += 1;
        }
        RateAllowance {
            limit: most,
            remaining: most - *used,
            reset_after: until.saturating_sub(now),
            allowed,
        }
    }
}

/// Returns the bucket of a call: the route, and the resource it concerns.
pub(super) fn bucket_of(method: &str, segments: &[&str]) -> String {
    let mut parts = vec![method.to_owned()];
    for (at, segment) in segments.iter().enumerate() {
        let major = at == 1
            && matches!(segments.first(), Some(&("channels" | "guilds" | "webhooks" | "interactions")));
        let id = segment.bytes().all(|byte| byte.is_ascii_digit());
        parts.push(if id && !major { "id".to_owned() } else { (*segment).to_owned() });
    }
    parts.join("/")
}
