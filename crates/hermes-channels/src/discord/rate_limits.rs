//! Discord's rate limits: one bucket per route and resource, updated from response headers. Pure.

use std::collections::HashMap;
use std::time::Duration;

/// Limits the buckets; beyond it, expired ones are removed, and responses create them again.
const MAX_ENTRIES: usize = 1000;
/// The assumed duration of a bucket until a response names it.
const GUESS: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct RateLimits {
    buckets: HashMap<String, Bucket>,
    everything_until: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    limit: u32,
    remaining: u32,
    reset: Duration,
}

/// The state of a bucket as a response reports it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketState {
    pub(super) limit: u32,
    pub(super) remaining: u32,
    pub(super) reset_after: Duration,
}

impl RateLimits {
    /// Reserves a call in the bucket, or returns how long to wait.
    pub(super) fn reserve(&mut self, route: &str, now: Duration) -> Duration {
        if self.everything_until > now {
            return self.everything_until.saturating_sub(now);
        }
        let Some(bucket) = self.buckets.get_mut(route) else { return Duration::ZERO };
        if bucket.reset <= now {
            (bucket.remaining, bucket.reset) = (bucket.limit, now + GUESS);
        }
        match bucket.remaining.checked_sub(1) {
            Some(remaining) => {
                bucket.remaining = remaining;
                Duration::ZERO
            }
            None => bucket.reset.saturating_sub(now),
        }
    }

    pub(super) fn update(&mut self, route: &str, told: BucketState, now: Duration) {
        if self.buckets.len() >= MAX_ENTRIES {
            self.buckets.retain(|_, bucket| bucket.reset > now);
        }
        let reset = now.saturating_add(told.reset_after);
        let fresh = Bucket { limit: told.limit.max(1), remaining: told.remaining, reset };
        let bucket = self.buckets.entry(route.to_owned()).or_insert(fresh);
        // Responses may arrive out of order: in the same window the smaller number is the newer.
        let same = bucket.reset.abs_diff(reset) < GUESS / 2;
        let remaining = if same { bucket.remaining.min(told.remaining) } else { told.remaining };
        *bucket = Bucket { remaining, ..fresh };
    }

    /// Blocks this route for a while.
    pub(super) fn exhaust(&mut self, route: &str, after: Duration, now: Duration) {
        let told = BucketState { limit: 1, remaining: 0, reset_after: after };
        self.update(route, told, now);
    }

    /// Blocks all routes for a while.
    pub(super) fn exhaust_everything(&mut self, after: Duration, now: Duration) {
        self.everything_until = now.saturating_add(after);
    }
}

/// Returns the key of the bucket: the method, the route, and the channel, server or webhook.
pub(super) fn route_of(method: &str, path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let mut route = method.to_owned();
    for (at, segment) in path.split('/').filter(|segment| !segment.is_empty()).enumerate() {
        let id = segment.bytes().all(|byte| byte.is_ascii_digit());
        route.push('/');
        route.push_str(if id && at != 1 { "id" } else { segment });
    }
    route
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let mut limits = RateLimits::default();
        assert_eq!(limits.reserve("r", Duration::ZERO), Duration::ZERO, "what is not known is not held back");
        limits.update("r", BucketState { limit: 3, remaining: 2, reset_after: 4 * SECOND }, Duration::ZERO);
        assert_eq!(limits.reserve("r", SECOND), Duration::ZERO);
        // The response to an earlier call does not restore calls reserved since.
        limits.update("r", BucketState { limit: 3, remaining: 2, reset_after: 3 * SECOND }, SECOND);
        assert_eq!(limits.reserve("r", SECOND), Duration::ZERO);
        assert_eq!(limits.reserve("r", SECOND), 3 * SECOND);
        assert_eq!(limits.reserve("other", SECOND), Duration::ZERO);
        assert_eq!(limits.reserve("r", 4 * SECOND), Duration::ZERO);
        limits.exhaust_everything(SECOND, 4 * SECOND);
        assert_eq!(limits.reserve("other", 4 * SECOND), SECOND);
        assert_eq!(limits.reserve("other", 5 * SECOND), Duration::ZERO);
    }

    #[test]
    fn routes_share_a_bucket_per_place() {
        assert_eq!(route_of("POST", "/channels/12/messages"), "POST/channels/12/messages");
        assert_eq!(route_of("PATCH", "/channels/12/messages/34?x=1"), "PATCH/channels/12/messages/id");
    }
}
