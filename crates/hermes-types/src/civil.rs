//! Dates as people and protocols write them.

use std::fmt;

use crate::clock::Timestamp;

/// A date and time of day, in whatever zone its maker chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilTime {
    pub year: i32,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
}

impl CivilTime {
    /// The date in UTC, by the Gregorian calendar; times before 1970 count as its beginning.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "every part is within its range"
    )]
    pub fn utc(at: Timestamp) -> Self {
        let total = at.seconds().max(0.0) as i64;
        let (days, second) = (total.div_euclid(86_400), total.rem_euclid(86_400));
        // Years starting in March, so that the leap day comes last.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: (year_of_era + era * 400 + i64::from(month <= 2)) as i32,
            month: month as u32,
            day: (of_year - (153 * from_march + 2) / 5 + 1) as u32,
            hour: (second / 3600) as u32,
            minute: (second / 60 % 60) as u32,
            second: (second % 60) as u32,
        }
    }
}

/// `2026-01-31T12:00:00`, without a zone.
impl fmt::Display for CivilTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_years() {
        for (seconds, text) in [
            (0.0, "1970-01-01T00:00:00"),
            (951_782_399.0, "2000-02-28T23:59:59"),
            (951_782_400.0, "2000-02-29T00:00:00"),
            (1_735_689_599.9, "2024-12-31T23:59:59"),
            (1_772_702_107.0, "2026-03-05T09:15:07"),
            (-5.0, "1970-01-01T00:00:00"),
        ] {
            assert_eq!(CivilTime::utc(Timestamp(seconds)).to_string(), text);
        }
    }
}
