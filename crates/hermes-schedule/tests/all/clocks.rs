//! Schedules on the days on which clocks change.

use super::support::{next, zone};

#[test]
fn a_time_that_does_not_exist_is_run_at_the_end_of_the_gap() {
    let berlin = zone("Europe/Berlin");
    assert_eq!(
        next("30 2 * * *", "2026-03-28T12:00:00+01:00", berlin, 2),
        ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    );
    let york = zone("America/New_York");
    assert_eq!(next("15 2 * * *", "2026-03-08T00:00:00-05:00", york, 1), ["2026-03-08T03:00:00-04:00"]);
    // This zone shifts its clock by half an hour only.
    let howe = zone("Australia/Lord_Howe");
    assert_eq!(next("15 2 * * *", "2026-10-03T12:00:00+10:30", howe, 1), ["2026-10-04T02:30:00+11:00"]);
}

#[test]
fn a_fixed_time_that_comes_twice_is_run_once() {
    let york = zone("America/New_York");
    assert_eq!(
        next("30 1 * * *", "2026-10-31T12:00:00-04:00", york, 2),
        ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]
    );
    let howe = zone("Australia/Lord_Howe");
    assert_eq!(
        next("45 1 * * *", "2026-04-04T12:00:00+11:00", howe, 2),
        ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]
    );
}

#[test]
fn several_fixed_times_follow_the_same_rule() {
    let york = zone("America/New_York");
    assert_eq!(
        next("30 1,13 * * *", "2026-10-31T18:00:00-04:00", york, 3),
        ["2026-11-01T01:30:00-04:00", "2026-11-01T13:30:00-05:00", "2026-11-02T01:30:00-05:00"]
    );
    assert_eq!(
        next("30 2,14 * * *", "2026-03-07T18:00:00-05:00", york, 2),
        ["2026-03-08T03:00:00-04:00", "2026-03-08T14:30:00-04:00"]
    );
    // Two times of day that fall on the same instant run once.
    assert_eq!(
        next("0 2,3,4 * * *", "2026-03-08T00:00:00-05:00", york, 2),
        ["2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00"]
    );
}

#[test]
fn an_hourly_pattern_follows_the_clock_through_both_passes() {
    let york = zone("America/New_York");
    assert_eq!(
        next("0 * * * *", "2026-11-01T00:30:00-04:00", york, 4),
        [
            "2026-11-01T01:00:00-04:00",
            "2026-11-01T01:00:00-05:00",
            "2026-11-01T02:00:00-05:00",
            "2026-11-01T03:00:00-05:00"
        ]
    );
    assert_eq!(
        next("0 * * * *", "2026-03-08T00:30:00-05:00", york, 3),
        ["2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00"]
    );
}

#[test]
fn a_gap_adds_no_run_to_a_time_before_it() {
    let berlin = zone("Europe/Berlin");
    assert_eq!(
        next("45 1 * * *", "2026-03-28T12:00:00+01:00", berlin, 2),
        ["2026-03-29T01:45:00+01:00", "2026-03-30T01:45:00+02:00"]
    );
}

#[test]
fn every_second_of_a_repeated_half_hour_comes_twice() {
    let howe = zone("Australia/Lord_Howe");
    let times = next("*/15 1 * * *", "2026-04-05T01:20:00+11:00", howe, 5);
    assert_eq!(
        times,
        [
            "2026-04-05T01:30:00+11:00",
            "2026-04-05T01:45:00+11:00",
            "2026-04-05T01:30:00+10:30",
            "2026-04-05T01:45:00+10:30",
            "2026-04-06T01:00:00+10:30"
        ]
    );
    assert_eq!(next("* * * * * *", "2026-04-05T01:59:59+11:00", howe, 1), ["2026-04-05T01:30:00+10:30"]);
}

#[test]
fn a_day_that_was_left_out_ends_with_the_next() {
    // Samoa skipped from the 29th to the 31st of December 2011.
    let apia = zone("Pacific/Apia");
    assert_eq!(
        next("0 12 * * *", "2011-12-29T08:00:00-10:00", apia, 3),
        ["2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"]
    );
}
