//! Releases the tool state of sessions that clients have named, when they are idle for a while.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::TaskId;

use crate::app::App;
use crate::run;

/// The time a session's shells and notes are kept for its next request.
const TIMEOUT: Duration = Duration::from_mins(30);
const POLL_INTERVAL: Duration = Duration::from_mins(1);
/// The number of sessions beyond which the least recently used are released first.
const MAX_ENTRIES: usize = 1000;

/// The time of each session's last use.
#[derive(Default)]
pub(crate) struct IdleSessions {
    used: Mutex<HashMap<TaskId, Duration>>,
}

impl IdleSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Duration>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record_use(&self, task: &TaskId, now: Duration) {
        self.lock().insert(task.clone(), now);
    }

    /// Removes and returns the expired sessions.
    fn take_expired(&self, now: Duration) -> Vec<TaskId> {
        let mut used = self.lock();
        let mut times: Vec<Duration> = used.values().copied().collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = times.get(MAX_ENTRIES).copied();
        let over =
            |at: Duration| now.saturating_sub(at) >= TIMEOUT || oldest.is_some_and(|oldest| at <= oldest);
        used.extract_if(|_, at| over(*at)).map(|(task, _)| task).collect()
    }
}

/// Starts the cleanup, which runs every minute until the server stops.
pub(crate) fn start_idle_cleanup(app: &App) {
    let owner = app.clone();
    drop(app.tasks.spawn("idle API sessions", async move {
        loop {
            owner.clock.sleep(POLL_INTERVAL).await;
            release_expired(&owner);
        }
    }));
}

fn release_expired(app: &App) {
    let over = app.idle.take_expired(app.clock.monotonic());
    if over.is_empty() {
        return;
    }
    // Tools keep their state for the whole process; any agent of the platform can reach it.
    let Ok(agent) = run::build_agent(app, None) else { return };
    for task in over {
        // A session in use is recorded again when its turn has ended.
        if let Some(_occupied) = app.lock_session(task.as_str()) {
            agent.release_task(&task);
        }
    }
}
