//! Dates as people and protocols write them.

use std::fmt;

use crate::clock::Timestamp;

/// A date and time of day, in the time zone its creator chose.
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
    /// Returns the date in UTC by the Gregorian calendar; times before 1970 count as the start of 1970.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "every part is within its range"
    )]
    pub fn utc(at: Timestamp) -> Self {
        let total = at.seconds().max(0.0) as i64;
        let (days, second) = (total.div_euclid(86_400), total.rem_euclid(86_400));
        // The calculation uses years that start in March, so that the leap day comes last.
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

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The weekdays in the order in which Zeller's congruence numbers them.
const WEEKDAYS: [&str; 7] = ["Saturday", "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday"];

impl CivilTime {
    /// Returns the instant at which a clock set to UTC shows this date and time.
    pub fn as_utc(self) -> Timestamp {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * ((i64::from(self.month) + 9) % 12) + 2) / 5 + i64::from(self.day) - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        #[expect(clippy::cast_precision_loss, reason = "seconds of a date stay far below 2^52")]
        let whole = (days * 86_400) as f64;
        Timestamp(
            whole + f64::from(self.hour) * 3600.0 + f64::from(self.minute) * 60.0 + f64::from(self.second),
        )
    }

    pub fn month_name(self) -> &'static str {
        let at = usize::try_from(self.month).unwrap_or_default().saturating_sub(1);
        MONTHS.get(at).copied().unwrap_or_default()
    }

    pub fn weekday_name(self) -> &'static str {
        // Zeller's congruence counts January and February as months of the previous year.
        let (year, month) =
            if self.month < 3 { (self.year - 1, self.month + 12) } else { (self.year, self.month) };
        let month_days = i32::try_from(13 * (month + 1) / 5).unwrap_or_default();
        let day = i32::try_from(self.day).unwrap_or_default();
        let number = day + month_days + year + year / 4 - year / 100 + year / 400;
        WEEKDAYS.get(usize::try_from(number.rem_euclid(7)).unwrap_or_default()).copied().unwrap_or_default()
    }
}

/// Formats as `2026-01-31T12:00:00`, without a zone.
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
    fn there_and_back() {
        for seconds in [0.0, 951_782_399.0, 1_709_251_200.0, 4_102_444_799.0, 1_767_323_045.0] {
            assert_eq!(CivilTime::utc(Timestamp(seconds)).as_utc(), Timestamp(seconds));
        }
    }

    #[test]
    fn days_and_months_have_their_names() {
        for (year, month, day, weekday, name) in [
            (2026, 11, 15, "Sunday", "November"),
            (2000, 2, 29, "Tuesday", "February"),
            (2024, 1, 1, "Monday", "January"),
        ] {
            let date = CivilTime { year, month, day, hour: 0, minute: 0, second: 0 };
            assert_eq!((date.weekday_name(), date.month_name()), (weekday, name));
        }
    }

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
