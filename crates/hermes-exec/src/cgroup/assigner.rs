//! The thread that assigns control groups to children that last, and removes those of children that are over.
//!
//! A call only puts a message in a queue. The thread checks young children periodically, so that a child that
//! exits soon gets no control group.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

use super::{Cgroup, hierarchy};

/// The age from which a child gets a control group; it has one before it is twice as old.
const MIN_AGE: Duration = Duration::from_millis(200);

static ASSIGNER: LazyLock<Option<Sender<CgroupRequest>>> = LazyLock::new(|| {
    hierarchy::prefix()?;
    let (orders, inbox) = mpsc::channel();
    let thread = std::thread::Builder::new().name("cells".to_owned());
    thread.spawn(move || run_assigner(&inbox)).ok().map(|_| orders)
});

/// The leaders that are watched. No other process gets a control group.
static WATCHED: LazyLock<Mutex<HashSet<Pid>>> = LazyLock::new(Mutex::default);

enum CgroupRequest {
    Started(Pid),
    Released(Cgroup),
}

/// Watches a leader that has started, which gets a control group if it lasts.
pub(crate) fn watch(leader: Pid) {
    watched().insert(leader);
    send_request(CgroupRequest::Started(leader));
}

/// Stops watching a leader that has exited. Processes it left running go on without its control group.
pub(crate) fn forget(leader: Pid) {
    watched().remove(&leader);
    if let Some(cell) = Cgroup::of(leader) {
        release(cell);
    }
}

/// Removes a control group that is no longer needed.
pub(crate) fn release(cell: Cgroup) {
    send_request(CgroupRequest::Released(cell));
}

fn send_request(order: CgroupRequest) {
    if let Some(warden) = ASSIGNER.as_ref() {
        // The thread runs as long as the process, so the message is always received.
        let _ = warden.send(order);
    }
}

fn watched() -> MutexGuard<'static, HashSet<Pid>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_assigner(inbox: &Receiver<CgroupRequest>) {
    hierarchy::remove_stale();
    let mut young = Vec::new();
    while let Ok(order) = inbox.recv() {
        handle_request(order, &mut young);
        while !young.is_empty() {
            std::thread::sleep(MIN_AGE);
            let grown = std::mem::take(&mut young);
            for order in inbox.try_iter() {
                handle_request(order, &mut young);
            }
            grown.into_iter().for_each(assign_cgroup);
        }
    }
}

fn handle_request(order: CgroupRequest, young: &mut Vec<Pid>) {
    match order {
        CgroupRequest::Started(leader) => young.push(leader),
        CgroupRequest::Released(cell) => cell.remove(),
    }
}

fn assign_cgroup(leader: Pid) {
    if !watched().contains(&leader) {
        return;
    }
    let cell = Cgroup::capture(leader);
    // A caller that released the leader meanwhile may have found no control group to remove.
    if let Some(cell) = cell.filter(|_| !watched().contains(&leader)) {
        cell.remove();
    }
}
