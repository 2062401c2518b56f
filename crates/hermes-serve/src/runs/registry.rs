//! The runs of the last hour, bounded in number and in bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::{Cancel, UserAnswer};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

const RETENTION: Duration = Duration::from_hours(1);
/// The most ended runs that are kept; beyond that the oldest are removed first.
const MAX_ENDED_RUNS: usize = 1000;
/// The most bytes of events of one run.
const MAX_RUN_BYTES: usize = 256 * 1024;
/// The most bytes of events of all ended runs.
const MAX_ENDED_BYTES: usize = 8 * 1024 * 1024;

/// The state of a run.
pub(super) struct ApiRun {
    pub(super) status: &'static str,
    pub(super) events: RunEvents,
    /// The time of its end, and the final event.
    pub(super) ended: Option<(Duration, Value)>,
    pub(super) cancel: Cancel,
    pub(super) question: Option<oneshot::Sender<UserAnswer>>,
    /// Notified when the input is in the database.
    pub(super) stored: Option<oneshot::Sender<()>>,
    pub(super) changed: watch::Sender<()>,
}

impl ApiRun {
    pub(super) fn new(cancel: Cancel, stored: Option<oneshot::Sender<()>>) -> Self {
        Self {
            status: "running",
            events: RunEvents::default(),
            ended: None,
            cancel,
            question: None,
            stored,
            changed: watch::Sender::new(()),
        }
    }

    pub(super) fn end(&mut self, status: &'static str, event: Value, now: Duration) {
        self.status = status;
        self.stored = None;
        self.events.push(&event);
        self.ended = Some((now, event));
    }
}

/// The newest events, with their positions among all events.
#[derive(Default)]
pub(super) struct RunEvents {
    /// The number of older events that were dropped.
    dropped: usize,
    events: VecDeque<String>,
    bytes: usize,
}

impl RunEvents {
    pub(super) fn push(&mut self, event: &Value) {
        let text = event.to_string();
        self.bytes += text.len();
        self.events.push_back(text);
        // The last one stays, however long it is: it may be the answer.
        while self.bytes > MAX_RUN_BYTES && self.events.len() > 1 {
            self.bytes -= self.events.pop_front().map_or(0, |text| text.len());
            self.dropped += 1;
        }
    }

    /// Returns the events after the first `told`, and the new count for the listener.
    pub(super) fn since(&self, told: usize) -> (Vec<String>, usize) {
        let missed = self.dropped.saturating_sub(told);
        let notice = (missed > 0).then(|| json!({"event": "events.dropped", "count": missed}).to_string());
        let new = self.events.iter().skip(told.saturating_sub(self.dropped)).cloned();
        (notice.into_iter().chain(new).collect(), self.dropped + self.events.len())
    }
}

/// All runs that clients can ask about.
#[derive(Default)]
pub(crate) struct RunRegistry {
    runs: Mutex<HashMap<String, ApiRun>>,
}

impl RunRegistry {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<String, ApiRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run, unless it exists already.
    pub(super) fn insert(&self, id: &str, run: impl FnOnce() -> ApiRun, now: Duration) -> InsertOutcome {
        let mut known = self.lock();
        if known.contains_key(id) {
            return InsertOutcome::Existing;
        }
        remove_old_runs(&mut known, now);
        known.insert(id.to_owned(), run());
        InsertOutcome::New
    }

    pub(super) fn forget_ended(&self, id: &str) {
        let mut known = self.lock();
        if known.get(id).is_some_and(|run| run.ended.is_some()) {
            known.remove(id);
        }
    }

    pub(super) fn update(&self, id: &str, change: impl FnOnce(&mut ApiRun)) {
        if let Some(run) = self.lock().get_mut(id) {
            change(run);
            // There may be no listener.
            let _ = run.changed.send(());
        }
    }
}

/// Says whether a run was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InsertOutcome {
    New,
    Existing,
}

/// Removes runs that ended too long ago, and the oldest ended ones when they are too many or too large.
fn remove_old_runs(known: &mut HashMap<String, ApiRun>, now: Duration) {
    known.retain(|_, run| run.ended.as_ref().is_none_or(|(at, _)| now.saturating_sub(*at) < RETENTION));
    let ended = |(id, run): (&String, &ApiRun)| Some((run.ended.as_ref()?.0, run.events.bytes, id.clone()));
    let mut ended: Vec<_> = known.iter().filter_map(ended).collect();
    ended.sort_unstable_by(|a, b| b.cmp(a));
    let mut bytes = 0;
    for (at, (_, size, id)) in ended.into_iter().enumerate() {
        bytes += size;
        if at >= MAX_ENDED_RUNS || bytes > MAX_ENDED_BYTES {
            known.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(at: u64, bytes: usize) -> ApiRun {
        let mut run = ApiRun::new(Cancel::new(), None);
        run.end("completed", json!({"event": "run.completed", "output": "x".repeat(bytes)}), seconds(at));
        run
    }

    fn seconds(at: u64) -> Duration {
        Duration::from_secs(at)
    }

    #[test]
    fn one_run_holds_its_newest_events_and_says_what_is_missing() {
        let mut events = RunEvents::default();
        for at in 0..10_000 {
            events.push(&json!({"event": "message.delta", "delta": format!("{at:0100}")}));
        }
        assert!(events.bytes <= MAX_RUN_BYTES);
        let (heard, told) = events.since(0);
        assert_eq!(told, 10_000);
        let gone = 10_000 - (heard.len() - 1);
        assert_eq!(heard[0], json!({"event": "events.dropped", "count": gone}).to_string());
        assert!(heard[heard.len() - 1].contains("9999"));
        assert_eq!(events.since(9_999).0.len(), 1, "who listens all the time misses nothing");
        assert!(events.since(10_000).0.is_empty());
    }

    #[test]
    fn ended_runs_are_bounded_by_age_number_and_bytes() {
        let runs = RunRegistry::default();
        let enter = |id: String, run: ApiRun, now: u64| runs.insert(&id, || run, seconds(now));
        enter("old".into(), ended(1, 1), 1);
        for at in 0..1200 {
            enter(format!("r{at}"), ended(10 + at, 1), 10 + at);
        }
        assert!(runs.lock().len() <= MAX_ENDED_RUNS + 1);
        assert!(!runs.lock().contains_key("r0") && runs.lock().contains_key("r1199"));
        enter("hour".into(), ApiRun::new(Cancel::new(), None), 1209 + 3600);
        assert_eq!(runs.lock().len(), 1, "an hour later only what still runs is left");
        for at in 0..100 {
            enter(format!("large{at}"), ended(5000 + at, 200_000), 5000 + at);
        }
        let held: usize = runs.lock().values().map(|run| run.events.bytes).sum();
        assert!(held <= MAX_ENDED_BYTES + 300_000, "{held}");
        assert!(runs.lock().contains_key("hour"), "what runs is never let go");
        assert_eq!(enter("hour".into(), ended(1, 1), 5200), InsertOutcome::Existing);
    }
}
