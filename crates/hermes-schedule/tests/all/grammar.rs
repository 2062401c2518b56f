//! Schedules as users write them.

use hermes_schedule::{ScheduleKind, parse};
use proptest::prelude::*;

use super::support::{at, next, now, schedule, zone};

fn days(text: &str, count: usize) -> Vec<String> {
    let times = next(text, "2026-03-04T10:07:30+00:00", zone("UTC"), count);
    times
        .iter()
        .map(|time| time.strip_prefix("2026-").unwrap_or(time).strip_suffix(":00+00:00").unwrap().to_owned())
        .collect()
}

#[test]
fn reference_values_of_the_dialect() {
    assert_eq!(days("0 9 * * 1-5", 3), ["03-05T09:00", "03-06T09:00", "03-09T09:00"]);
    assert_eq!(days("0 0 13 * 5", 3), ["03-06T00:00", "03-13T00:00", "03-20T00:00"]);
    assert_eq!(days("*/7 * * * *", 3), ["03-04T10:14", "03-04T10:21", "03-04T10:28"]);
    assert_eq!(days("0 0 31 * *", 3), ["03-31T00:00", "05-31T00:00", "07-31T00:00"]);
    assert_eq!(days("0 0 29 2 *", 1), ["2028-02-29T00:00"]);
    assert_eq!(days("0 0 * * 7", 2), ["03-08T00:00", "03-15T00:00"]);
    let dates = |dates: &[&str]| dates.iter().map(|day| format!("03-{day}T00:00")).collect::<Vec<_>>();
    assert_eq!(days("0 0 */2 * 1", 8), dates(&["05", "07", "09", "11", "13", "15", "16", "17"]));
    assert_eq!(days("0 0 1 * */2", 4), dates(&["05", "07", "08", "10"]));
    assert_eq!(days("1/10 * * * *", 2), ["03-04T10:11", "03-04T10:21"]);
}

#[test]
fn reversed_ranges_go_around_the_end() {
    assert_eq!(
        days("0 22-2 * * *", 5),
        ["03-04T22:00", "03-04T23:00", "03-05T00:00", "03-05T01:00", "03-05T02:00"]
    );
    assert_eq!(days("0 0 * * 6-1", 4), ["03-07T00:00", "03-08T00:00", "03-09T00:00", "03-14T00:00"]);
    assert_eq!(days("0 0 * * 7-2", 3), ["03-08T00:00", "03-09T00:00", "03-10T00:00"]);
    assert_eq!(days("0 22-3/2 * * *", 3), ["03-04T22:00", "03-05T00:00", "03-05T02:00"]);
    assert_eq!(days("0 0 1 11-1 *", 3), ["11-01T00:00", "12-01T00:00", "2027-01-01T00:00"]);
}

#[test]
fn seconds_and_years_stand_last() {
    let times = next("* * * * * 15", "2026-03-04T10:07:30+00:00", zone("UTC"), 2);
    assert_eq!(times, ["2026-03-04T10:08:15+00:00", "2026-03-04T10:09:15+00:00"]);
    let times = next("0 0 1 1 * 0 2030", "2026-03-04T10:07:30+00:00", zone("UTC"), 2);
    assert_eq!(times, ["2030-01-01T00:00:00+00:00"]);
}

#[test]
fn a_match_at_the_base_does_not_count() {
    assert_eq!(
        next("0 10 * * *", "2026-03-04T10:00:00+00:00", zone("UTC"), 1),
        ["2026-03-05T10:00:00+00:00"]
    );
    assert_eq!(
        next("0 10 * * *", "2026-03-04T09:59:59.9+00:00", zone("UTC"), 1),
        ["2026-03-04T10:00:00+00:00"]
    );
    assert_eq!(
        next("* * * * *", "2026-03-04T10:00:00.5+00:00", zone("UTC"), 1),
        ["2026-03-04T10:01:00+00:00"]
    );
}

fn refused(text: &str) -> String {
    parse(text, now(), zone("UTC")).unwrap_err().to_string()
}

#[test]
fn wrong_expressions_say_why() {
    for text in [
        "60 * * * *",
        "* 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "*/0 * * * *",
        "1-2-3 * * * *",
        "1, * * * *",
        "-5 * * * *",
        "/5 * * * *",
        "** * * * *",
        "5-70 * * * *",
        "* * * * * 60",
        "* * * * * 0 0",
        "* * * * * 1 2030 9",
    ] {
        assert!(
            refused(text).starts_with(&format!("Invalid cron expression '{text}': ")),
            "{text}: {}",
            refused(text)
        );
    }
    assert!(refused("0 0 30 2 *").contains("no date ever matches"), "{}", refused("0 0 30 2 *"));
}

#[test]
fn names_and_nicknames_are_not_understood() {
    for text in [
        "0 9 * * MON",
        "@daily",
        "0 0 L * *",
        "0 0 * * 1#2",
        "0 0 ? * *",
        "0 9 * JAN *",
        "soon",
        "",
        "1h30m",
        "2w",
        "30s",
    ] {
        let words = refused(text);
        assert!(words.starts_with(&format!("Invalid schedule '{text}'. Use:\n")), "{words}");
        assert_eq!(words.lines().count(), 5, "{words}");
        for form in ["Duration", "Interval", "Cron", "Timestamp"] {
            assert!(words.contains(form), "{words}");
        }
    }
}

#[test]
fn a_duration_runs_once_and_every_repeats() {
    assert_eq!(schedule("30m").kind(), Some(ScheduleKind::Once { at: at("2026-03-04T10:37:30+00:00") }));
    assert_eq!(schedule("30m").display(), Some("once in 30m"));
    assert_eq!(schedule("every 30m").kind(), Some(ScheduleKind::Interval { minutes: 30 }));
    assert_eq!(schedule("every 2h").display(), Some("every 120m"));
    assert_eq!(schedule(" EVERY 1 Day ").display(), Some("every 1440m"));
    assert_eq!(schedule("2 hrs").kind(), Some(ScheduleKind::Once { at: at("2026-03-04T12:07:30+00:00") }));
    assert_eq!(refused("every day"), "Invalid duration: 'day'. Use format like '30m', '2h', or '1d'");
    assert_eq!(refused("every 1h30m"), "Invalid duration: '1h30m'. Use format like '30m', '2h', or '1d'");
    assert!(refused("every 0m").starts_with("Invalid duration: '0m'"));
    assert!(refused("every 99999999999999999999d").starts_with("Invalid duration"));
}

#[test]
fn timestamps_with_and_without_a_zone() {
    let once = |text: &str| {
        let schedule = parse(text, now(), zone("Europe/Berlin")).unwrap();
        (schedule.fields()["run_at"].as_str().unwrap().to_owned(), schedule.display().unwrap().to_owned())
    };
    let is = |run_at: &str, display: &str| (run_at.to_owned(), display.to_owned());
    assert_eq!(once("2026-03-15"), is("2026-03-15T00:00:00+01:00", "once at 2026-03-15 00:00"));
    assert_eq!(once("2026-03-15 09:30"), is("2026-03-15T09:30:00+01:00", "once at 2026-03-15 09:30"));
    assert_eq!(once("2026-07-15T09:30:05"), is("2026-07-15T09:30:05+02:00", "once at 2026-07-15 09:30"));
    assert_eq!(once("2026-03-15T09:30Z"), is("2026-03-15T09:30:00+00:00", "once at 2026-03-15 09:30"));
    assert_eq!(once("2026-03-15T09:30:00-0530"), is("2026-03-15T09:30:00-05:30", "once at 2026-03-15 09:30"));
    assert_eq!(once("2026-03-29T02:30"), is("2026-03-29T03:00:00+02:00", "once at 2026-03-29 03:00"));
    assert_eq!(once("2026-10-25T02:30"), is("2026-10-25T02:30:00+02:00", "once at 2026-10-25 02:30"));
    for text in ["2026-02-30", "2026-03-15T25:00", "2026-03-15x09:00", "2026-03-15T09:00+25", "Tomorrow 9am"]
    {
        assert!(refused(text).starts_with(&format!("Invalid timestamp '{text}': ")), "{}", refused(text));
    }
}

#[test]
fn a_schedule_is_stored_with_its_fields_in_order() {
    let text = |input: &str| serde_json::to_string(&schedule(input)).unwrap();
    assert_eq!(text("every 2h"), r#"{"kind":"interval","minutes":120,"display":"every 120m"}"#);
    assert_eq!(text("0 9 * * 6-1"), r#"{"kind":"cron","expr":"0 9 * * 6-1","display":"0 9 * * 6-1"}"#);
    assert_eq!(text("1d"), r#"{"kind":"once","run_at":"2026-03-05T10:07:30+00:00","display":"once in 1d"}"#);
}

proptest! {
    #[test]
    fn any_text_is_a_schedule_or_an_error(text in "\\PC{0,60}") {
        let _ = parse(&text, now(), zone("UTC"));
    }

    #[test]
    fn any_five_fields_are_an_expression_or_an_error(text in "[0-9*,/ -]{1,40}", zoned in 0usize..3) {
        let zone = zone(["UTC", "Australia/Lord_Howe", "America/New_York"][zoned]);
        if let Ok(schedule) = parse(&text, now(), zone) {
            let next = schedule.next(None, now(), zone);
            let ahead = !schedule.recurs() || next.is_some_and(|next| next.seconds() > now().seconds());
            prop_assert!(ahead, "{:?}", next);
        }
    }

    #[test]
    fn times_go_forward(minute in 0u32..60, hour in 0u32..24, day in 1u32..29, start in 0u32..365) {
        let zone = zone("America/New_York");
        let from = hermes_types::Timestamp(at("2026-01-01T00:00:00-05:00").seconds() + f64::from(start) * 86_400.0);
        let schedule = parse(&format!("{minute} {hour} {day} * *"), from, zone).unwrap();
        let first = schedule.next(None, from, zone).unwrap();
        let second = schedule.next(None, first, zone).unwrap();
        prop_assert!(from.seconds() < first.seconds() && first.seconds() < second.seconds());
    }
}
