//! Due and missed runs.

use hermes_schedule::{DueInstants, Job, ScanFinding, scan};
use serde_json::json;

use super::support::{at, now, zone};

fn job(schedule: &serde_json::Value, next: Option<&str>) -> Job {
    serde_json::from_value(json!({"id": "a", "schedule": schedule, "next_run_at": next})).unwrap()
}

fn interval(minutes: u64, next: &str) -> Job {
    job(&json!({"kind": "interval", "minutes": minutes}), Some(next))
}

fn cron(expr: &str, next: Option<&str>) -> Job {
    job(&json!({"kind": "cron", "expr": expr}), next)
}

#[track_caller]
fn due(job: &Job) -> DueInstants {
    match scan(job, now(), zone("UTC")) {
        ScanFinding::Due(due) => due,
        other => panic!("{other:?}"),
    }
}

#[test]
fn grace_is_half_the_period_within_bounds() {
    let grace = |text: &str| super::support::schedule(text).grace(now(), zone("UTC"));
    let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert!(close(grace("every 1m"), 120.0));
    assert!(close(grace("every 10m"), 300.0));
    assert!(close(grace("0 * * * *"), 1800.0));
    assert!(close(grace("0 9 * * *"), 7200.0));
}

#[test]
fn something_a_little_late_is_run_and_something_too_late_is_missed() {
    let late = due(&interval(10, "2026-03-04T10:03:00+00:00"));
    assert_eq!((late.run, late.missed.len()), (Some(at("2026-03-04T10:03:00+00:00")), 0));
    assert_eq!(late.next, Some(at("2026-03-04T10:17:30+00:00")));
    let too_late = due(&interval(10, "2026-03-04T10:02:00+00:00"));
    assert_eq!(too_late.run, None);
    assert_eq!(too_late.missed, [at("2026-03-04T10:02:00+00:00")]);
    assert_eq!(too_late.next, Some(at("2026-03-04T10:17:30+00:00")));
}

#[test]
fn days_of_absence_are_missed_one_by_one_and_run_at_most_once() {
    let found = due(&cron("0 9 * * *", Some("2026-03-01T09:00:00+00:00")));
    assert_eq!(found.missed, [at("2026-03-01T09:00Z"), at("2026-03-02T09:00Z"), at("2026-03-03T09:00Z")]);
    assert_eq!(found.run, Some(at("2026-03-04T09:00Z")), "today's is not too late");
    let found = due(&cron("0 7 * * *", Some("2026-03-03T07:00:00+00:00")));
    assert_eq!((found.run, found.missed.len()), (None, 2));
    assert_eq!(found.next, Some(at("2026-03-05T07:00Z")));
}

#[test]
fn instants_too_close_together_are_run_as_one() {
    let found = due(&cron("6,7 10 * * *", Some("2026-03-04T10:06:00+00:00")));
    assert_eq!((found.run, found.coalesced), (Some(at("2026-03-04T10:07Z")), vec![at("2026-03-04T10:06Z")]));
    assert_eq!(found.missed, []);
}

#[test]
fn an_absence_of_a_year_is_bounded() {
    let found = due(&cron("* * * * *", Some("2025-03-04T10:00:00+00:00")));
    assert!(found.missed.len() <= 1001, "{}", found.missed.len());
    assert_eq!(found.next, Some(at("2026-03-04T10:08Z")));
}

#[test]
fn what_runs_once_stays_due_however_late() {
    let once = json!({"kind": "once", "run_at": "2026-03-01T09:00:00+00:00"});
    let found = due(&job(&once, Some("2026-03-01T09:00:00+00:00")));
    assert_eq!((found.run, found.next), (Some(at("2026-03-01T09:00Z")), None));
    assert_eq!(scan(&job(&once, None), now(), zone("UTC")), ScanFinding::Nothing);
    let fresh = json!({"kind": "once", "run_at": "2026-03-04T10:06:00+00:00"});
    assert_eq!(scan(&job(&fresh, None), now(), zone("UTC")), ScanFinding::SetNext(at("2026-03-04T10:06Z")));
}

#[test]
fn a_recurring_job_without_a_time_gets_one() {
    assert_eq!(
        scan(&cron("0 9 * * *", None), now(), zone("UTC")),
        ScanFinding::SetNext(at("2026-03-05T09:00Z"))
    );
    assert_eq!(scan(&cron("0 0 30 2 *", None), now(), zone("UTC")), ScanFinding::Broken);
    assert_eq!(scan(&job(&json!({"kind": "moon"}), None), now(), zone("UTC")), ScanFinding::Nothing);
}

#[test]
fn instants_are_compared_as_instants() {
    // Compared as texts, the first is later than the second.
    let job = interval(60, "2026-03-04T12:00:00+02:00");
    assert_eq!(due(&job).run, Some(at("2026-03-04T10:00Z")));
    let job = interval(60, "2026-03-04T09:59:00-05:00");
    assert_eq!(scan(&job, now(), zone("UTC")), ScanFinding::Nothing);
}

#[test]
fn a_zone_that_changed_moves_the_time_instead_of_running() {
    let job = cron("0 18 * * *", Some("2026-03-04T18:00:00+09:00"));
    assert_eq!(scan(&job, now(), zone("UTC")), ScanFinding::SetNext(at("2026-03-04T18:00Z")));
    // Read in this zone the time has passed too, so the job is due.
    let job = cron("0 10 * * *", Some("2026-03-04T10:00:00+01:00"));
    assert!(matches!(scan(&job, now(), zone("UTC")), ScanFinding::Due(_)));
}

#[test]
fn jobs_at_rest_are_never_due() {
    let mut job = interval(10, "2026-03-04T10:05:00+00:00");
    job.enabled = Some(false);
    assert_eq!(scan(&job, now(), zone("UTC")), ScanFinding::Nothing);
}
