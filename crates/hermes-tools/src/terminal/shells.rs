//! One place to run commands per task: on this machine, elsewhere, or nowhere.
//!
//! What is configured to run elsewhere never runs here instead, whatever is missing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_exec::{Local, LocalHost, Reachable};
use hermes_types::{Cancel, Clock, Environment, TaskId};

use super::rooms::{Closed, RoomOptions, Rooms, Stay};
use crate::folders::Folders;
use crate::process::Processes;

/// Made at a task's first command and kept until the task ends. Clones share them.
#[derive(Debug, Clone)]
pub struct Shells {
    host: Host,
    folders: Folders,
    open: Arc<Mutex<HashMap<TaskId, Arc<Local>>>>,
}

#[derive(Debug, Clone)]
enum Host {
    Here(Arc<LocalHost>),
    There(Arc<Rooms>),
    /// Why there is none.
    Nowhere(Arc<str>),
}

/// Where one command runs.
#[derive(Debug)]
pub(crate) enum Place {
    Here(Arc<Local>),
    There(Stay),
}

impl Shells {
    /// On this machine.
    pub fn new(host: Arc<LocalHost>, folders: Folders) -> Self {
        Self::with(Host::Here(host), folders)
    }

    pub fn elsewhere(
        options: RoomOptions,
        folders: Folders,
        processes: Processes,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::with(Host::There(Rooms::new(options, processes, clock)), folders)
    }

    /// Where something is missing: every call says what.
    pub fn nowhere(reason: &str, folders: Folders) -> Self {
        Self::with(Host::Nowhere(reason.into()), folders)
    }

    fn with(host: Host, folders: Folders) -> Self {
        Self { host, folders, open: Arc::default() }
    }

    /// Whether commands and files are those of this machine.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.host, Host::Here(_))
    }

    /// What commands can do to the user's own things.
    pub(crate) fn reachable(&self) -> Reachable {
        match &self.host {
            Host::There(rooms) => rooms.reachable(),
            Host::Here(_) | Host::Nowhere(_) => Reachable::OwnThings,
        }
    }

    /// The task's place, ready to be used.
    pub(crate) async fn enter(&self, task: &TaskId, cancel: &Cancel) -> Result<Place, Closed> {
        match &self.host {
            Host::Here(host) => {
                let mut open = self.lock();
                let place = open.entry(task.clone()).or_insert_with(|| {
                    Arc::new(host.open_within(self.folders.anchor(task), self.folders.of(task)))
                });
                Ok(Place::Here(Arc::clone(place)))
            }
            Host::There(rooms) => rooms.enter(task, cancel).await.map(Place::There),
            Host::Nowhere(reason) => Err(Closed::Disabled(reason.to_string())),
        }
    }

    /// Where the task is; the file tools follow. Elsewhere they ask the place itself.
    pub(crate) fn follow(&self, task: &TaskId, place: &Place) {
        let Place::Here(local) = place else { return };
        let now = local.directory();
        if self.folders.of(task) != now {
            self.folders.set(task, now);
        }
    }

    /// A folder as the model wrote it.
    pub(crate) fn resolve(&self, task: &TaskId, given: &str, user_home: &Path) -> PathBuf {
        match given.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                user_home.join(rest.trim_start_matches('/'))
            }
            _ => self.folders.of(task).join(given),
        }
    }

    pub(crate) fn folder(&self, task: &TaskId) -> PathBuf {
        self.folders.of(task)
    }

    /// Has a task work for another one.
    pub(crate) fn delegate(&self, task: &TaskId, parent: &TaskId) {
        self.folders.delegate(task, parent);
    }

    pub(crate) fn close(&self, task: &TaskId) {
        self.lock().remove(task);
        if let Host::There(rooms) = &self.host {
            rooms.leave(task);
        }
    }

    /// Closes what was opened elsewhere; for a program that ends.
    pub async fn close_all(&self) {
        if let Host::There(rooms) = &self.host {
            rooms.close_all().await;
        }
    }

    /// Closes rooms that nobody used for longer than they last. A task of its own does so every minute.
    pub async fn close_idle(&self) {
        if let Host::There(rooms) = &self.host {
            rooms.close_idle().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<Local>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(crate) fn environment(&self) -> &dyn Environment {
        match self {
            Self::Here(local) => &**local,
            Self::There(stay) => &*stay.seat,
        }
    }
}
