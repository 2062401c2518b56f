//! Cron expressions: five fields, a sixth for seconds and a seventh for years, both last.
//!
//! The cron library computes matches on wall-clock times without transitions; this module decides what a clock
//! change means. Invariant: an expression with fixed times of day (`30 1 * * *`, `0 9,17 * * *`) runs once at each
//! of them on every day, at the end of the gap where the time does not exist; an open expression (`*/30 * * * *`)
//! follows the clock through both passes of a repeated hour and over a gap.

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use hermes_types::Timestamp;

use crate::zone::{WallClockReadings, Zone, timestamp};

/// The lowest and highest value of each field, in the order users write them.
const BOUNDS: [(u32, u32); 7] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6), (0, 59), (1, 5000)];
const WEEKDAY: usize = 4;
/// The limit of fixed times of day that get a pattern each; expressions with more are searched as one pattern.
const MAX_FIXED_TIMES: usize = 64;
/// The longest text that is parsed as an expression.
const MAX_EXPRESSION_LENGTH: usize = 500;
/// The limit in seconds of how far a clock is put back in one step; no zone has ever exceeded it.
const MAX_CLOCK_SHIFT: i64 = 26 * 3600;
/// Limits the wall times examined for one instant: every second of the longest repeat, with a margin.
const MAX_CANDIDATES: usize = 100_000;

/// A parsed expression that can be searched.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    /// One pattern for each time of day.
    Fixed(Vec<Cron>),
    General(Box<Cron>),
}

impl Expression {
    /// Parses an expression. The error is the reason, without the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_EXPRESSION_LENGTH {
            return Err(format!("it is longer than {MAX_EXPRESSION_LENGTH} characters"));
        }
        let given: Vec<&str> = text.split_whitespace().collect();
        if !(5..=7).contains(&given.len()) {
            return Err(format!("it has {} fields; five, six or seven are understood", given.len()));
        }
        let fields: Vec<String> = given
            .iter()
            .zip(BOUNDS)
            .enumerate()
            .map(|(at, (field, bounds))| rewrite(field, at, bounds))
            .collect::<Result<_, _>>()?;
        // The whole expression must be valid before it is split into fixed times.
        let whole = pattern(&fields, None)?;
        let times = fixed_times(&fields);
        if times.is_empty() || times.len() > MAX_FIXED_TIMES {
            return Ok(Self::General(Box::new(whole)));
        }
        Ok(Self::Fixed(times.iter().map(|time| pattern(&fields, Some(*time))).collect::<Result<_, _>>()?))
    }

    /// Returns the first match after an instant, or `None` when no year has one.
    pub(crate) fn next(&self, after: Timestamp, zone: Zone) -> Option<Timestamp> {
        match self {
            Self::Fixed(patterns) => {
                let found = patterns.iter().filter_map(|pattern| next_fixed(pattern, after, zone));
                found.min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
            }
            Self::General(pattern) => next_general(pattern, after, zone),
        }
    }
}

/// Returns the first matching wall time after another.
fn next_wall(pattern: &Cron, after: NaiveDateTime) -> Option<NaiveDateTime> {
    let found: DateTime<Utc> = pattern.find_next_occurrence(&after.and_utc(), false).ok()?;
    Some(found.naive_utc()).filter(|found| *found > after)
}

fn wall_times(pattern: &Cron, after: NaiveDateTime) -> impl Iterator<Item = NaiveDateTime> {
    std::iter::successors(next_wall(pattern, after), |wall| next_wall(pattern, *wall)).take(MAX_CANDIDATES)
}

/// Returns the next instant of a fixed time of day, which occurs once on every matching day whatever the clocks do.
fn next_fixed(pattern: &Cron, after: Timestamp, zone: Zone) -> Option<Timestamp> {
    let instants =
        wall_times(pattern, zone.local(after).naive_local()).filter_map(|wall| match zone.readings(wall) {
            WallClockReadings::Once(at) | WallClockReadings::Twice(at, _) => Some(at),
            WallClockReadings::Never => zone.instant(wall).map(|at| timestamp(&at)),
        });
    instants.into_iter().find(|at| at.seconds() > after.seconds())
}

/// Returns the next instant at which the wall clock shows a matching time.
fn next_general(pattern: &Cron, after: Timestamp, zone: Zone) -> Option<Timestamp> {
    let mut best: Option<Timestamp> = None;
    for wall in wall_times(pattern, before_repeat(after, zone)) {
        let (first, second) = match zone.readings(wall) {
            WallClockReadings::Never => continue,
            WallClockReadings::Once(at) => (at, at),
            WallClockReadings::Twice(first, second) => (first, second),
        };
        // Later wall times first occur later still.
        if best.is_some_and(|best| first.seconds() >= best.seconds()) {
            break;
        }
        let next = [first, second].into_iter().find(|at| at.seconds() > after.seconds());
        best = match (best, next) {
            (Some(best), Some(next)) if best.seconds() <= next.seconds() => Some(best),
            (best, next) => next.or(best),
        };
    }
    best
}

/// Returns where to begin: at the current wall time, or earlier by the amount the clock will soon be put back.
fn before_repeat(after: Timestamp, zone: Zone) -> NaiveDateTime {
    #[expect(clippy::cast_precision_loss, reason = "a day in seconds")]
    let soon = zone.local(Timestamp(after.seconds() + MAX_CLOCK_SHIFT as f64));
    let now = zone.local(after);
    let back = i64::from(now.offset().local_minus_utc() - soon.offset().local_minus_utc()).max(0);
    now.naive_local().checked_sub_signed(TimeDelta::seconds(back)).unwrap_or_else(|| now.naive_local())
}

/// Builds the cron library's pattern, limited to one time of day where it is given.
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
    parser.parse(&all.join(" ")).map_err(|error| error.to_string())
}

/// Rewrites a field for the cron library: reversed ranges wrap around, `N/S` runs up to the maximum.
fn rewrite(field: &str, at: usize, bounds: (u32, u32)) -> Result<String, String> {
    let known = |c: char| c.is_ascii_digit() || matches!(c, '*' | '-' | ',' | '/');
    if let Some(strange) = field.chars().find(|c| !known(*c)) {
        return Err(format!("'{strange}' is not understood in '{field}'"));
    }
    let parts: Vec<String> =
        field.split(',').map(|part| rewrite_part(part, at, bounds)).collect::<Result<_, _>>()?;
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
        return match (range, step) {
            ("*", _) => Ok(part.to_owned()),
            (first, Some(step)) => Ok(format!("{}-{highest}/{step}", number(first)?)),
            (only, None) => Ok(number(only)?.to_string()),
        };
    };
    let (mut from, to) = (number(from)?, number(to)?);
    // Sunday has two numbers; at the start of a range it is day 0.
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

/// Returns the times of day of an expression that lists all of them; empty where a field is open.
fn fixed_times(fields: &[String]) -> Vec<(u32, u32)> {
    let (Some(minutes), Some(hours)) = (values(fields.first()), values(fields.get(1))) else {
        return Vec::new();
    };
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
        let (from, to, step) =
            (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?, step.parse::<usize>().ok()?);
        values.extend((from..=to.min(59)).step_by(step.max(1)));
    }
    values.sort_unstable();
    values.dedup();
    Some(values)
}
