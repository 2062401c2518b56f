//! `hermes insights`: usage statistics by source, model, tool and time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use hermes_store::{SessionUsage, Store, UsageInsights};
use hermes_text::with_commas;
use hermes_types::{Timestamp, Usage};

use crate::command::chat::format_duration;
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;

const MAX_TOOLS: usize = 15;
const MAX_HOURS: usize = 5;
const BAR: usize = 20;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

pub(crate) fn run(
    days: u32,
    source: Option<String>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    // Days and hours are those of the configured time zone.
    context.config(output);
    let store = context.store(output)?;
    output.text(&report(&store, days, source, now())?);
    Ok(ExitCode::SUCCESS)
}

/// Formats the whole report.
pub(crate) fn report(store: &Store, days: u32, source: Option<String>, at: Timestamp) -> Result<String> {
    let since = at.minus(Duration::from_secs(u64::from(days) * 86_400));
    let found = store.insights(since, source).wait()?;
    if found.sessions.is_empty() {
        return Ok(format!("No sessions found in the last {days} days.\n"));
    }
    // Writing to a `String` cannot fail.
    let mut text = format!("📊 Hermes Insights — last {days} days\n");
    overview(&mut text, &found);
    table(&mut text, "Models Used", &group_by(&found, |session| model_name(session.model.as_deref())));
    table(&mut text, "Platforms", &group_by(&found, |session| session.source.clone()));
    tools(&mut text, &found);
    patterns(&mut text, &found);
    notable_sessions(&mut text, &found);
    Ok(text)
}

fn number(count: u64) -> String {
    with_commas(count)
}

/// Returns the seconds a session lasted; zero if the clock stepped back.
fn duration(session: &SessionUsage) -> u64 {
    session.ended_at.map_or(0, |end| end.since(session.started_at).as_secs())
}

fn total(sessions: &[SessionUsage]) -> Usage {
    let mut usage = Usage::default();
    for session in sessions {
        usage += session.usage;
    }
    usage
}

fn overview(text: &mut String, found: &UsageInsights) {
    let sessions = &found.sessions;
    let usage = total(sessions);
    let messages: u64 = sessions.iter().map(|session| session.messages).sum();
    let calls: u64 = sessions.iter().map(|session| session.tool_calls).sum();
    let costs: Vec<f64> = sessions.iter().filter_map(|session| session.cost_usd).collect();
    let seconds: u64 = sessions.iter().map(duration).sum();
    let _ = writeln!(text, "\nOverview");
    let _ = writeln!(
        text,
        "  Sessions:     {:<12} Messages:    {}",
        number(sessions.len() as u64),
        number(messages)
    );
    let _ = writeln!(text, "  Tool calls:   {:<12} Active time: {}", number(calls), format_duration(seconds));
    let _ =
        writeln!(text, "  Input tokens: {:<12} Output:      {}", number(usage.input), number(usage.output));
    let _ = writeln!(
        text,
        "  Cache read:   {:<12} Cache write: {}",
        number(usage.cache_read),
        number(usage.cache_write)
    );
    let cost = if costs.is_empty() { "N/A".to_owned() } else { format!("${:.2}", costs.iter().sum::<f64>()) };
    let _ = writeln!(text, "  Total tokens: {:<12} Est. cost:   {cost}", number(usage.total()));
    let each = sessions.len() as u64;
    let _ = writeln!(
        text,
        "  Per session:  {} messages, {}",
        messages / each.max(1),
        format_duration(seconds / each.max(1))
    );
}

struct UsageGroup {
    name: String,
    sessions: u64,
    tokens: u64,
    cost: Option<f64>,
}

fn group_by(found: &UsageInsights, key: impl Fn(&SessionUsage) -> String) -> Vec<UsageGroup> {
    let mut groups: BTreeMap<String, UsageGroup> = BTreeMap::new();
    for session in &found.sessions {
        let name = key(session);
        let group =
            groups.entry(name.clone()).or_insert(UsageGroup { name, sessions: 0, tokens: 0, cost: None });
        group.sessions += 1;
        group.tokens += session.usage.total();
        if let Some(cost) = session.cost_usd {
            *group.cost.get_or_insert(0.0) += cost;
        }
    }
    let mut groups: Vec<UsageGroup> = groups.into_values().collect();
    groups
        .sort_by(|a, b| b.tokens.cmp(&a.tokens).then(b.sessions.cmp(&a.sessions)).then(a.name.cmp(&b.name)));
    groups
}

/// Returns the model name without the vendor before the slash.
fn model_name(model: Option<&str>) -> String {
    let model = model.unwrap_or("unknown");
    model.rsplit('/').next().unwrap_or(model).to_owned()
}

fn table(text: &mut String, title: &str, groups: &[UsageGroup]) {
    let _ = writeln!(text, "\n{title}");
    for group in groups {
        let cost = group.cost.map_or("N/A".to_owned(), |cost| format!("${cost:.2}"));
        let _ = writeln!(
            text,
            "  {:<28} {:>6} sessions {:>14} tokens {:>10}",
            group.name,
            number(group.sessions),
            number(group.tokens),
            cost
        );
    }
}

fn tools(text: &mut String, found: &UsageInsights) {
    if found.tools.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nTop Tools");
    let all: u64 = found.tools.iter().map(|(_, count)| count).sum();
    for (name, count) in found.tools.iter().take(MAX_TOOLS) {
        let percent = count * 100 / all.max(1);
        let _ = writeln!(text, "  {name:<28} {:>8} calls  {percent:>3} %", number(*count));
    }
}

fn patterns(text: &mut String, found: &UsageInsights) {
    let (mut weekdays, mut hours) = ([0_u64; 7], BTreeMap::<u32, u64>::new());
    let mut dates = BTreeSet::new();
    for session in &found.sessions {
        let local = local_time(session.started_at);
        let day = day_number(local.year, local.month, local.day);
        // Day 0 was a Thursday.
        if let Some(count) = weekdays.get_mut(usize::try_from((day + 3).rem_euclid(7)).unwrap_or_default()) {
            *count += 1;
        }
        *hours.entry(local.hour).or_default() += 1;
        dates.insert(day);
    }
    let _ = writeln!(text, "\nActivity Patterns");
    let most = weekdays.iter().max().copied().unwrap_or(1).max(1);
    for (name, count) in DAYS.iter().zip(weekdays) {
        let bar = "█".repeat(usize::try_from(count * BAR as u64 / most).unwrap_or(BAR));
        let _ = writeln!(text, "  {name}  {bar:<BAR$} {count}");
    }
    let mut busiest: Vec<(u32, u64)> = hours.into_iter().collect();
    busiest.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let busiest: Vec<String> =
        busiest.iter().take(MAX_HOURS).map(|(hour, count)| format!("{hour:02}:00 ({count})")).collect();
    let _ = writeln!(text, "  Busiest hours: {}", busiest.join(", "));
    let _ = writeln!(text, "  Active days:   {}", dates.len());
    let _ = writeln!(text, "  Longest run:   {} days", longest_run(&dates));
}

/// Returns the number of days since 1970-01-01.
fn day_number(year: i32, month: u32, day: u32) -> i64 {
    let date = chrono::NaiveDate::from_ymd_opt(year, month, day).unwrap_or_default();
    date.signed_duration_since(chrono::NaiveDate::default()).num_days()
}

fn longest_run(days: &BTreeSet<i64>) -> u32 {
    let (mut longest, mut current, mut previous) = (0_u32, 0_u32, None);
    for day in days {
        current = if previous == Some(day - 1) { current + 1 } else { 1 };
        longest = longest.max(current);
        previous = Some(*day);
    }
    longest
}

fn notable_sessions(text: &mut String, found: &UsageInsights) {
    let _ = writeln!(text, "\nNotable Sessions");
    let mut line = |what: &str, key: &dyn Fn(&SessionUsage) -> u64, shown: &dyn Fn(u64) -> String| {
        let best = found.sessions.iter().max_by_key(|session| key(session));
        if let Some(session) = best.filter(|session| key(session) > 0) {
            let name = session.title.as_deref().unwrap_or(session.id.as_str());
            let _ = writeln!(text, "  {what:<18} {:<12} {name}", shown(key(session)));
        }
    };
    line("Longest:", &duration, &format_duration);
    line("Most messages:", &|session| session.messages, &number);
    line("Most tokens:", &|session| session.usage.total(), &number);
    line("Most tool calls:", &|session| session.tool_calls, &number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_days_are_counted() {
        assert_eq!(longest_run(&BTreeSet::from([1, 2, 3, 7, 8])), 3);
        assert_eq!(longest_run(&BTreeSet::new()), 0);
        assert_eq!((day_number(1970, 1, 1) + 3).rem_euclid(7), 3, "a Thursday");
    }
}
