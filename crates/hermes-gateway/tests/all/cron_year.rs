//! A year of scheduled jobs across both daylight-saving changes, with the gateway down for hours at a time.
//!
//! The expected results are computed here by walking through every minute of the year, without the code under
//! test.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{
    DateTime, Datelike as _, MappedLocalTime, NaiveDate, TimeDelta, TimeZone as _, Timelike as _, Utc,
    Weekday,
};
use chrono_tz::Tz;
use hermes_config::Home;
use hermes_schedule::{JobFilter, JobOrigin, JobStore, NewJob, Zone, earliest_next_run};
use hermes_store::JobRunState;
use hermes_testkit::{FakeChannel, TestClock};
use hermes_types::{Clock as _, Timestamp};

use super::support::{GatewayFixture, GatewayFixturePlan, ModelStep, TestModel};

const GAP: &str = "30 2 * * *";
const OVERLAP: &str = "45 1 * * *";
/// A schedule that follows the wall clock, because its minutes are a pattern.
const OPEN: &str = "*/30 1-3 * * 0";
const SCHEDULES: [&str; 3] = [GAP, OVERLAP, OPEN];

/// The outcome of an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Run,
    /// The instant was run together with a later one.
    Joined,
    Missed,
}

/// A deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (self.0 >> 33) % (to - from)
    }
}

/// Returns the instants of a daily time: once a day, at the end of the gap where it does not exist.
fn daily(zone: Tz, hour: u32, minute: u32) -> Vec<i64> {
    let first = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap();
    let at = |day: i64| {
        let mut wall = (first + TimeDelta::days(day)).and_hms_opt(hour, minute, 0).unwrap();
        loop {
            match zone.from_local_datetime(&wall) {
                MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => return at.timestamp(),
                MappedLocalTime::None => wall += TimeDelta::minutes(1),
            }
        }
    };
    (0..370).map(at).collect()
}

/// Returns the instants of the open pattern: every minute of real time at which the wall clock shows one of its
/// times.
fn open(zone: Tz, from: i64, to: i64) -> Vec<i64> {
    let minutes = (from / 60..=to / 60).map(|minute| minute * 60);
    minutes
        .filter(|at| {
            let wall = DateTime::<Utc>::from_timestamp(*at, 0).unwrap().with_timezone(&zone);
            wall.weekday() == Weekday::Sun
                && (1..=3).contains(&wall.hour())
                && wall.minute().is_multiple_of(30)
        })
        .collect()
}

/// A period in which the gateway runs: from its first second on, it checks every minute.
struct Window {
    from: i64,
    to: i64,
}

fn windows(dice: &mut Dice, begin: i64, end: i64) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut at = begin;
    while at < end {
        let to = (at + i64::try_from(dice.roll(3600, 14 * 86_400)).unwrap()).min(end);
        windows.push(Window { from: at, to });
        at = to + i64::try_from(dice.roll(60, 40 * 3600)).unwrap();
    }
    windows
}

/// Returns half of the time between the two instants after `now`, within bounds.
fn grace(instants: &[i64], now: i64) -> i64 {
    let mut after = instants.iter().filter(|at| **at > now);
    match (after.next(), after.next()) {
        (Some(first), Some(second)) => ((second - first) / 2).clamp(120, 7200),
        _ => 7200,
    }
}

/// Computes the expected outcome of each instant.
fn expected(instants: &[i64], windows: &[Window]) -> BTreeMap<i64, Fate> {
    let mut fates = BTreeMap::new();
    let mut before = windows[0].from;
    for window in windows {
        // Everything that was due while the gateway was down is found at the first check.
        let found: Vec<i64> =
            instants.iter().copied().filter(|at| *at > before && *at <= window.from).collect();
        let oldest = window.from - grace(instants, window.from);
        for at in &found {
            let fate = match at {
                at if *at < oldest => Fate::Missed,
                at if Some(at) == found.last() => Fate::Run,
                _ => Fate::Joined,
            };
            fates.insert(*at, fate);
        }
        // The last check of a window is up to a minute before its end.
        let last_look = window.from + (window.to - window.from) / 60 * 60;
        for at in instants.iter().filter(|at| **at > window.from && **at <= last_look) {
            fates.insert(*at, Fate::Run);
        }
        before = last_look;
    }
    fates
}

async fn year(name: &'static str, env: &'static [(&'static str, &'static str)], seed: u64) {
    let zone: Tz = name.parse().unwrap();
    let begin = zone.with_ymd_and_hms(2026, 1, 1, 12, 0, 7).unwrap().timestamp();
    let end = zone.with_ymd_and_hms(2027, 1, 1, 0, 0, 7).unwrap().timestamp();
    let windows = windows(&mut Dice(seed), begin, end);
    let clock = TestClock::new();
    clock.set_wall(seconds(begin));
    // A year of syncing to a real disk would take minutes.
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = Arc::new(memory.unwrap());
    let jobs = JobStore::new(Home::new(folder.path()), Zone::named(name).unwrap());
    let mut ids = BTreeMap::new();
    for schedule in SCHEDULES {
        let origin =
            JobOrigin { platform: "fake".into(), chat_id: "chat-ann".into(), ..JobOrigin::default() };
        let new = NewJob {
            prompt: "p".into(),
            name: Some(schedule.into()),
            schedule: schedule.into(),
            origin: Some(origin),
            ..NewJob::default()
        };
        ids.insert(jobs.create(new, clock.now()).unwrap().id.to_string(), schedule);
    }
    let channel = FakeChannel::new("fake");
    let mut seen: BTreeMap<(&str, i64), Fate> = BTreeMap::new();
    for window in &windows {
        clock.set_wall(seconds(window.from));
        let model = TestModel::new(|_, _| ModelStep::Say("[SILENT]".into()));
        let plan = GatewayFixturePlan {
            env,
            clock: clock.clone(),
            channel: channel.clone(),
            config: "cron: {output_retention: 1}",
            ..GatewayFixturePlan::new(model)
        };
        let bench = plan.start_in(folder.clone()).await;
        let mut now = window.from;
        while now <= window.to {
            clock.set_wall(seconds(now));
            bench.gateway.scheduler().tick_once().await.unwrap();
            let next = earliest_next_run(&jobs.list(JobFilter::Enabled)).unwrap().seconds();
            #[expect(clippy::cast_possible_truncation, reason = "whole seconds of a year")]
            let wait = (next as i64 - now).max(1);
            // The clock moves to the check at which the job is due; checks happen every minute.
            now += (wait + 59) / 60 * 60;
        }
        collect(&bench, &ids, &mut seen).await;
        bench.until_quiet().await;
        bench.kill().await;
    }
    let mut told = 0;
    for schedule in SCHEDULES {
        let instants = match schedule {
            GAP => daily(zone, 2, 30),
            OVERLAP => daily(zone, 1, 45),
            _ => open(zone, begin, end + 8 * 86_400),
        };
        let instants: Vec<i64> = instants.into_iter().filter(|at| *at > begin).collect();
        let expected = expected(&instants, &windows);
        let got: BTreeMap<i64, Fate> =
            seen.iter().filter(|((of, _), _)| *of == schedule).map(|((_, at), fate)| (*at, *fate)).collect();
        // Only the differences are shown.
        let shown = |fates: &BTreeMap<i64, Fate>, other: &BTreeMap<i64, Fate>| {
            let different = fates.iter().filter(|(at, fate)| other.get(at) != Some(fate));
            different
                .map(|(at, fate)| format!("{} {fate:?}", Zone::named(name).unwrap().iso(seconds(*at))))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&got, &expected), shown(&expected, &got), "{name} {schedule}");
        assert!(
            got.values().any(|fate| *fate == Fate::Missed) && got.values().any(|fate| *fate == Fate::Run)
        );
        // There is one line for each downtime in which something was missed.
        told += windows
            .windows(2)
            .filter(|pair| {
                expected
                    .iter()
                    .any(|(at, fate)| *fate == Fate::Missed && *at > pair[0].to - 60 && *at <= pair[1].from)
            })
            .count();
    }
    let lines = channel.texts("ann");
    assert_eq!(lines.len(), told, "{lines:#?}");
    assert!(lines.iter().all(|line| line.contains("missed") && line.lines().count() == 1));
}

/// Reads the rows before each end, because they are kept only for a while.
async fn collect(
    bench: &GatewayFixture,
    ids: &BTreeMap<String, &'static str>,
    seen: &mut BTreeMap<(&'static str, i64), Fate>,
) {
    for run in bench.store.job_runs(None, 1000).await.unwrap() {
        let fate = match (run.state, run.error.as_deref()) {
            (JobRunState::Completed, _) => Fate::Run,
            (JobRunState::Missed, Some("run together with a later one")) => Fate::Joined,
            (JobRunState::Missed, _) => Fate::Missed,
            _ => panic!("{run:?}"),
        };
        assert!(run.notified && run.recorded, "{run:?}");
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds of a year")]
        let at = run.due_at.seconds() as i64;
        let known = seen.insert((ids[&run.job], at), fate);
        assert!(known.is_none_or(|known| known == fate), "an outcome does not change");
    }
}

fn seconds(at: i64) -> Timestamp {
    #[expect(clippy::cast_precision_loss, reason = "seconds of a year")]
    Timestamp(at as f64)
}

#[tokio::test]
async fn in_berlin() {
    year("Europe/Berlin", &[("HERMES_TIMEZONE", "Europe/Berlin")], 1).await;
}

#[tokio::test]
async fn in_new_york() {
    year("America/New_York", &[("HERMES_TIMEZONE", "America/New_York")], 2).await;
}

#[tokio::test]
async fn on_lord_howe_island() {
    year("Australia/Lord_Howe", &[("HERMES_TIMEZONE", "Australia/Lord_Howe")], 3).await;
}
