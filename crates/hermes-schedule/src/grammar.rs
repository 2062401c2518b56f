//! Parses the schedules that users and models write.

use hermes_types::Timestamp;

use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::schedule::Schedule;
use crate::zone::{IsoTime, Zone, iso, read_iso};

/// The furthest a schedule may be ahead: a century.
const MAX_MINUTES: u64 = 100 * 366 * 1440;

/// Parses a schedule. The first form that matches decides, and the error describes what is wrong with that form.
pub fn parse(input: &str, now: Timestamp, zone: Zone) -> Result<Schedule> {
    let text = input.trim();
    if let Some(rest) = after_every(text) {
        return match minutes(rest) {
            Some(0) => Err(Error::Schedule(format!(
                "Invalid duration: '{}'. It must be longer than nothing",
                rest.trim()
            ))),
            Some(minutes) => Ok(Schedule::interval(minutes)),
            None => Err(bad_duration(rest.trim())),
        };
    }
    if looks_like_cron(text) {
        return cron(text, now, zone);
    }
    if text.contains('T') || starts_with_date(text) {
        return timestamp(text, zone);
    }
    if let Some(minutes) = minutes(text) {
        #[expect(clippy::cast_precision_loss, reason = "minutes of a schedule")]
        let at = Timestamp(now.seconds() + minutes as f64 * 60.0);
        return Ok(Schedule::once(&zone.iso(at), &format!("once in {text}")));
    }
    Err(Error::Schedule(format!(
        "Invalid schedule '{text}'. Use:\n  - Duration: '30m', '2h', '1d' (runs once)\n  - Interval: 'every 30m', 'every 2h' (repeats)\n  - Cron: '0 9 * * *' (minute hour day month weekday)\n  - Timestamp: '2026-02-03T14:00' (runs once)"
    )))
}

fn after_every(text: &str) -> Option<&str> {
    let (word, rest) = text.split_at_checked(6)?;
    word.eq_ignore_ascii_case("every ").then_some(rest)
}

fn bad_duration(text: &str) -> Error {
    Error::Schedule(format!("Invalid duration: '{text}'. Use format like '30m', '2h', or '1d'"))
}

/// Parses digits, an optional space, and a unit into minutes.
fn minutes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at_checked(unit)?;
    let factor = match unit.trim_start().to_ascii_lowercase().as_str() {
        "m" | "min" | "mins" | "minute" | "minutes" => 1,
        "h" | "hr" | "hrs" | "hour" | "hours" => 60,
        "d" | "day" | "days" => 1440,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|minutes| *minutes <= MAX_MINUTES)
}

fn looks_like_cron(text: &str) -> bool {
    let mut fields = text.split_whitespace();
    let plain = |field: &str| field.chars().all(|c| c.is_ascii_digit() || matches!(c, '*' | '-' | ',' | '/'));
    fields.by_ref().take(5).filter(|field| plain(field)).count() == 5
}

fn cron(text: &str, now: Timestamp, zone: Zone) -> Result<Schedule> {
    let invalid = |reason: &str| Error::Schedule(format!("Invalid cron expression '{text}': {reason}"));
    let expression = Expression::parse(text).map_err(|reason| invalid(&reason))?;
    if expression.next(now, zone).is_none() {
        return Err(invalid("no date ever matches it"));
    }
    Ok(Schedule::cron(text))
}

fn starts_with_date(text: &str) -> bool {
    let shape =
        |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() >= 10 && text.bytes().take(10).enumerate().all(shape)
}

fn timestamp(text: &str, zone: Zone) -> Result<Schedule> {
    let invalid = |reason: &str| Error::Schedule(format!("Invalid timestamp '{text}': {reason}"));
    let at = match read_iso(text).map_err(invalid)? {
        IsoTime::Instant(at) => at,
        IsoTime::Wall(wall) => zone.instant(wall).ok_or_else(|| invalid("the date is out of range"))?,
    };
    Ok(Schedule::once(&iso(&at), &at.format("once at %Y-%m-%d %H:%M").to_string()))
}
