//! The pool of remote environments in which commands run.
//!
//! An environment is created at its first use and shared by all tasks that work in it; each task has its own
//! shell session there. An environment that was idle for its lifetime is closed, and created again when it is
//! needed. Invariants: an environment is never closed while a command or a process runs in it; only callers
//! that want to enter an environment wait while it closes.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use hermes_exec::{
    HostExposure, RemoteBackend, RemoteEnvironment, RemoteFileError, RemoteFiles, RemoteLocation,
    RemoteShellSession, TaskImage,
};
use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, TaskId};
use tokio::sync::{OnceCell, OwnedRwLockReadGuard, RwLock};

use crate::process::ProcessRegistry;

/// The interval between checks for idle environments.
const ROUND: Duration = Duration::from_mins(1);
/// The name of the environment that all tasks share.
const SHARED: &str = "default";

/// Selects which tasks share an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentSharing {
    /// All tasks of this program share one, each with its own folder and exports.
    Shared,
    /// Each task has its own, which has the same name after a restart.
    PerTask,
}

/// The settings of the pool.
#[derive(Debug, Clone)]
pub struct EnvironmentPoolOptions {
    pub backend: RemoteBackend,
    pub sharing: EnvironmentSharing,
    /// The time after which an idle environment is closed: `terminal.lifetime_seconds`.
    pub lifetime: Duration,
}

#[derive(Debug)]
pub(crate) struct EnvironmentPool {
    options: EnvironmentPoolOptions,
    clock: Arc<dyn Clock>,
    processes: ProcessRegistry,
    checked: OnceCell<()>,
    open: Mutex<HashMap<String, Arc<PooledEnvironment>>>,
    idle_check: OnceLock<()>,
    /// The backends of tasks that have an image of their own.
    own: Mutex<HashMap<TaskId, RemoteBackend>>,
}

/// An environment with the sessions of its tasks.
#[derive(Debug)]
struct PooledEnvironment {
    environment: RemoteEnvironment,
    sessions: Mutex<HashMap<TaskId, Arc<RemoteShellSession>>>,
    /// Locked for reading while a caller uses the environment, and for writing while it is closed.
    usage_lock: Arc<RwLock<()>>,
    used: Mutex<Duration>,
    in_use: AtomicBool,
    home: OnceCell<String>,
}

/// The reason why no environment is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PoolError {
    /// The backend lacks something; the text says what.
    Unavailable(String),
    Interrupted,
}

impl EnvironmentPool {
    pub(crate) fn new(
        options: EnvironmentPoolOptions,
        processes: ProcessRegistry,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            clock,
            processes,
            checked: OnceCell::new(),
            open: Mutex::default(),
            idle_check: OnceLock::new(),
            own: Mutex::default(),
        })
    }

    pub(crate) fn host_exposure(&self) -> HostExposure {
        self.options.backend.host_exposure()
    }

    /// Returns the session of a task. The environment stays open while the guard is held.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        task: &TaskId,
        cancel: &Cancel,
    ) -> Result<PoolGuard, PoolError> {
        self.checked
            .get_or_try_init(|| self.options.backend.check(cancel))
            .await
            .map_err(|error| PoolError::Unavailable(error.to_string()))?;
        self.start_idle_check();
        let lodging = self.environment_for(task);
        let door = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(PoolError::Interrupted),
            door = Arc::clone(&lodging.usage_lock).read_owned() => door,
        };
        lodging.in_use.store(true, Ordering::Relaxed);
        let seat = Arc::clone(
            lock(&lodging.sessions)
                .entry(task.clone())
                .or_insert_with(|| Arc::new(lodging.environment.open_session())),
        );
        Ok(PoolGuard {
            session: seat,
            environment: lodging,
            clock: Arc::clone(&self.clock),
            _usage_lock: door,
        })
    }

    /// Returns the name of the environment a task works in.
    fn name<'a>(&self, task: &'a TaskId) -> &'a str {
        match self.options.sharing {
            EnvironmentSharing::Shared => SHARED,
            // A single remote machine is one environment, however many tasks use it.
            EnvironmentSharing::PerTask if self.options.backend.is_single_machine() => SHARED,
            EnvironmentSharing::PerTask => task.as_str(),
        }
    }

    fn environment_for(&self, task: &TaskId) -> Arc<PooledEnvironment> {
        let own = lock(&self.own).get(task).cloned();
        let name = if own.is_some() { task.as_str() } else { self.name(task) };
        let backend = own.as_ref().unwrap_or(&self.options.backend);
        let make = || Arc::new(PooledEnvironment::new(backend.open(name)));
        Arc::clone(lock(&self.open).entry(name.to_owned()).or_insert_with(make))
    }

    /// Gives a task an environment of its own with another image, which is fetched now if it has to be there.
    pub(crate) async fn use_image(
        &self,
        task: &TaskId,
        image: &TaskImage,
        cancel: &Cancel,
    ) -> Result<(), String> {
        let backend = self.options.backend.with_image(image);
        let backend = backend
            .ok_or("this terminal.backend has no images; choose docker, singularity, modal or daytona")?;
        backend.fetch_image(cancel).await.map_err(|error| error.to_string())?;
        lock(&self.own).insert(task.clone(), backend);
        Ok(())
    }

    /// Removes the session of a task that has ended, and closes an environment that only this task used.
    /// Returns without waiting.
    pub(crate) fn release_task(self: &Arc<Self>, task: &TaskId) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (rooms, task) = (Arc::clone(self), task.clone());
        spawn_named(
            format!("leaving of {task}"),
            &Cancel::new(),
            async move { rooms.close_task(&task).await },
        );
    }

    async fn close_task(&self, task: &TaskId) {
        lock(&self.own).remove(task);
        let all: Vec<(String, Arc<PooledEnvironment>)> =
            lock(&self.open).iter().map(|(name, lodging)| (name.clone(), Arc::clone(lodging))).collect();
        for (name, lodging) in all {
            let Some(seat) = lock(&lodging.sessions).remove(task) else { continue };
            if name == SHARED {
                if lodging.in_use.load(Ordering::Relaxed) {
                    seat.clean_up().await;
                }
                continue;
            }
            lodging.close().await;
            let mut open = lock(&self.open);
            if open.get(&name).is_some_and(|known| Arc::ptr_eq(known, &lodging)) {
                open.remove(&name);
            }
        }
    }

    /// Closes every environment when the program ends.
    pub(crate) async fn close_all(&self) {
        let all: Vec<Arc<PooledEnvironment>> = lock(&self.open).drain().map(|(_, lodging)| lodging).collect();
        join_all(all.iter().map(|lodging| lodging.close())).await;
    }

    /// Closes environments that were idle for their lifetime. A background process counts as use.
    pub(crate) async fn close_idle(&self) {
        let now = self.clock.monotonic();
        let running = self.processes.tasks_running_remotely();
        let all: Vec<(String, Arc<PooledEnvironment>)> =
            lock(&self.open).iter().map(|(name, lodging)| (name.clone(), Arc::clone(lodging))).collect();
        let idle = all.iter().filter(|(name, lodging)| {
            if running.iter().any(|task| self.name(task) == name) {
                lodging.touch(now);
            }
            now.saturating_sub(*lock(&lodging.used)) > self.options.lifetime
        });
        join_all(idle.map(|(_, lodging)| lodging.close_if_empty())).await;
    }

    /// Starts the periodic check for idle environments, which ends when the pool is dropped.
    fn start_idle_check(self: &Arc<Self>) {
        if self.idle_check.set(()).is_err() {
            return;
        }
        let (rooms, clock) = (Arc::downgrade(self), Arc::clone(&self.clock));
        spawn_named("idle rooms", self.processes.owner(), async move {
            loop {
                clock.sleep(ROUND).await;
                let Some(rooms) = Weak::upgrade(&rooms) else { return };
                rooms.close_idle().await;
            }
        });
    }
}

impl PooledEnvironment {
    fn new(environment: RemoteEnvironment) -> Self {
        Self {
            environment,
            sessions: Mutex::default(),
            usage_lock: Arc::default(),
            used: Mutex::default(),
            in_use: AtomicBool::new(false),
            home: OnceCell::new(),
        }
    }

    fn touch(&self, now: Duration) {
        *lock(&self.used) = now;
    }

    async fn close_if_empty(&self) {
        let Ok(_nobody) = self.usage_lock.try_write() else { return };
        self.end().await;
    }

    /// Waits until no caller uses the environment, then closes it.
    async fn close(&self) {
        let _nobody = self.usage_lock.write().await;
        self.end().await;
    }

    async fn end(&self) {
        if self.in_use.swap(false, Ordering::Relaxed) {
            self.environment.close().await;
        }
    }
}

/// Keeps an environment open while a caller uses it.
pub(crate) struct PoolGuard {
    pub(crate) session: Arc<RemoteShellSession>,
    environment: Arc<PooledEnvironment>,
    clock: Arc<dyn Clock>,
    _usage_lock: OwnedRwLockReadGuard<()>,
}

impl PoolGuard {
    pub(crate) fn files(&self) -> RemoteFiles<'_> {
        RemoteFiles::new(&*self.session, self.session.bounds())
    }

    /// Returns the task's current folder in the environment, and its home.
    pub(crate) async fn location(&self, cancel: &Cancel) -> Result<RemoteLocation, RemoteFileError> {
        let directory = self.session.directory();
        match self.environment.home.get() {
            Some(home) if directory.starts_with('/') => Ok(RemoteLocation { directory, home: home.clone() }),
            _ => {
                let found = self.files().location(cancel).await?;
                // A concurrent caller has set the same value.
                let _ = self.environment.home.set(found.home.clone());
                Ok(found)
            }
        }
    }
}

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.environment.touch(self.clock.monotonic());
    }
}

impl fmt::Debug for PoolGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stay").field("seat", &self.session).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
