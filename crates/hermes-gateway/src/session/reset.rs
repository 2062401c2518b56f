//! Decides when a chat is reset automatically. Pure: it compares two civil times.

use std::time::Duration;

use hermes_config::settings::{ResetMode, SessionResetSettings};
use hermes_types::CivilTime;

/// The reason why a conversation was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    /// There was no message for this many minutes.
    Idle(u64),
    /// The daily reset hour has passed.
    Daily(u8),
}

impl ResetReason {
    /// Returns the text for the user.
    pub fn user_text(self) -> String {
        match self {
            Self::Idle(minutes) => {
                let (hours, rest) = (minutes / 60, minutes % 60);
                let span = match (hours, rest) {
                    (0, rest) => format!("{rest}m"),
                    (hours, 0) => format!("{hours}h"),
                    (hours, rest) => format!("{hours}h {rest}m"),
                };
                format!("inactive for {span}")
            }
            Self::Daily(hour) => format!("daily schedule at {hour}:00"),
        }
    }

    /// Returns the text for the model.
    pub fn model_text(self) -> String {
        let why = match self {
            Self::Idle(_) => "nothing was said for a long time",
            Self::Daily(_) => "a new conversation starts each day",
        };
        format!(
            "[System note: this is a fresh conversation because {why}. What was said before is not known here; \
                 session_search finds it.]"
        )
    }
}

/// Returns why a conversation last used at `last` is over at `now`, if it is; both are in the user's local time.
pub fn reset_reason(policy: &SessionResetSettings, last: CivilTime, now: CivilTime) -> Option<ResetReason> {
    let idle = matches!(policy.mode, ResetMode::Idle | ResetMode::Both);
    let daily = matches!(policy.mode, ResetMode::Daily | ResetMode::Both);
    let silent = now.as_utc().since(last.as_utc());
    if idle && silent > Duration::from_mins(policy.idle_minutes) {
        return Some(ResetReason::Idle(policy.idle_minutes));
    }
    let hour = u32::from(policy.at_hour);
    let mut boundary = CivilTime { hour, minute: 0, second: 0, ..now }.as_utc();
    if now.hour < hour {
        boundary = boundary.minus(Duration::from_hours(24));
    }
    (daily && last.as_utc() < boundary).then_some(ResetReason::Daily(policy.at_hour))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: u32, hour: u32, minute: u32) -> CivilTime {
        CivilTime { year: 2026, month: 3, day, hour, minute, second: 0 }
    }

    fn policy(mode: ResetMode) -> SessionResetSettings {
        SessionResetSettings {
            mode,
            at_hour: 4,
            idle_minutes: 60,
            notify: true,
            notify_exclude_platforms: Vec::new(),
        }
    }

    #[test]
    fn the_hour_of_the_day_counts_from_the_last_use() {
        let daily = policy(ResetMode::Daily);
        assert_eq!(reset_reason(&daily, at(5, 3, 59), at(5, 4, 0)), Some(ResetReason::Daily(4)));
        assert_eq!(reset_reason(&daily, at(5, 4, 0), at(5, 23, 0)), None);
        assert_eq!(
            reset_reason(&daily, at(4, 5, 0), at(5, 3, 59)),
            None,
            "before the hour, yesterday's counts"
        );
        assert_eq!(reset_reason(&daily, at(4, 3, 0), at(5, 3, 59)), Some(ResetReason::Daily(4)));
        assert_eq!(
            reset_reason(&daily, CivilTime { month: 2, ..at(28, 5, 0) }, at(1, 5, 0)),
            Some(ResetReason::Daily(4))
        );
    }

    #[test]
    fn silence_is_looked_at_first() {
        let both = policy(ResetMode::Both);
        assert_eq!(reset_reason(&both, at(4, 3, 0), at(5, 5, 0)), Some(ResetReason::Idle(60)));
        assert_eq!(reset_reason(&policy(ResetMode::Idle), at(5, 5, 0), at(5, 6, 0)), None);
        assert_eq!(
            reset_reason(&policy(ResetMode::Idle), at(5, 5, 0), at(5, 6, 1)),
            Some(ResetReason::Idle(60))
        );
        assert_eq!(reset_reason(&policy(ResetMode::None), at(1, 0, 0), at(9, 0, 0)), None);
    }

    #[test]
    fn a_span_is_said_in_hours_and_minutes() {
        assert_eq!(ResetReason::Idle(1440).user_text(), "inactive for 24h");
        assert_eq!(ResetReason::Idle(90).user_text(), "inactive for 1h 30m");
        assert_eq!(ResetReason::Idle(5).user_text(), "inactive for 5m");
    }
}
