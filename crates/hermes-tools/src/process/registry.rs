//! Every background process of this program, and those it found again.
//!
//! Bounded: 64 are remembered; the oldest that have ended go first. What still runs is written to `processes.json`
//! whenever that changes, so that the next start finds it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{Background, Survivor};
use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, SessionId, TaskId, Timestamp, random_hex};

use super::checkpoint::{self, Record};

const MOST: usize = 64;
/// Counted from its start, an ended process is forgotten after this.
const OLD: Duration = Duration::from_mins(30);
const LOOK: Duration = Duration::from_secs(1);
const KILLED: i32 = -15;
const WHOLE: usize = 200_000;

/// The processes; clones share them.
#[derive(Debug, Clone)]
pub struct Processes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    home: Home,
    clock: Arc<dyn Clock>,
    owner: Cancel,
    entries: Mutex<Vec<Entry>>,
    /// One writer of the file at a time, so that an older state never replaces a newer one.
    writing: Mutex<()>,
}

/// What is started, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) command: String,
    pub(crate) task: TaskId,
    pub(crate) session: SessionId,
    /// Seconds between reports to a chat.
    pub(crate) interval: Option<usize>,
}

/// One process.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) task: TaskId,
    pub(crate) session: String,
    pub(crate) folder: String,
    pub(crate) pid: u32,
    pub(crate) started: Timestamp,
    pub(crate) interval: usize,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Ours(Background),
    Found(Survivor),
}

impl Entry {
    pub(crate) fn exit_code(&self) -> Option<i32> {
        match &self.kind {
            Kind::Ours(process) => process.exit_code(),
            // Nobody can say how it ended.
            Kind::Found(survivor) => (!survivor.is_alive()).then_some(-1),
        }
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.exit_code().is_some() { "exited" } else { "running" }
    }

    pub(crate) fn is_detached(&self) -> bool {
        matches!(self.kind, Kind::Found(_))
    }

    pub(crate) fn process(&self) -> Option<&Background> {
        match &self.kind {
            Kind::Ours(process) => Some(process),
            Kind::Found(_) => None,
        }
    }

    pub(crate) fn output(&self) -> String {
        self.process().map(|process| process.output(WHOLE)).unwrap_or_default()
    }

    pub(crate) async fn ended(&self, clock: &dyn Clock) -> i32 {
        match &self.kind {
            Kind::Ours(process) => process.ended().await,
            Kind::Found(survivor) => {
                while survivor.is_alive() {
                    clock.sleep(LOOK).await;
                }
                -1
            }
        }
    }

    pub(crate) async fn kill(&self, clock: &dyn Clock) -> i32 {
        match &self.kind {
            Kind::Ours(process) => process.kill().await,
            Kind::Found(survivor) => {
                survivor.kill(clock).await;
                KILLED
            }
        }
    }

    fn record(&self) -> Record {
        Record {
            session_id: self.id.clone(),
            command: self.command.clone(),
            pid: Some(self.pid),
            cwd: self.folder.clone(),
            started_at: self.started.seconds(),
            task_id: self.task.as_str().to_owned(),
            session_key: self.session.clone(),
            watcher_interval: self.interval,
            pid_started: Survivor::start_time(self.pid),
            owner_pid: Some(std::process::id()),
            rest: serde_json::Map::default(),
        }
    }
}

impl Processes {
    /// `owner` ends the listening to them, not the processes.
    pub fn new(home: &Home, clock: Arc<dyn Clock>, owner: Cancel) -> Self {
        let inner =
            Inner { home: home.clone(), clock, owner, entries: Mutex::default(), writing: Mutex::default() };
        Self(Arc::new(inner))
    }

    pub(crate) fn owner(&self) -> &Cancel {
        &self.0.owner
    }

    /// Finds processes of an earlier run that still live; returns how many. For a program that stays, at its start.
    pub fn recover(&self) -> usize {
        let found: Vec<Entry> = checkpoint::read(&self.0.home)
            .into_iter()
            .filter(|record| !record.has_living_owner())
            .filter_map(|record| {
                let survivor = Survivor::find(record.pid?, record.pid_started)?;
                Some(Entry {
                    id: record.session_id,
                    command: record.command,
                    task: TaskId::from(record.task_id.as_str()),
                    session: record.session_key,
                    folder: record.cwd,
                    pid: survivor.pid(),
                    started: Timestamp(record.started_at),
                    interval: record.watcher_interval,
                    kind: Kind::Found(survivor),
                })
            })
            .collect();
        let count = found.len();
        self.entries().extend(found);
        self.changed();
        count
    }

    /// Remembers a process and writes it down; returns its id.
    pub(crate) fn add(&self, process: Background, start: Start) -> String {
        let id = format!("proc_{}", random_hex(12));
        let entry = Entry {
            id: id.clone(),
            command: start.command,
            task: start.task,
            session: start.session.as_str().to_owned(),
            folder: process.directory().to_string_lossy().into_owned(),
            pid: process.pid(),
            started: self.0.clock.now(),
            interval: start.interval.unwrap_or(0),
            kind: Kind::Ours(process.clone()),
        };
        self.make_room();
        self.entries().push(entry);
        self.changed();
        let this = self.clone();
        spawn_named(format!("end of {id}"), &self.0.owner, async move {
            process.ended().await;
            this.changed();
        });
        id
    }

    fn make_room(&self) {
        let now = self.0.clock.now();
        let mut entries = self.entries();
        entries.retain(|entry| entry.exit_code().is_none() || now.since(entry.started) < OLD);
        while entries.len() >= MOST {
            let Some(oldest) = entries.iter().position(|entry| entry.exit_code().is_some()) else { return };
            entries.remove(oldest);
        }
    }

    pub(crate) fn of(&self, task: &TaskId) -> Vec<Entry> {
        self.entries().iter().filter(|entry| entry.task == *task).cloned().collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<Entry> {
        self.entries().iter().find(|entry| entry.id == id).cloned()
    }

    /// Whether a task still has something running: it must not be reset by itself.
    pub fn has_running(&self, task: &TaskId) -> bool {
        self.of(task).iter().any(|entry| entry.exit_code().is_none())
    }

    /// Ends everything that was started here; for a program that ends with its user.
    pub async fn end_all(&self) {
        let running: Vec<Entry> = self
            .entries()
            .iter()
            .filter(|entry| entry.exit_code().is_none() && !entry.is_detached())
            .cloned()
            .collect();
        futures_util::future::join_all(running.iter().map(|entry| entry.kill(&*self.0.clock))).await;
        self.changed();
    }

    /// Writes down what runs.
    pub(crate) fn changed(&self) {
        let _alone = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (ours, ids): (Vec<Record>, Vec<String>) = {
            let entries = self.entries();
            let running =
                entries.iter().filter(|entry| entry.exit_code().is_none()).map(Entry::record).collect();
            (running, entries.iter().map(|entry| entry.id.clone()).collect())
        };
        if let Err(error) = checkpoint::write(&self.0.home, &ours, &ids) {
            tracing::warn!(%error, "the list of background processes could not be written");
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
