//! Every background process of this program, and those it found again.
//!
//! Bounded: 64 are remembered; the oldest that have ended go first, and when all run no more are started. What still runs
//! is written to `processes.json` whenever that changes, so that the next start finds it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{Background, Distant, Survivor, end_orphaned_commands, record_commands_in};
use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, SessionId, TaskId, Timestamp, random_hex};
use tokio::sync::oneshot;

use super::checkpoint::{self, Record};
use super::watch::{Outlet, Watch, Wishes, watch};

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
    /// Room kept for processes that are being started.
    starting: AtomicUsize,
    /// One writer of the file at a time, so that an older state never replaces a newer one.
    writing: Mutex<()>,
    /// Whom is told what nobody asked for.
    outlet: OnceLock<Arc<Outlet>>,
    /// Ends with the search for commands that a killed run left.
    search: Mutex<Option<oneshot::Receiver<()>>>,
}

/// What is started, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) command: String,
    pub(crate) task: TaskId,
    pub(crate) session: SessionId,
    pub(crate) wishes: Wishes,
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

/// How it is followed.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// By its pipes or its terminal; what runs here may be a client of what runs elsewhere.
    Ours(Background),
    /// Elsewhere, looked at now and then.
    There(Distant),
    Found(Survivor),
}

impl Kind {
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Ours(process) => process.pid(),
            Self::There(process) => process.pid(),
            Self::Found(survivor) => survivor.pid(),
        }
    }

    fn folder(&self) -> String {
        match self {
            Self::Ours(process) => process.directory().to_string_lossy().into_owned(),
            Self::There(process) => process.directory().to_owned(),
            Self::Found(_) => String::new(),
        }
    }

    fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Ours(process) => process.exit_code(),
            Self::There(process) => process.exit_code(),
            // Nobody can say how it ended.
            Self::Found(survivor) => (!survivor.is_alive()).then_some(-1),
        }
    }

    async fn ended(&self, clock: &dyn Clock) -> i32 {
        match self {
            Self::Ours(process) => process.ended().await,
            Self::There(process) => process.ended().await,
            Self::Found(survivor) => {
                while survivor.is_alive() {
                    clock.sleep(LOOK).await;
                }
                -1
            }
        }
    }
}

/// Room for one more process, kept until it is added or given up.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Inner>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.starting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Entry {
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.kind.exit_code()
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.exit_code().is_some() { "exited" } else { "running" }
    }

    pub(crate) fn is_detached(&self) -> bool {
        matches!(self.kind, Kind::Found(_))
    }

    /// What takes input, or why nothing does.
    pub(crate) fn process(&self) -> Result<&Background, &'static str> {
        match &self.kind {
            Kind::Ours(process) => Ok(process),
            Kind::There(_) => Err("a process elsewhere takes no input"),
            Kind::Found(_) => Err("it was started by an earlier run; its input is not available"),
        }
    }

    pub(crate) fn output(&self) -> String {
        match &self.kind {
            Kind::Ours(process) => process.output(WHOLE),
            Kind::There(process) => process.output(WHOLE),
            Kind::Found(_) => String::new(),
        }
    }

    /// How much it has said in all.
    pub(crate) fn total_chars(&self) -> u64 {
        match &self.kind {
            Kind::Ours(process) => process.total_chars(),
            Kind::There(process) => process.total_chars(),
            Kind::Found(_) => 0,
        }
    }

    pub(crate) async fn ended(&self, clock: &dyn Clock) -> i32 {
        self.kind.ended(clock).await
    }

    pub(crate) async fn kill(&self, clock: &dyn Clock) -> i32 {
        match &self.kind {
            Kind::Ours(process) => process.kill().await,
            Kind::There(process) => process.kill().await,
            Kind::Found(survivor) => {
                survivor.kill(clock).await;
                KILLED
            }
        }
    }

    /// Such a one is not written down: its number means nothing here, and it ends with its place.
    fn is_elsewhere(&self) -> bool {
        match &self.kind {
            Kind::Ours(process) => process.is_elsewhere(),
            Kind::There(_) => true,
            Kind::Found(_) => false,
        }
    }

    fn is_written_down(&self) -> bool {
        self.exit_code().is_none() && !self.is_elsewhere()
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
    /// So many are remembered, and so many may run at once.
    pub const MOST: usize = 64;

    /// `owner` ends the listening to them, not the processes.
    pub fn new(home: &Home, clock: Arc<dyn Clock>, owner: Cancel) -> Self {
        Self(Arc::new(Inner {
            home: home.clone(),
            clock,
            owner,
            entries: Mutex::default(),
            starting: AtomicUsize::new(0),
            writing: Mutex::default(),
            outlet: OnceLock::new(),
            search: Mutex::default(),
        }))
    }

    /// Tells this sink what is to be told from now on. The first one stays.
    pub fn report_to(&self, sink: Arc<dyn Watch>) {
        if self.0.outlet.set(Arc::new(Outlet::new(sink))).is_err() {
            tracing::debug!("notices of processes go to the sink that came first");
        }
    }

    fn watch(&self, entry: &Entry, wishes: Wishes) {
        let Some(outlet) = self.0.outlet.get().filter(|_| !wishes.is_empty()) else { return };
        let (entry, outlet, clock) = (entry.clone(), Arc::clone(outlet), Arc::clone(&self.0.clock));
        spawn_named(format!("watch over {}", entry.id), &self.0.owner, watch(entry, wishes, outlet, clock));
    }

    pub(crate) fn owner(&self) -> &Cancel {
        &self.0.owner
    }

    /// Finds background processes of an earlier run that still live; returns how many. Ends commands that an earlier run left
    /// because it was killed together with its watchdog, on a thread of its own. To be called before the first command.
    pub fn recover(&self) -> usize {
        self.end_orphaned_commands();
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
        for entry in found.iter().filter(|entry| entry.interval > 0) {
            let interval = Some(Duration::from_secs(entry.interval as u64));
            self.watch(entry, Wishes { interval, ..Wishes::default() });
        }
        self.entries().extend(found);
        self.changed();
        count
    }

    fn end_orphaned_commands(&self) {
        let folder = self.0.home.join("sandboxes/commands");
        record_commands_in(&folder);
        if !folder.is_dir() {
            return;
        }
        let (done, search) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("orphaned commands".to_owned());
        let started = thread.spawn(move || {
            let ended = end_orphaned_commands(&folder);
            if ended > 0 {
                tracing::info!(ended, "processes of a Hermes that was killed were ended");
            }
            drop(done);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "commands of a Hermes that was killed cannot be looked for");
            return;
        }
        *self.0.search.lock().unwrap_or_else(PoisonError::into_inner) = Some(search);
    }

    /// Room for one more; none when all of them run.
    pub(crate) fn reserve(&self) -> Option<Slot> {
        let now = self.0.clock.now();
        let mut entries = self.entries();
        entries.retain(|entry| entry.exit_code().is_none() || now.since(entry.started) < OLD);
        while entries.len() + self.0.starting.load(Ordering::Relaxed) >= Self::MOST {
            let oldest = entries.iter().position(|entry| entry.exit_code().is_some())?;
            entries.remove(oldest);
        }
        self.0.starting.fetch_add(1, Ordering::Relaxed);
        Some(Slot(Arc::clone(&self.0)))
    }

    /// Remembers a process in its room and writes it down; returns its id.
    pub(crate) fn add(&self, slot: Slot, process: Kind, start: Start) -> String {
        let id = format!("proc_{}", random_hex(12));
        let entry = Entry {
            id: id.clone(),
            command: start.command,
            task: start.task,
            session: start.session.as_str().to_owned(),
            folder: process.folder(),
            pid: process.pid(),
            started: self.0.clock.now(),
            interval: start.wishes.interval.map_or(0, seconds),
            kind: process.clone(),
        };
        self.watch(&entry, start.wishes);
        self.entries().push(entry);
        drop(slot);
        self.changed();
        if let Kind::Ours(process) = &process {
            process.let_outlive();
        }
        let this = self.clone();
        spawn_named(format!("end of {id}"), &self.0.owner, async move {
            process.ended(&*this.0.clock).await;
            this.changed();
        });
        id
    }

    pub(crate) fn of(&self, task: &TaskId) -> Vec<Entry> {
        self.entries().iter().filter(|entry| entry.task == *task).cloned().collect()
    }

    /// Those of a task, and those an earlier run left behind in the same conversation.
    pub(crate) fn known_to(&self, task: &TaskId, session: &SessionId) -> Vec<Entry> {
        let known =
            |entry: &&Entry| entry.task == *task || entry.is_detached() && entry.session == session.as_str();
        self.entries().iter().filter(known).cloned().collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<Entry> {
        self.entries().iter().find(|entry| entry.id == id).cloned()
    }

    /// Whether a task still has something running: it must not be reset by itself.
    pub fn has_running(&self, task: &TaskId) -> bool {
        self.of(task).iter().any(|entry| entry.exit_code().is_none())
    }

    /// Tasks, ended ones too, of which something still runs elsewhere: its place must not be closed.
    pub(crate) fn tasks_running_elsewhere(&self) -> Vec<TaskId> {
        let entries = self.entries();
        let running = entries.iter().filter(|entry| entry.is_elsewhere());
        running.filter(|entry| entry.exit_code().is_none()).map(|entry| entry.task.clone()).collect()
    }

    /// Ends everything that was started here; for a program that ends with its user.
    pub async fn end_all(&self) {
        let search = self.0.search.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(search) = search {
            // It says nothing but that it is over.
            let _ = search.await;
        }
        let all = self.entries().clone();
        self.end(all).await;
    }

    /// Ends what an earlier run left and this one took over; for a service that is stopped.
    pub async fn end_recovered(&self) {
        let found: Vec<Entry> = self.entries().iter().filter(|entry| entry.is_detached()).cloned().collect();
        futures_util::future::join_all(found.iter().map(|entry| entry.kill(&*self.0.clock))).await;
        self.changed();
    }

    /// Ends what a task has started, beside everything else.
    pub(crate) fn end_those_of(&self, task: &TaskId) {
        let (this, left) = (self.clone(), self.of(task));
        // A program that is about to end has ended all of them already.
        if left.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        spawn_named(
            format!("end of all that {task} left"),
            &self.0.owner,
            async move { this.end(left).await },
        );
    }

    async fn end(&self, mut entries: Vec<Entry>) {
        entries.retain(|entry| entry.exit_code().is_none() && !entry.is_detached());
        futures_util::future::join_all(entries.iter().map(|entry| entry.kill(&*self.0.clock))).await;
        self.changed();
    }

    /// Writes down what runs.
    pub(crate) fn changed(&self) {
        let _alone = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (ours, ids): (Vec<Record>, Vec<String>) = {
            let entries = self.entries();
            let running = entries.iter().filter(|entry| entry.is_written_down()).map(Entry::record).collect();
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

fn seconds(span: Duration) -> usize {
    usize::try_from(span.as_secs()).unwrap_or(usize::MAX)
}
