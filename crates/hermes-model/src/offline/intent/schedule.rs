//! Parses times of day and intervals in plain words into schedules.

use super::after;

const DAYS: [(&str, &str); 9] = [
    ("monday", "1"),
    ("tuesday", "2"),
    ("wednesday", "3"),
    ("thursday", "4"),
    ("friday", "5"),
    ("saturday", "6"),
    ("sunday", "0"),
    ("weekday", "1-5"),
    ("workday", "1-5"),
];

/// Parses a request such as `every morning at 9 check the weather` into schedule and prompt, or returns `None`.
pub(super) fn read_schedule(text: &str) -> Option<(String, String)> {
    if let Some(rest) = after(text, &["remind me in ", "in "]) {
        return read_delay(rest);
    }
    let rest = after(text, &["every ", "each "])?;
    let (word, rest) = rest.split_once(' ')?;
    let word = word.to_ascii_lowercase();
    if let Some(interval) = read_interval(&word, rest) {
        return Some(interval);
    }
    let (day, default_hour) = match word.as_str() {
        "day" => ("*", 9),
        "morning" => ("*", 8),
        "noon" => ("*", 12),
        "afternoon" => ("*", 15),
        "evening" => ("*", 18),
        "night" => ("*", 22),
        other => (DAYS.iter().find(|(name, _)| *name == other.trim_end_matches('s'))?.1, 9),
    };
    let ((hour, minute), prompt) = match after(rest, &["at "]) {
        Some(timed) => read_time(timed, &word)?,
        None => ((default_hour, 0), rest),
    };
    let prompt = clean(prompt)?;
    Some((format!("{minute} {hour} * * {day}"), prompt))
}

/// Parses `hour …`, `30 minutes …`, `2 hours …`.
fn read_interval(word: &str, rest: &str) -> Option<(String, String)> {
    let unit = |name: &str| match name.trim_end_matches(',').trim_end_matches('s') {
        "minute" => Some("m"),
        "hour" => Some("h"),
        _ => None,
    };
    if let Some(unit) = unit(word) {
        return Some((format!("every 1{unit}"), clean(rest)?));
    }
    let count: u32 = word.parse().ok().filter(|count| *count > 0)?;
    let (name, prompt) = rest.split_once(' ')?;
    Some((format!("every {count}{}", unit(&name.to_ascii_lowercase())?), clean(prompt)?))
}

/// Parses `10 minutes to stretch`: once, after a delay.
fn read_delay(text: &str) -> Option<(String, String)> {
    let mut words = text.splitn(3, ' ');
    let count: u32 = words.next()?.parse().ok().filter(|count| *count > 0)?;
    let unit = match words.next()?.to_ascii_lowercase().trim_end_matches(',').trim_end_matches('s') {
        "minute" => "m",
        "hour" => "h",
        "day" => "d",
        _ => return None,
    };
    Some((format!("{count}{unit}"), clean(words.next()?)?))
}

/// Parses `9`, `9:30`, `6pm`, `18.15`, and returns what follows.
fn read_time<'a>(text: &'a str, part_of_day: &str) -> Option<((u32, u32), &'a str)> {
    let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
    let lower = time.trim_end_matches(',').to_ascii_lowercase();
    let (digits, suffix) = match lower.strip_suffix("pm") {
        Some(digits) => (digits, Some("pm")),
        None => match lower.strip_suffix("am") {
            Some(digits) => (digits, Some("am")),
            None => (lower.as_str(), None),
        },
    };
    let (hour, minute) = digits.split_once([':', '.']).unwrap_or((digits, "0"));
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match suffix {
        Some("pm") if hour < 12 => hour + 12,
        Some("am") if hour == 12 => 0,
        // "every evening at 7" means 19:00.
        None if hour < 12 && ["evening", "night", "afternoon"].contains(&part_of_day) => hour + 12,
        _ => hour,
    };
    (hour < 24 && minute < 60).then_some(((hour, minute), rest))
}

fn clean(prompt: &str) -> Option<String> {
    let prompt = prompt.trim().trim_start_matches([',', ':']).trim_start();
    let prompt = after(prompt, &["to ", "please "]).unwrap_or(prompt);
    (!prompt.is_empty()).then(|| prompt.to_owned())
}
