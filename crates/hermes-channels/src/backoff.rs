//! Delays between attempts.

use std::time::Duration;

use hermes_types::doubling_wait;

/// Delays that grow: the first is doubled each time, up to a maximum.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, failures: 0 }
    }

    /// Returns the delay after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = doubling_wait(self.initial, self.failures, self.max);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Returns the delay after one more failure, lengthened by up to a fifth, so that clients that were cut off together
    /// do not return together.
    pub(crate) fn next_with_jitter(&mut self) -> Duration {
        let pause = self.next();
        let share = u32::from_str_radix(&hermes_types::random_hex(2), 16).unwrap_or_default();
        pause.saturating_add(pause.saturating_mul(share) / (5 * 255))
    }

    /// Starts over after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_double_up_to_a_limit_and_begin_again() {
        let mut pauses = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));
        let seconds: Vec<u64> = (0..6).map(|_| pauses.next().as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 60, 60]);
        assert_eq!(pauses.failures(), 6);
        let pause = pauses.next_with_jitter();
        assert!((60.0..=72.1).contains(&pause.as_secs_f64()), "{pause:?}");
        pauses.reset();
        assert_eq!(pauses.next().as_secs(), 5);
    }
}
