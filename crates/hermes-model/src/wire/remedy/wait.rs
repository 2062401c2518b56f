//! The wait before a retry: the one that the provider named, or the default.

use std::time::Duration;

use hermes_types::doubling_wait;

/// Returns the wait before attempt `n + 1`: 2, 4, 8 … seconds, a minute at most.
pub fn backoff(attempt: u32) -> Duration {
    doubling_wait(Duration::from_secs(1), attempt, Duration::from_mins(1))
}

/// Returns the wait after the `n`th malformed answer.
pub fn invalid_response_backoff(attempt: u32) -> Duration {
    doubling_wait(Duration::from_secs(5), attempt.saturating_sub(1), Duration::from_mins(2))
}

/// The longest wait that is read; more counts as a refusal, and the caller decides what it means.
const MAX_NAMED_WAIT: Duration = Duration::from_hours(7 * 24);

/// Returns the wait named in headers or body. A date is compared with the date of the response itself, so that no
/// clock is needed.
pub(super) fn named_wait(headers: &[(String, String)], body: &str) -> Option<Duration> {
    let header = |name: &str| {
        headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    header("retry-after-ms")
        .and_then(seconds)
        .map(|millis| millis / 1_000)
        .or_else(|| header("retry-after").and_then(span))
        .or_else(|| {
            let until = http_date(header("retry-after")?)?;
            Some(Duration::from_secs(until.saturating_sub(http_date(header("date")?)?)))
        })
        .or_else(|| header("x-ratelimit-reset-after").and_then(span))
        .or_else(|| wait_in_text(&body.to_lowercase()))
        .or_else(|| header("x-ratelimit-reset-requests").and_then(span))
        .filter(|wait| *wait <= MAX_NAMED_WAIT)
}

/// Parses "Please try again in 20s", `"retryDelay": "34s"`, `"resets_in_seconds": 120`.
pub(super) fn wait_in_text(text: &str) -> Option<Duration> {
    [
        "try again in ",
        "retry in ",
        "retry after ",
        "\"retrydelay\"",
        "\"resets_in_seconds\"",
        "\"retry_after\"",
    ]
    .into_iter()
    .find_map(|phrase| {
        let (_, rest) = text.split_once(phrase)?;
        let rest = rest.trim_start_matches([' ', ':', '"']);
        let word: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ' '))
            .take(24)
            .collect();
        span(word.trim())
    })
    .filter(|wait| *wait <= MAX_NAMED_WAIT)
}

/// Parses `20`, `1.5s`, `6m0s`, `250ms`, `2 minutes`.
fn span(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    let mut found = false;
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at_checked(end)?;
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let value = seconds(digits.trim_end_matches('.'))?;
        total += match unit {
            "ms" | "milliseconds" => value / 1_000,
            "m" | "min" | "minute" | "minutes" => value.checked_mul(60)?,
            "h" | "hour" | "hours" => value.checked_mul(3_600)?,
            "d" | "day" | "days" => value.checked_mul(86_400)?,
            _ => value,
        };
        found = true;
        // Words after a number end the span; units continue it only without a space.
        if !matches!(unit, "ms" | "s" | "m" | "h" | "d") {
            break;
        }
        rest = after;
    }
    found.then_some(total)
}

/// Returns the seconds since 1970 of `Wed, 21 Oct 2026 07:28:00 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(',')?.1.split_whitespace();
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let clock: Vec<u64> =
        words.next()?.split(':').map(|part| part.parse().ok().filter(|n| *n < 61)).collect::<Option<_>>()?;
    let [hour, minute, second] = clock.as_slice() else { return None };
    // The year begins in March, so that the leap day is its last; day 719,468 of that count is 1 January 1970.
    let (years, months) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
    Some((days.checked_sub(719_468)? * 24 + hour) * 3_600 + minute * 60 + second)
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok().filter(|span| *span <= MAX_NAMED_WAIT * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(span(text), millis.map(Duration::from_millis), "{text}");
        };
        check("20", Some(20_000));
        check("1.5s", Some(1_500));
        check("6m0s", Some(360_000));
        check("250ms", Some(250));
        check("2 minutes", Some(120_000));
        check("20s. visit", Some(20_000));
        check("Wed, 21 Oct 2026", None);
        check("99999999999999999999999999", None);
        check("", None);
    }

    #[test]
    fn waits() {
        let headers = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let check = |headers: &[(String, String)], body: &str, millis: Option<u64>| {
            assert_eq!(named_wait(headers, body), millis.map(Duration::from_millis), "{headers:?} {body}");
        };
        check(&headers("Retry-After", "7"), "", Some(7_000));
        check(&headers("retry-after-ms", "1500"), "", Some(1_500));
        check(&[], "Rate limit reached. Please try again in 20s. Visit", Some(20_000));
        check(&[], r#"{"details":[{"retryDelay": "34.5s"}]}"#, Some(34_500));
        check(&[], r#"{"resets_in_seconds": 120}"#, Some(120_000));
        check(&headers("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), "", None);
    }

    #[test]
    fn dates_are_read_against_the_answer() {
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:10 GMT"), Some(10));
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(http_date("Wed, 21 Oct 2026 07:28:00 GMT"), Some(1_792_567_680));
        assert_eq!(http_date("Wed, 99 Oct 2026 07:28 GMT"), None);
        let headers =
            [("Retry-After", "Wed, 21 Oct 2026 07:28:30 GMT"), ("Date", "Wed, 21 Oct 2026 07:28:00 GMT")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(named_wait(&headers, ""), Some(Duration::from_secs(30)));
    }

    #[test]
    fn backoffs() {
        assert_eq!([1, 2, 5, 6, 99].map(|n| backoff(n).as_secs()), [2, 4, 32, 60, 60]);
        assert_eq!(
            [0, 1, 2, 5, 6, 99].map(|n| invalid_response_backoff(n).as_secs()),
            [5, 5, 10, 80, 120, 120]
        );
    }
}
