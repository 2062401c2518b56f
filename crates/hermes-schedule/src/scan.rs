//! What a look at a job finds: nothing, something to run, something that was missed.

use hermes_types::Timestamp;

use crate::job::Job;
use crate::schedule::ScheduleKind;
use crate::zone::{IsoTime, Zone, parse_instant, read_iso, timestamp};

/// Missed instants are written down one by one up to this many.
const MAX_MISSED: usize = 1000;

/// What is to be done about a job now.
#[derive(Debug, Clone, PartialEq)]
pub enum ScanFinding {
    Nothing,
    /// It has no time, or one of another zone, and gets this one.
    SetNext(Timestamp),
    /// Its schedule gives no time at all.
    Broken,
    Due(DueInstants),
}

/// Instants that have come.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DueInstants {
    /// The one it runs for.
    pub run: Option<Timestamp>,
    /// Others it runs for at the same time: they came too close together.
    pub coalesced: Vec<Timestamp>,
    /// Too late to be made up for.
    pub missed: Vec<Timestamp>,
    /// When it is due after that. Nothing for what runs once: that stays where it is until it has run.
    pub next: Option<Timestamp>,
}

/// Looks at a job. Each instant is judged by its own lateness; at most one of them is run.
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
    // From now, not from the last run: what was missed must not make it due again at once.
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

/// A time of day that was computed in another zone and, read in this one, has not come yet.
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
