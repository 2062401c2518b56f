//! Determines what a job needs now: nothing, a run, or a record of missed runs.

use hermes_types::Timestamp;

use crate::job::Job;
use crate::schedule::ScheduleKind;
use crate::zone::{IsoTime, Zone, parse_instant, read_iso, timestamp};

/// Limits how many missed instants are recorded one by one.
const MAX_MISSED: usize = 1000;

/// The action that a job needs now.
#[derive(Debug, Clone, PartialEq)]
pub enum ScanFinding {
    Nothing,
    /// The job has no next time, or one computed in another zone, and gets this one.
    SetNext(Timestamp),
    /// The schedule gives no time at all.
    Broken,
    Due(DueInstants),
}

/// Instants that are due.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DueInstants {
    /// The instant that the job runs for.
    pub run: Option<Timestamp>,
    /// Other instants that the same run covers, because they were due together with it.
    pub coalesced: Vec<Timestamp>,
    /// Instants that are too late to be made up.
    pub missed: Vec<Timestamp>,
    /// The next due time after these. `None` for a job that runs once: it keeps its time until it has run.
    pub next: Option<Timestamp>,
}

/// Determines what a job needs now. Each instant is judged by its own lateness; at most one of them is run.
pub fn scan(job: &Job, now: Timestamp, zone: Zone) -> ScanFinding {
    if !job.is_enabled() || job.is_paused() {
        return ScanFinding::Nothing;
    }
    let Some(due) = job.next_run() else { return without_time(job, now, zone) };
    if moved_by_zone(job, now, zone) {
        return job
            .schedule
            .next(job.last_run(), now, zone)
            .map_or(ScanFinding::Broken, ScanFinding::SetNext);
    }
    if due.seconds() > now.seconds() {
        return ScanFinding::Nothing;
    }
    if !job.schedule.recurs() {
        return ScanFinding::Due(DueInstants { run: Some(due), ..DueInstants::default() });
    }
    let mut instants = vec![due];
    instants.extend(job.schedule.between(due, now, zone, MAX_MISSED));
    let oldest = now.seconds() - job.schedule.grace(now, zone);
    let late = instants.iter().take_while(|at| at.seconds() < oldest).count();
    let mut in_time = instants.split_off(late);
    let run = in_time.pop();
    // Counted from now, not from the last run: missed instants must not make the job due again at once.
    let next = job.schedule.next(Some(now), now, zone);
    ScanFinding::Due(DueInstants { run, coalesced: in_time, missed: instants, next })
}

fn without_time(job: &Job, now: Timestamp, zone: Zone) -> ScanFinding {
    match job.schedule.next(job.last_run(), now, zone) {
        Some(next) => ScanFinding::SetNext(next),
        None if job.schedule.recurs() && job.state() != "error" => ScanFinding::Broken,
        None => ScanFinding::Nothing,
    }
}

/// Tells whether a time of day was computed in another zone and, read in this one, is still in the future.
fn moved_by_zone(job: &Job, now: Timestamp, zone: Zone) -> bool {
    let Some(ScheduleKind::Cron { .. }) = job.schedule.kind() else { return false };
    let Some(text) = job.next_run_at.as_deref() else { return false };
    let (Ok(IsoTime::Instant(stored)), Some(at)) = (read_iso(text), parse_instant(text)) else {
        return false;
    };
    if zone.local(at).offset() == stored.offset() {
        return false;
    }
    let here = zone.instant(stored.naive_local());
    here.is_some_and(|here| timestamp(&here).seconds() > now.seconds())
}
