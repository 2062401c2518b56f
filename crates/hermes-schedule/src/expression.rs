//! Cron expressions: five fields, a sixth for seconds and a seventh for years, both last.
//!
//! The engine does the calendar; here the dialect is brought into its words. Invariant: what a person fixed to times of
//! day (`30 1 * * *`, `0 9,17 * * *`) runs once at each of them on every day, also on the days the clocks change; what
//! they left open (`*/30 * * * *`) follows the clock through both passes of a repeated hour.

use chrono::{DateTime, Local, TimeZone};
use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, CronError};
use hermes_types::Timestamp;

use crate::zone::{Zone, timestamp, utc};

/// Lowest and highest value of each field, in the order people write them.
const BOUNDS: [(u32, u32); 7] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6), (0, 59), (1, 5000)];
const WEEKDAY: usize = 4;
/// More fixed times of day than this are searched as one pattern.
const MOST_TIMES: usize = 64;
/// Longer texts are no schedules.
const LONGEST: usize = 500;

/// An expression that can be searched.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    /// One per fixed time of day, or a single one.
    patterns: Vec<Cron>,
}

impl Expression {
    /// Reads an expression. The error is the reason, without the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} characters"));
        }
        let given: Vec<&str> = text.split_whitespace().collect();
        if !(5..=7).contains(&given.len()) {
            return Err(format!("it has {} fields; five, six or seven are understood", given.len()));
        }
        let fields: Vec<String> =
            given.iter().zip(BOUNDS).enumerate().map(|(at, (field, bounds))| rewrite(field, at, bounds)).collect::<Result<_, _>>()?;
        // The whole of it must be right before it is taken apart.
        let whole = pattern(&fields, None)?;
        let times = fixed_times(&fields);
        if times.len() < 2 || times.len() > MOST_TIMES {
            return Ok(Self { patterns: vec![whole] });
        }
        let patterns = times.iter().map(|time| pattern(&fields, Some(*time))).collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }

    /// The first match after an instant. Nothing, when there is none in any year.
    pub(crate) fn next(&self, after: Timestamp, zone: Zone) -> Option<Timestamp> {
        match zone {
            Zone::Named(zone) => self.next_in(&utc(after).with_timezone(&zone)),
            Zone::Machine => self.next_in(&utc(after).with_timezone(&Local)),
        }
    }

    fn next_in<Z: TimeZone>(&self, after: &DateTime<Z>) -> Option<Timestamp> {
        let found = self.patterns.iter().filter_map(|pattern| {
            let mut from = after.clone();
            // The engine counts whole seconds; near a change of clocks it may answer with the base itself.
            for _ in 0..3 {
                let next = pattern.find_next_occurrence(&from, false).ok()?;
                if next > *after {
                    return Some(timestamp(&next));
                }
                from = next;
            }
            None
        });
        found.min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
    }
}

/// The engine's pattern, with one time of day instead of all of them where it is given.
fn pattern(fields: &[String], time: Option<(u32, u32)>) -> Result<Cron, String> {
    let mut fields = fields.to_vec();
    if let Some((hour, minute)) = time {
        for (field, value) in fields.iter_mut().zip([minute, hour]) {
            *field = value.to_string();
        }
    }
    let year = (fields.len() > 6).then(|| fields.pop()).flatten();
    let seconds = (fields.len() > 5).then(|| fields.pop()).flatten();
    let parser = CronParser::builder()
        .seconds(if seconds.is_some() { Seconds::Required } else { Seconds::Disallowed })
        .year(if year.is_some() { Year::Required } else { Year::Disallowed })
        .build();
    let all: Vec<String> = seconds.into_iter().chain(fields).chain(year).collect();
    parser.parse(&all.join(" ")).map_err(|error| reason(&error))
}

fn reason(error: &CronError) -> String {
    let text = error.to_string();
    text.strip_prefix("CronPattern cannot be an empty string.").map_or(text.clone(), |_| "it is empty".to_owned())
}

/// A field in the engine's words: reversed ranges go around the end, `N/S` goes up to the end.
fn rewrite(field: &str, at: usize, bounds: (u32, u32)) -> Result<String, String> {
    let known = |c: char| c.is_ascii_digit() || matches!(c, '*' | '-' | ',' | '/');
    if let Some(strange) = field.chars().find(|c| !known(*c)) {
        return Err(format!("'{strange}' is not understood in '{field}'"));
    }
    let parts: Vec<String> = field.split(',').map(|part| rewrite_part(part, at, bounds)).collect::<Result<_, _>>()?;
    Ok(parts.join(","))
}

fn rewrite_part(part: &str, at: usize, (lowest, highest): (u32, u32)) -> Result<String, String> {
    let wrong = || format!("'{part}' is not understood");
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(number(step)?)),
        None => (part, None),
    };
    if step == Some(0) {
        return Err(format!("the step in '{part}' is 0"));
    }
    let Some((from, to)) = range.split_once('-') else {
        return match step {
            Some(step) if range != "*" => Ok(format!("{}-{highest}/{step}", number(range)?)),
            _ => Ok(part.to_owned()),
        };
    };
    let (mut from, to) = (number(from)?, number(to)?);
    // Sunday has two numbers; as the beginning of a range it is the first day.
    if at == WEEKDAY && from == 7 && to < 7 {
        from = 0;
    }
    if from <= to {
        let step = step.map(|step| format!("/{step}")).unwrap_or_default();
        return Ok(format!("{from}-{to}{step}"));
    }
    if from > highest || to < lowest {
        return Err(format!("'{part}' is out of range"));
    }
    let values = (from..=highest).chain(lowest..=to).step_by(step.unwrap_or(1) as usize);
    Ok(values.map(|value| value.to_string()).collect::<Vec<_>>().join(","))
}

/// Hours and minutes of an expression that names all of them; nothing where a field is open.
fn fixed_times(fields: &[String]) -> Vec<(u32, u32)> {
    let (Some(minutes), Some(hours)) = (values(fields.first()), values(fields.get(1))) else { return Vec::new() };
    let fixed_seconds = fields.get(5).is_none_or(|field| field.parse::<u32>().is_ok());
    if !fixed_seconds {
        return Vec::new();
    }
    hours.iter().flat_map(|hour| minutes.iter().map(|minute| (*hour, *minute))).collect()
}

fn values(field: Option<&String>) -> Option<Vec<u32>> {
    let mut values = Vec::new();
    for part in field?.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to, step) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?, step.parse::<usize>().ok()?);
        values.extend((from..=to.min(59)).step_by(step.max(1)));
    }
    values.sort_unstable();
    values.dedup();
    Some(values)
}
