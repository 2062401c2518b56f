//! What tools keep for sessions that clients have named: given back when nobody has come for a while.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::TaskId;

use crate::app::App;
use crate::run;

/// How long a session's shells and notes wait for its next request.
const PATIENCE: Duration = Duration::from_mins(30);
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// Beyond this many, those not used longest go first.
const MOST: usize = 1000;

/// When each was used last.
#[derive(Default)]
pub(crate) struct Idle {
    used: Mutex<HashMap<TaskId, Duration>>,
}

impl Idle {
    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Duration>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, task: &TaskId, now: Duration) {
        self.lock().insert(task.clone(), now);
    }

    /// Those whose time is over, each once.
    fn take_over(&self, now: Duration) -> Vec<TaskId> {
        let mut used = self.lock();
        let mut times: Vec<Duration> = used.values().copied().collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = times.get(MOST).copied();
        let over =
            |at: Duration| now.saturating_sub(at) >= PATIENCE || oldest.is_some_and(|oldest| at <= oldest);
        used.extract_if(|_, at| over(*at)).map(|(task, _)| task).collect()
    }
}

/// Looks every minute until the server ends.
pub(crate) fn watch(app: &App) {
    let owner = app.clone();
    drop(app.tasks.spawn("idle API sessions", async move {
        loop {
            owner.gateway.clock.sleep(LOOK_EVERY).await;
            release(&owner);
        }
    }));
}

fn release(app: &App) {
    let over = app.idle.take_over(app.gateway.clock.monotonic());
    if over.is_empty() {
        return;
    }
    // Tools keep their state for the whole process; any agent of the platform reaches it.
    let Ok(agent) = run::agent(app, None) else { return };
    for task in over {
        // One that is being used will be noted again when its turn has ended.
        if let Some(_occupied) = app.occupy(task.as_str()) {
            agent.release(&task);
        }
    }
}
