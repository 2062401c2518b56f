//! The time zone of schedules, and the text format of instants.

use chrono::{
    DateTime, FixedOffset, Local, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone,
    Utc,
};
use chrono_tz::Tz;
use hermes_config::{Config, Env, precedence};
use hermes_types::Timestamp;

/// The time zone of the user's wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    Named(Tz),
    /// The machine's own zone.
    Machine,
}

/// The longest gap when a wall clock is put forward: Samoa once skipped a whole day.
const MAX_GAP_MINUTES: i64 = 26 * 60;

impl Zone {
    pub fn named(name: &str) -> Option<Self> {
        name.trim().parse().ok().map(Self::Named)
    }

    /// Returns the configured zone. An unknown name is logged, and the machine's own zone is used.
    pub fn configured(config: &Config, env: &Env) -> Self {
        let Some(name) = precedence::timezone(config, env).filter(|name| !name.is_empty()) else {
            return Self::Machine;
        };
        Self::named(&name).unwrap_or_else(|| {
            tracing::warn!("the time zone {name} is not known; this machine's own is used");
            Self::Machine
        })
    }

    /// Parses a date, or a date and a time, in ISO 8601 format. One without an offset is in this zone. The error says
    /// what is wrong.
    pub fn parse(self, text: &str) -> Result<Timestamp, &'static str> {
        match read_iso(text)? {
            IsoTime::Instant(at) => Ok(timestamp(&at)),
            IsoTime::Wall(wall) => {
                self.instant(wall).map(|at| timestamp(&at)).ok_or("the date is out of range")
            }
        }
    }

    /// Converts an instant to wall-clock time in this zone.
    pub fn local(self, at: Timestamp) -> DateTime<FixedOffset> {
        let utc = utc(at);
        match self {
            Self::Named(zone) => utc.with_timezone(&zone).fixed_offset(),
            Self::Machine => utc.with_timezone(&Local).fixed_offset(),
        }
    }

    /// Converts wall-clock time to an instant: the first one where the time occurs twice, the end of the gap where
    /// it does not exist.
    pub fn instant(self, wall: NaiveDateTime) -> Option<DateTime<FixedOffset>> {
        match self {
            Self::Named(zone) => first_valid(&zone, wall),
            Self::Machine => first_valid(&Local, wall),
        }
    }

    /// Returns the instants at which the wall clock shows this time.
    pub(crate) fn readings(self, wall: NaiveDateTime) -> WallClockReadings {
        match self {
            Self::Named(zone) => readings(&zone, wall),
            Self::Machine => readings(&Local, wall),
        }
    }

    /// Formats an instant for files: wall-clock time with its offset.
    pub fn iso(self, at: Timestamp) -> String {
        iso(&self.local(at))
    }

    /// Formats an instant to the minute: `2026-03-05 09:15`.
    pub fn minute(self, at: Timestamp) -> String {
        self.local(at).format("%Y-%m-%d %H:%M").to_string()
    }
}

/// The instants at which a wall clock shows a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WallClockReadings {
    /// The clock was put forward past this time.
    Never,
    Once(Timestamp),
    /// The clock was put back, so the time occurred twice.
    Twice(Timestamp, Timestamp),
}

fn readings<Z: TimeZone>(zone: &Z, wall: NaiveDateTime) -> WallClockReadings {
    match zone.from_local_datetime(&wall) {
        MappedLocalTime::None => WallClockReadings::Never,
        MappedLocalTime::Single(at) => WallClockReadings::Once(timestamp(&at)),
        MappedLocalTime::Ambiguous(first, second) => {
            WallClockReadings::Twice(timestamp(&first), timestamp(&second))
        }
    }
}

fn first_valid<Z: TimeZone>(zone: &Z, wall: NaiveDateTime) -> Option<DateTime<FixedOffset>> {
    (0..MAX_GAP_MINUTES).find_map(|minutes| {
        let later = wall.checked_add_signed(TimeDelta::minutes(minutes))?;
        match zone.from_local_datetime(&later) {
            MappedLocalTime::Single(found) | MappedLocalTime::Ambiguous(found, _) => {
                Some(found.fixed_offset())
            }
            MappedLocalTime::None => None,
        }
    })
}

pub(crate) fn utc(at: Timestamp) -> DateTime<Utc> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float that is out of range becomes the nearest number"
    )]
    let micros = (at.seconds() * 1e6).round() as i64;
    DateTime::from_timestamp_micros(micros).unwrap_or_default()
}

pub(crate) fn timestamp<Z: TimeZone>(at: &DateTime<Z>) -> Timestamp {
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds since 1970 stay below 2^53 for two centuries"
    )]
    Timestamp(at.timestamp_micros() as f64 / 1e6)
}

/// Formats a time with microseconds only where they are not zero, as in existing files.
pub(crate) fn iso(at: &DateTime<FixedOffset>) -> String {
    let format =
        if at.timestamp_subsec_micros() == 0 { "%Y-%m-%dT%H:%M:%S%:z" } else { "%Y-%m-%dT%H:%M:%S%.6f%:z" };
    at.format(format).to_string()
}

/// Parses a stored instant. One without an offset is in the machine's own zone.
pub fn parse_instant(text: &str) -> Option<Timestamp> {
    Zone::Machine.parse(text).ok()
}

/// A date, or a date and a time of day, in ISO 8601 format.
pub(crate) enum IsoTime {
    Instant(DateTime<FixedOffset>),
    Wall(NaiveDateTime),
}

/// Parses `2026-03-15`, `2026-03-15T10:00`, `2026-03-15 10:00:30.5+02:00`, `…Z`. The error says what is wrong.
pub(crate) fn read_iso(text: &str) -> Result<IsoTime, &'static str> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10).ok_or("a date is written YYYY-MM-DD")?;
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d")
        .map_err(|_| "there is no such date; it is written YYYY-MM-DD")?;
    if rest.is_empty() {
        return Ok(IsoTime::Wall(date.and_time(NaiveTime::MIN)));
    }
    let time = rest.strip_prefix(['T', ' ']).ok_or("a `T` or a space belongs between date and time")?;
    let (time, offset) = split_offset(time)?;
    let time = ["%H:%M:%S%.f", "%H:%M", "%H"]
        .iter()
        .find_map(|format| parse_time(time, format))
        .ok_or("there is no such time; it is written HH:MM or HH:MM:SS")?;
    let wall = date.and_time(time);
    match offset {
        None => Ok(IsoTime::Wall(wall)),
        Some(offset) => match wall.and_local_timezone(offset) {
            MappedLocalTime::Single(at) => Ok(IsoTime::Instant(at)),
            _ => Err("the date is out of range"),
        },
    }
}

fn parse_time(text: &str, format: &str) -> Option<NaiveTime> {
    // The library does not accept an hour alone as a time.
    if format == "%H" {
        let hour = text.parse().ok().filter(|_| text.len() == 2)?;
        return NaiveTime::from_hms_opt(hour, 0, 0);
    }
    NaiveTime::parse_from_str(text, format).ok()
}

fn split_offset(time: &str) -> Result<(&str, Option<FixedOffset>), &'static str> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Ok((time, FixedOffset::east_opt(0)));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Ok((time, None)) };
    let wrong = "an offset is written +HH:MM";
    let (time, offset) = time.split_at(at);
    let (sign, digits) = match offset.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, offset.strip_prefix('+').ok_or(wrong)?),
    };
    let digits = digits.replace(':', "");
    let number = |from: usize, to: usize| digits.get(from..to).and_then(|part| part.parse::<i32>().ok());
    let seconds = match digits.len() {
        2 => number(0, 2).map(|hours| hours * 3600),
        4 => number(0, 2).zip(number(2, 4)).map(|(hours, minutes)| hours * 3600 + minutes * 60),
        _ => None,
    };
    let offset = seconds.and_then(|seconds| FixedOffset::east_opt(sign * seconds)).ok_or(wrong)?;
    Ok((time, Some(offset)))
}
