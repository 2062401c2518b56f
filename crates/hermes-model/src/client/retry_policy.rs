//! The limits on retries and waits of a client.

use std::time::Duration;

use hermes_config::Env;

/// The limits on retries and waits of a client.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// The attempts per request and endpoint.
    pub attempts: u32,
    /// The reconnections for a stream that broke before anything was shown; they do not count as attempts.
    pub stream_retries: u32,
    /// The longest wait for the first byte of an answer.
    pub first_byte_timeout: Duration,
    /// The longest time a stream may go without content, even if the connection is kept alive; longer for large
    /// requests.
    pub stall_timeout: Duration,
    /// The longest time without a single byte of a stream, where that is shorter.
    pub read_timeout: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            stream_retries: 2,
            first_byte_timeout: Duration::from_mins(30),
            stall_timeout: Duration::from_mins(3),
            read_timeout: None,
        }
    }
}

impl RetryPolicy {
    /// Returns the defaults, changed by `HERMES_API_TIMEOUT`, `HERMES_STREAM_RETRIES`,
    /// `HERMES_STREAM_STALE_TIMEOUT` and `HERMES_STREAM_READ_TIMEOUT`. Values that are not a number of seconds are
    /// ignored.
    pub fn from_env(env: &Env) -> Self {
        let seconds = |name: &str| {
            let given = env.number(name).and_then(|given| Duration::try_from_secs_f64(given).ok());
            given.filter(|span| !span.is_zero())
        };
        let usual = Self::default();
        let retries = env.number("HERMES_STREAM_RETRIES").filter(|given| (0.0..100.0).contains(given));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
        let stream_retries = retries.map_or(usual.stream_retries, |given| given as u32);
        Self {
            stream_retries,
            first_byte_timeout: seconds("HERMES_API_TIMEOUT").unwrap_or(usual.first_byte_timeout),
            stall_timeout: seconds("HERMES_STREAM_STALE_TIMEOUT").unwrap_or(usual.stall_timeout),
            read_timeout: seconds("HERMES_STREAM_READ_TIMEOUT"),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_a_say() {
        let check = |pairs: &[(&str, &str)], expected: (u32, u64, u64, Option<u64>)| {
            let given = RetryPolicy::from_env(&Env::from_pairs(pairs.iter().copied()));
            let read = given.read_timeout.map(|span| span.as_secs());
            let seen = (
                given.stream_retries,
                given.first_byte_timeout.as_secs(),
                given.stall_timeout.as_secs(),
                read,
            );
            assert_eq!(seen, expected, "{pairs:?}");
        };
        check(&[], (2, 1_800, 180, None));
        check(
            &[
                ("HERMES_API_TIMEOUT", "900"),
                ("HERMES_STREAM_RETRIES", "0"),
                ("HERMES_STREAM_STALE_TIMEOUT", "30"),
                ("HERMES_STREAM_READ_TIMEOUT", "60"),
            ],
            (0, 900, 30, Some(60)),
        );
        check(
            &[
                ("HERMES_API_TIMEOUT", "soon"),
                ("HERMES_STREAM_RETRIES", "-1"),
                ("HERMES_STREAM_STALE_TIMEOUT", "0"),
                ("HERMES_STREAM_READ_TIMEOUT", "inf"),
            ],
            (2, 1_800, 180, None),
        );
    }
}
