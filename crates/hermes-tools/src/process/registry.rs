//! The registry of all background processes of this program, including those recovered from an earlier run.
//!
//! It holds at most 64 processes. The oldest ended ones are removed first; if all are running, no more are
//! started. Running processes are saved to `processes.json` whenever they change, so that the next start can
//! recover them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{
    BackgroundProcess, RecoveredProcess, RemoteProcess, end_orphaned_commands, record_commands_in,
};
use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, SessionId, TaskId, Timestamp, random_hex};
use tokio::sync::oneshot;

use super::checkpoint::{self, ProcessRecord};
use super::watch::{ExitNotice, NoticeDispatcher, ProcessNoticeSink, UNKNOWN_EXIT, WatchOptions, watch};

/// The time since its start after which an ended process is removed.
const OLD: Duration = Duration::from_mins(30);
const LOOK: Duration = Duration::from_secs(1);
const KILLED: i32 = -15;
const WHOLE: usize = 200_000;

/// The background processes. Clones share them.
#[derive(Debug, Clone)]
pub struct ProcessRegistry(Arc<RegistryState>);

#[derive(Debug)]
struct RegistryState {
    home: Home,
    clock: Arc<dyn Clock>,
    owner: Cancel,
    entries: Mutex<Vec<ProcessEntry>>,
    /// The number of slots reserved for processes that are being started.
    starting: AtomicUsize,
    /// Serializes writes of the file, so that an older state never replaces a newer one.
    writing: Mutex<()>,
    /// The dispatcher of unsolicited notices.
    dispatcher: OnceLock<Arc<NoticeDispatcher>>,
    /// Completes when the search for commands that a killed run left behind is finished.
    search: Mutex<Option<oneshot::Receiver<()>>>,
}

/// A running background process, for a list.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningProcess {
    pub id: String,
    pub command: String,
    pub started: Timestamp,
}

/// The command of a new process, and the task it is started for.
#[derive(Debug, Clone)]
pub(crate) struct ProcessStart {
    pub(crate) command: String,
    pub(crate) task: TaskId,
    pub(crate) session: SessionId,
    pub(crate) watch: WatchOptions,
}

/// A background process.
#[derive(Debug, Clone)]
pub(crate) struct ProcessEntry {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) task: TaskId,
    pub(crate) session: String,
    pub(crate) folder: String,
    pub(crate) pid: u32,
    pub(crate) started: Timestamp,
    /// The notices that a later start goes on sending.
    notices: WatchOptions,
    handle: ProcessHandle,
}

/// The way a process is accessed.
#[derive(Debug, Clone)]
pub(crate) enum ProcessHandle {
    /// A process accessed through its pipes or its terminal. It may be a local client of a remote process.
    Background(BackgroundProcess),
    /// A remote process that is polled.
    Remote(RemoteProcess),
    Recovered(RecoveredProcess),
}

impl ProcessHandle {
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Background(process) => process.pid(),
            Self::Remote(process) => process.pid(),
            Self::Recovered(survivor) => survivor.pid(),
        }
    }

    fn folder(&self) -> String {
        match self {
            Self::Background(process) => process.directory().to_string_lossy().into_owned(),
            Self::Remote(process) => process.directory().to_owned(),
            Self::Recovered(_) => String::new(),
        }
    }

    fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Background(process) => process.exit_code(),
            Self::Remote(process) => process.exit_code(),
            // The exit code of a recovered process is not available.
            Self::Recovered(survivor) => (!survivor.is_alive()).then_some(UNKNOWN_EXIT),
        }
    }

    async fn ended(&self, clock: &dyn Clock) -> i32 {
        match self {
            Self::Background(process) => process.ended().await,
            Self::Remote(process) => process.ended().await,
            Self::Recovered(survivor) => {
                while survivor.is_alive() {
                    clock.sleep(LOOK).await;
                }
                UNKNOWN_EXIT
            }
        }
    }
}

/// A slot for one more process, reserved until the process is added or the slot is dropped.
#[derive(Debug)]
pub(crate) struct ProcessSlot(Arc<RegistryState>);

impl Drop for ProcessSlot {
    fn drop(&mut self) {
        self.0.starting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ProcessEntry {
    fn recovered(record: ProcessRecord, survivor: RecoveredProcess) -> Self {
        Self {
            notices: record.notices(),
            id: record.session_id,
            command: record.command,
            task: TaskId::from(record.task_id.as_str()),
            session: record.session_key,
            folder: record.cwd,
            pid: survivor.pid(),
            started: Timestamp(record.started_at),
            handle: ProcessHandle::Recovered(survivor),
        }
    }

    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.handle.exit_code()
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.exit_code().is_some() { "exited" } else { "running" }
    }

    pub(crate) fn is_detached(&self) -> bool {
        matches!(self.handle, ProcessHandle::Recovered(_))
    }

    /// Returns the process that accepts input, or the reason why none does.
    pub(crate) fn process(&self) -> Result<&BackgroundProcess, &'static str> {
        match &self.handle {
            ProcessHandle::Background(process) => Ok(process),
            ProcessHandle::Remote(_) => Err("a process elsewhere takes no input"),
            ProcessHandle::Recovered(_) => {
                Err("it was started by an earlier run; its input is not available")
            }
        }
    }

    pub(crate) fn output(&self) -> String {
        match &self.handle {
            ProcessHandle::Background(process) => process.output(WHOLE),
            ProcessHandle::Remote(process) => process.output(WHOLE),
            ProcessHandle::Recovered(_) => String::new(),
        }
    }

    /// Returns the number of characters of output in total.
    pub(crate) fn total_chars(&self) -> u64 {
        match &self.handle {
            ProcessHandle::Background(process) => process.total_chars(),
            ProcessHandle::Remote(process) => process.total_chars(),
            ProcessHandle::Recovered(_) => 0,
        }
    }

    pub(crate) async fn ended(&self, clock: &dyn Clock) -> i32 {
        self.handle.ended(clock).await
    }

    pub(crate) async fn kill(&self, clock: &dyn Clock) -> i32 {
        match &self.handle {
            ProcessHandle::Background(process) => process.kill().await,
            ProcessHandle::Remote(process) => process.kill().await,
            ProcessHandle::Recovered(survivor) => {
                survivor.kill(clock).await;
                KILLED
            }
        }
    }

    /// Tells whether the process is remote. Such a process is not saved, because its id has no meaning on this
    /// machine and it ends with its environment.
    fn is_remote(&self) -> bool {
        match &self.handle {
            ProcessHandle::Background(process) => process.is_remote(),
            ProcessHandle::Remote(_) => true,
            ProcessHandle::Recovered(_) => false,
        }
    }

    fn is_persisted(&self) -> bool {
        self.exit_code().is_none() && !self.is_remote()
    }

    fn record(&self) -> ProcessRecord {
        ProcessRecord {
            session_id: self.id.clone(),
            command: self.command.clone(),
            pid: Some(self.pid),
            cwd: self.folder.clone(),
            started_at: self.started.seconds(),
            task_id: self.task.as_str().to_owned(),
            session_key: self.session.clone(),
            watcher_interval: self.notices.interval.map_or(0, seconds),
            notify_on_complete: self.notices.at_end == ExitNotice::Notify,
            pid_started: RecoveredProcess::start_time(self.pid),
            owner_pid: Some(std::process::id()),
            rest: serde_json::Map::default(),
        }
    }
}

impl ProcessRegistry {
    /// The maximum number of processes in the registry, and of running ones.
    pub const MOST: usize = 64;

    /// Creates a registry. `owner` cancels the monitoring of the processes, not the processes.
    pub fn new(home: &Home, clock: Arc<dyn Clock>, owner: Cancel) -> Self {
        Self(Arc::new(RegistryState {
            home: home.clone(),
            clock,
            owner,
            entries: Mutex::default(),
            starting: AtomicUsize::new(0),
            writing: Mutex::default(),
            dispatcher: OnceLock::new(),
            search: Mutex::default(),
        }))
    }

    /// Sends notices to this sink from now on. The first sink is kept.
    pub fn report_to(&self, sink: Arc<dyn ProcessNoticeSink>) {
        if self.0.dispatcher.set(Arc::new(NoticeDispatcher::new(sink))).is_err() {
            tracing::debug!("notices of processes go to the sink that came first");
        }
    }

    fn watch(&self, entry: &ProcessEntry, wishes: WatchOptions) {
        let Some(outlet) = self.0.dispatcher.get().filter(|_| !wishes.is_empty()) else { return };
        let (entry, outlet, clock) = (entry.clone(), Arc::clone(outlet), Arc::clone(&self.0.clock));
        spawn_named(format!("watch over {}", entry.id), &self.0.owner, watch(entry, wishes, outlet, clock));
    }

    pub(crate) fn owner(&self) -> &Cancel {
        &self.0.owner
    }

    /// Recovers background processes of an earlier run that are still running, and returns their number. Reports
    /// those that ended meanwhile. On a separate thread, ends commands of an earlier run that was killed together with
    /// its watchdog. Must be called before the first command.
    pub fn recover(&self) -> usize {
        self.end_orphaned_commands();
        let mut found = Vec::new();
        for record in checkpoint::read(&self.0.home).into_iter().filter(|record| !record.has_living_owner()) {
            match record.pid.and_then(|pid| RecoveredProcess::find(pid, record.pid_started)) {
                Some(survivor) => found.push(ProcessEntry::recovered(record, survivor)),
                None => self.report_missed_end(&record),
            }
        }
        for entry in &found {
            self.watch(entry, entry.notices.clone());
        }
        let count = found.len();
        self.entries().extend(found);
        self.save();
        count
    }

    /// Reports a process that ended while no Hermes watched it.
    fn report_missed_end(&self, record: &ProcessRecord) {
        if let Some(dispatcher) = self.0.dispatcher.get().filter(|_| !record.notices().is_empty()) {
            dispatcher.report_missed_end(record);
        }
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

    /// Reserves a slot for one more process. Returns `None` if all slots are taken by running processes.
    pub(crate) fn reserve(&self) -> Option<ProcessSlot> {
        let now = self.0.clock.now();
        let mut entries = self.entries();
        entries.retain(|entry| entry.exit_code().is_none() || now.since(entry.started) < OLD);
        while entries.len() + self.0.starting.load(Ordering::Relaxed) >= Self::MOST {
            let oldest = entries.iter().position(|entry| entry.exit_code().is_some())?;
            entries.remove(oldest);
        }
        self.0.starting.fetch_add(1, Ordering::Relaxed);
        Some(ProcessSlot(Arc::clone(&self.0)))
    }

    /// Adds a process in its slot and saves it. Returns its id.
    pub(crate) fn add(&self, slot: ProcessSlot, process: ProcessHandle, start: ProcessStart) -> String {
        let id = format!("proc_{}", random_hex(12));
        let entry = ProcessEntry {
            id: id.clone(),
            command: start.command,
            task: start.task,
            session: start.session.as_str().to_owned(),
            folder: process.folder(),
            pid: process.pid(),
            started: self.0.clock.now(),
            notices: start.watch.after_restart(),
            handle: process.clone(),
        };
        self.watch(&entry, start.watch);
        self.entries().push(entry);
        drop(slot);
        self.save();
        if let ProcessHandle::Background(process) = &process {
            process.let_outlive();
        }
        let this = self.clone();
        spawn_named(format!("end of {id}"), &self.0.owner, async move {
            process.ended(&*this.0.clock).await;
            this.save();
        });
        id
    }

    pub(crate) fn of_task(&self, task: &TaskId) -> Vec<ProcessEntry> {
        self.entries().iter().filter(|entry| entry.task == *task).cloned().collect()
    }

    /// Returns the processes of a task, and those that an earlier run left in the same conversation.
    pub(crate) fn visible_to(&self, task: &TaskId, session: &SessionId) -> Vec<ProcessEntry> {
        let known = |entry: &&ProcessEntry| {
            entry.task == *task || entry.is_detached() && entry.session == session.as_str()
        };
        self.entries().iter().filter(known).cloned().collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<ProcessEntry> {
        self.entries().iter().find(|entry| entry.id == id).cloned()
    }

    /// Tells whether a task has a running process; such a task must not be reset automatically.
    pub fn has_running(&self, task: &TaskId) -> bool {
        self.of_task(task).iter().any(|entry| entry.exit_code().is_none())
    }

    /// Lists the running processes, the oldest first.
    pub fn running(&self) -> Vec<RunningProcess> {
        let entries = self.entries();
        let running = entries.iter().filter(|entry| entry.exit_code().is_none());
        running
            .map(|entry| RunningProcess {
                id: entry.id.clone(),
                command: entry.command.clone(),
                started: entry.started,
            })
            .collect()
    }

    /// Lists the tasks, including ended ones, with a running remote process, whose environment must not be
    /// closed.
    pub(crate) fn tasks_running_remotely(&self) -> Vec<TaskId> {
        let entries = self.entries();
        let running = entries.iter().filter(|entry| entry.is_remote());
        running.filter(|entry| entry.exit_code().is_none()).map(|entry| entry.task.clone()).collect()
    }

    /// Ends all processes that this program started, when it ends together with its user's session.
    pub async fn end_all(&self) {
        let search = self.0.search.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(search) = search {
            // The channel carries no value; it only closes.
            let _ = search.await;
        }
        let all = self.entries().clone();
        self.end(all).await;
    }

    /// Ends the recovered processes when a service is stopped.
    pub async fn end_recovered(&self) {
        let found: Vec<ProcessEntry> =
            self.entries().iter().filter(|entry| entry.is_detached()).cloned().collect();
        futures_util::future::join_all(found.iter().map(|entry| entry.kill(&*self.0.clock))).await;
        self.save();
    }

    /// Ends the processes of a task in the background.
    pub(crate) fn end_task_processes(&self, task: &TaskId) {
        let (this, left) = (self.clone(), self.of_task(task));
        // Without a runtime the program is ending and has already ended them all.
        if left.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        spawn_named(
            format!("end of all that {task} left"),
            &self.0.owner,
            async move { this.end(left).await },
        );
    }

    async fn end(&self, mut entries: Vec<ProcessEntry>) {
        entries.retain(|entry| entry.exit_code().is_none() && !entry.is_detached());
        futures_util::future::join_all(entries.iter().map(|entry| entry.kill(&*self.0.clock))).await;
        self.save();
    }

    /// Saves the running processes.
    pub(crate) fn save(&self) {
        let _alone = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (ours, ids): (Vec<ProcessRecord>, Vec<String>) = {
            let entries = self.entries();
            let running =
                entries.iter().filter(|entry| entry.is_persisted()).map(ProcessEntry::record).collect();
            (running, entries.iter().map(|entry| entry.id.clone()).collect())
        };
        if let Err(error) = checkpoint::write(&self.0.home, &ours, &ids) {
            tracing::warn!(%error, "the list of background processes could not be written");
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<ProcessEntry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(span: Duration) -> usize {
    usize::try_from(span.as_secs()).unwrap_or(usize::MAX)
}
