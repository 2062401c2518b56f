//! The thread that gives cells to children that last, and takes back those of children that are over.
//!
//! It costs a call one word in a queue. It looks at the young ones now and then, so that nobody who ends soon gets a cell.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

use super::{Cgroup, hierarchy};

/// A child gets a cell when it is older than this, and before it is twice as old.
const MIN_AGE: Duration = Duration::from_millis(200);

static ASSIGNER: LazyLock<Option<Sender<CgroupRequest>>> = LazyLock::new(|| {
    hierarchy::prefix()?;
    let (orders, inbox) = mpsc::channel();
    let thread = std::thread::Builder::new().name("cells".to_owned());
    thread.spawn(move || run_assigner(&inbox)).ok().map(|_| orders)
});

/// The leaders somebody looks after. Another gets no cell.
static WATCHED: LazyLock<Mutex<HashSet<Pid>>> = LazyLock::new(Mutex::default);

enum CgroupRequest {
    Started(Pid),
    Released(Cgroup),
}

/// A leader runs from now on, and gets a cell if it lasts.
pub(crate) fn watch(leader: Pid) {
    watched().insert(leader);
    send_request(CgroupRequest::Started(leader));
}

/// It is over. What it left running goes on without a cell.
pub(crate) fn forget(leader: Pid) {
    watched().remove(&leader);
    if let Some(cell) = Cgroup::of(leader) {
        release(cell);
    }
}

/// A cell nobody needs any more.
pub(crate) fn release(cell: Cgroup) {
    send_request(CgroupRequest::Released(cell));
}

fn send_request(order: CgroupRequest) {
    if let Some(warden) = ASSIGNER.as_ref() {
        // The thread ends with the process only.
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
    // Who let go of it meanwhile may have found no cell to take back.
    if let Some(cell) = cell.filter(|_| !watched().contains(&leader)) {
        cell.remove();
    }
}
