//! Times as other releases write them into `auth.json`: ISO texts, or seconds since the epoch.

use hermes_types::{CivilTime, Timestamp};
use serde_json::Value;

/// Formats a time as `2026-01-31T12:00:00Z`.
pub(super) fn iso(at: Timestamp) -> String {
    format!("{}Z", CivilTime::utc(at))
}

/// Reads a time in either form; milliseconds are recognised by their size.
pub(super) fn read(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Number(number) => number.as_f64().map(|n| Timestamp(if n > 1e11 { n / 1000.0 } else { n })),
        Value::String(text) => text.trim().parse().ok().map(Timestamp).or_else(|| parse(text)),
        _ => None,
    }
}

/// Reads `YYYY-MM-DDTHH:MM:SS[.fff][Z|±HH:MM]`; without a zone it is UTC.
fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let (clock, offset) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => (rest.get(..at)?, rest.get(at..)?),
        None => (rest, ""),
    };
    let mut parts = clock.split(':');
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let second: f64 = parts.next().unwrap_or("0").parse().ok()?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 24 || minute > 59 {
        return None;
    }
    let days = day_number(year, month, day);
    #[expect(clippy::cast_precision_loss, reason = "whole seconds of our era are exact in a double")]
    let whole = (days * 86_400 + hour * 3_600 + minute * 60 - offset_seconds(offset)?) as f64;
    Some(Timestamp(whole + second))
}

fn offset_seconds(text: &str) -> Option<i64> {
    let sign = match text.chars().next() {
        None | Some('Z' | 'z') => return Some(0),
        Some('-') => -1,
        Some(_) => 1,
    };
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let hours: i64 = digits.get(..2)?.parse().ok()?;
    let minutes: i64 = digits.get(2..4).unwrap_or("0").parse().ok()?;
    Some(sign * (hours * 3_600 + minutes * 60))
}

/// Returns days since the epoch, with years starting in March so that the leap day comes last.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_are_read() {
        let check = |value: Value, seconds: Option<f64>| {
            assert_eq!(read(&value).map(Timestamp::seconds), seconds, "{value}");
        };
        check(json!("2026-01-02T03:04:05Z"), Some(1_767_323_045.0));
        check(json!("2026-01-02T03:04:05.500+00:00"), Some(1_767_323_045.5));
        check(json!("2026-01-02T05:04:05+02:00"), Some(1_767_323_045.0));
        check(json!("2026-01-02T03:04:05"), Some(1_767_323_045.0));
        check(json!("2000-02-29T00:00:00-01:30"), Some(951_787_800.0));
        check(json!(1_767_323_045), Some(1_767_323_045.0));
        check(json!("1767323045"), Some(1_767_323_045.0));
        check(json!(1_767_323_045_000_i64), Some(1_767_323_045.0));
        check(json!("soon"), None);
        check(json!("2026-13-02T03:04:05Z"), None);
        check(json!(null), None);
        for seconds in [0.0, 951_782_400.0, 1_767_323_045.0] {
            assert_eq!(parse(&iso(Timestamp(seconds))), Some(Timestamp(seconds)));
        }
    }
}
