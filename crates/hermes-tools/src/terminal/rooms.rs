//! The rooms commands run in elsewhere, and how long they last.
//!
//! A room is made at its first use and shared by all who work in it; each task has a seat of its own there. One nobody used
//! for a while is closed, and made again when it is needed. Invariants: a room is never closed while a command or a process
//! runs in it; nothing waits for a room that closes but those who want to enter it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use hermes_exec::{Bearings, Elsewhere, FileError, Reachable, RemoteFiles, Room, Seat};
use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, TaskId};
use tokio::sync::{OnceCell, OwnedRwLockReadGuard, RwLock};

use crate::process::Processes;

/// How often rooms are looked at.
const ROUND: Duration = Duration::from_mins(1);
/// The room everybody shares.
const SHARED: &str = "default";

/// Who works in one room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenancy {
    /// All tasks of this program, each with a folder and exports of its own.
    Shared,
    /// One task, which is called the same at the next start.
    PerTask,
}

/// What rooms are made of.
#[derive(Debug, Clone)]
pub struct RoomOptions {
    pub elsewhere: Elsewhere,
    pub tenancy: Tenancy,
    /// How long one lasts without being used: `terminal.lifetime_seconds`.
    pub lifetime: Duration,
}

#[derive(Debug)]
pub(crate) struct Rooms {
    options: RoomOptions,
    clock: Arc<dyn Clock>,
    processes: Processes,
    checked: OnceCell<()>,
    open: Mutex<HashMap<String, Arc<Lodging>>>,
    rounds: OnceLock<()>,
}

/// A room with those who work in it.
#[derive(Debug)]
struct Lodging {
    room: Room,
    seats: Mutex<HashMap<TaskId, Arc<Seat>>>,
    /// Held for reading while somebody works, for writing while it is closed.
    door: Arc<RwLock<()>>,
    used: Mutex<Duration>,
    in_use: AtomicBool,
    home: OnceCell<String>,
}

/// Why nobody can enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Closed {
    /// What the backend needs is missing; in words.
    Disabled(String),
    Interrupted,
}

impl Rooms {
    pub(crate) fn new(options: RoomOptions, processes: Processes, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            options,
            clock,
            processes,
            checked: OnceCell::new(),
            open: Mutex::default(),
            rounds: OnceLock::new(),
        })
    }

    pub(crate) fn reachable(&self) -> Reachable {
        self.options.elsewhere.reachable()
    }

    /// A task's seat. The room stays open while the stay is held.
    pub(crate) async fn enter(self: &Arc<Self>, task: &TaskId, cancel: &Cancel) -> Result<Stay, Closed> {
        self.checked
            .get_or_try_init(|| self.options.elsewhere.check(cancel))
            .await
            .map_err(|error| Closed::Disabled(error.to_string()))?;
        self.make_rounds();
        let lodging = self.lodging(task);
        let door = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Closed::Interrupted),
            door = Arc::clone(&lodging.door).read_owned() => door,
        };
        lodging.in_use.store(true, Ordering::Relaxed);
        let seat = Arc::clone(
            lock(&lodging.seats).entry(task.clone()).or_insert_with(|| Arc::new(lodging.room.seat())),
        );
        Ok(Stay { seat, lodging, clock: Arc::clone(&self.clock), _door: door })
    }

    /// The name of the room a task works in.
    fn name<'a>(&self, task: &'a TaskId) -> &'a str {
        match self.options.tenancy {
            Tenancy::Shared => SHARED,
            // Another machine is one, however many work on it.
            Tenancy::PerTask if self.options.elsewhere.is_one_machine() => SHARED,
            Tenancy::PerTask => task.as_str(),
        }
    }

    fn lodging(&self, task: &TaskId) -> Arc<Lodging> {
        let name = self.name(task);
        let make = || Arc::new(Lodging::new(self.options.elsewhere.open(name)));
        Arc::clone(lock(&self.open).entry(name.to_owned()).or_insert_with(make))
    }

    /// A task has ended: its seat goes, and a room that was only its own is closed. Nobody waits for it.
    pub(crate) fn leave(self: &Arc<Self>, task: &TaskId) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (rooms, task) = (Arc::clone(self), task.clone());
        spawn_named(
            format!("leaving of {task}"),
            &Cancel::new(),
            async move { rooms.say_goodbye(&task).await },
        );
    }

    async fn say_goodbye(&self, task: &TaskId) {
        let all: Vec<(String, Arc<Lodging>)> =
            lock(&self.open).iter().map(|(name, lodging)| (name.clone(), Arc::clone(lodging))).collect();
        for (name, lodging) in all {
            let Some(seat) = lock(&lodging.seats).remove(task) else { continue };
            if name == SHARED {
                if lodging.in_use.load(Ordering::Relaxed) {
                    seat.leave().await;
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

    /// Closes every room; for a program that ends.
    pub(crate) async fn close_all(&self) {
        let all: Vec<Arc<Lodging>> = lock(&self.open).drain().map(|(_, lodging)| lodging).collect();
        join_all(all.iter().map(|lodging| lodging.close())).await;
    }

    /// Closes rooms nobody used for long. What runs in the background uses them.
    pub(crate) async fn close_idle(&self) {
        let now = self.clock.monotonic();
        let running = self.processes.tasks_running_elsewhere();
        let all: Vec<(String, Arc<Lodging>)> =
            lock(&self.open).iter().map(|(name, lodging)| (name.clone(), Arc::clone(lodging))).collect();
        let idle = all.iter().filter(|(name, lodging)| {
            if running.iter().any(|task| self.name(task) == name) {
                lodging.touch(now);
            }
            now.saturating_sub(*lock(&lodging.used)) > self.options.lifetime
        });
        join_all(idle.map(|(_, lodging)| lodging.close_if_empty())).await;
    }

    /// Looks after the rooms from now on, as long as somebody holds them.
    fn make_rounds(self: &Arc<Self>) {
        if self.rounds.set(()).is_err() {
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

impl Lodging {
    fn new(room: Room) -> Self {
        Self {
            room,
            seats: Mutex::default(),
            door: Arc::default(),
            used: Mutex::default(),
            in_use: AtomicBool::new(false),
            home: OnceCell::new(),
        }
    }

    fn touch(&self, now: Duration) {
        *lock(&self.used) = now;
    }

    async fn close_if_empty(&self) {
        let Ok(_nobody) = self.door.try_write() else { return };
        self.end().await;
    }

    /// Waits for those inside.
    async fn close(&self) {
        let _nobody = self.door.write().await;
        self.end().await;
    }

    async fn end(&self) {
        if self.in_use.swap(false, Ordering::Relaxed) {
            self.room.close().await;
        }
    }
}

/// Somebody's time in a room.
pub(crate) struct Stay {
    pub(crate) seat: Arc<Seat>,
    lodging: Arc<Lodging>,
    clock: Arc<dyn Clock>,
    _door: OwnedRwLockReadGuard<()>,
}

impl Stay {
    pub(crate) fn files(&self) -> RemoteFiles<'_> {
        RemoteFiles::new(&*self.seat, self.seat.bounds())
    }

    /// Where the task is over there, and its home.
    pub(crate) async fn bearings(&self, cancel: &Cancel) -> Result<Bearings, FileError> {
        let directory = self.seat.directory();
        match self.lodging.home.get() {
            Some(home) if directory.starts_with('/') => Ok(Bearings { directory, home: home.clone() }),
            _ => {
                let found = self.files().bearings(cancel).await?;
                // Whoever asked first said the same.
                let _ = self.lodging.home.set(found.home.clone());
                Ok(found)
            }
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.lodging.touch(self.clock.monotonic());
    }
}

impl fmt::Debug for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stay").field("seat", &self.seat).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
