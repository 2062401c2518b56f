//! The time that a server asks a client to wait before it retries.

use std::time::Duration;

use chrono::DateTime;
use hermes_types::Timestamp;
use reqwest::header::HeaderMap;

/// Pairs of rate-limit headers: when the limit is reset, and the remaining amount.
const RESETS: [(&str, &str); 10] = [
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset-after", "x-ratelimit-remaining"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("ratelimit-reset", "ratelimit-remaining"),
    ("x-rate-limit-reset", "x-rate-limit-remaining"),
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-input-tokens-remaining"),
    ("anthropic-ratelimit-output-tokens-reset", "anthropic-ratelimit-output-tokens-remaining"),
];

/// Numbers above these are points in time: seconds and milliseconds since the epoch.
const EPOCH_SECONDS: f64 = 1e9;
const EPOCH_MILLISECONDS: f64 = 1e12;

/// Reads the wait from the headers of a refusal, in this order: `retry-after-ms`, `retry-after`, and the longest
/// wait among the limits that are used up. A point in the past means no wait.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(wait) =
        text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).and_then(milliseconds)
    {
        return Some(wait);
    }
    if let Some(wait) = text("retry-after").and_then(|text| read_wait(text, now)) {
        return Some(wait);
    }
    RESETS
        .iter()
        .filter(|(_, remaining)| {
            text(remaining).is_none_or(|left| left.parse::<f64>().is_ok_and(|left| left < 1.0))
        })
        .filter_map(|(reset, _)| text(reset).and_then(|text| read_wait(text, now)))
        .max()
}

/// Parses a point in time as HTTP headers and e-mails write it: `Fri, 24 May 2019 17:18:27 +0000`.
pub fn parse_date(text: &str) -> Option<Timestamp> {
    let date = DateTime::parse_from_rfc2822(text.trim()).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "seconds since the epoch fit a double")]
    let seconds = date.timestamp() as f64;
    Some(Timestamp(seconds))
}

/// Reads seconds, a point in time in any supported format, or a span like `6m0s`.
fn read_wait(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        return match number {
            number if number >= EPOCH_MILLISECONDS => Some(Timestamp(number / 1000.0).since(now)),
            number if number >= EPOCH_SECONDS => Some(Timestamp(number).since(now)),
            number => Duration::try_from_secs_f64(number).ok(),
        };
    }
    let date = DateTime::parse_from_rfc2822(text).or_else(|_| DateTime::parse_from_rfc3339(text));
    match date {
        #[expect(clippy::cast_precision_loss, reason = "seconds since the epoch fit a double")]
        Ok(date) => Some(Timestamp(date.timestamp() as f64).since(now)),
        Err(_) => read_span(text),
    }
}

/// Reads numbers with units in any order: `1h2m3.5s`, `20ms`.
fn read_span(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| !(c.is_ascii_digit() || c == '.'));
        let (unit, next) = split(after, |c| c.is_ascii_digit() || c == '.');
        let number: f64 = number.parse().ok()?;
        let scale = match unit {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * scale).ok()?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

fn split(text: &str, at: impl Fn(char) -> bool) -> (&str, &str) {
    text.find(at).and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""))
}

fn milliseconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / 1000.0).ok()
}
