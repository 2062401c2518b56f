//! The thread that gives cells to children that last, and takes back those of children that are over.
//!
//! It costs a call one word in a queue. It looks at the young ones now and then, so that nobody who ends soon gets a cell.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

use super::{Cell, place};

/// A child gets a cell when it is older than this, and before it is twice as old.
const YOUTH: Duration = Duration::from_millis(200);

static WARDEN: LazyLock<Option<Sender<Order>>> = LazyLock::new(|| {
    place::prefix()?;
    let (orders, inbox) = mpsc::channel();
    let thread = std::thread::Builder::new().name("cells".to_owned());
    thread.spawn(move || attend(&inbox)).ok().map(|_| orders)
});

/// The leaders somebody looks after. Another gets no cell.
static WATCHED: LazyLock<Mutex<HashSet<Pid>>> = LazyLock::new(Mutex::default);

enum Order {
    Born(Pid),
    Over(Cell),
}

/// A leader runs from now on, and gets a cell if it lasts.
pub(crate) fn watch(leader: Pid) {
    watched().insert(leader);
    tell(Order::Born(leader));
}

/// It is over. What it left running goes on without a cell.
pub(crate) fn forget(leader: Pid) {
    watched().remove(&leader);
    if let Some(cell) = Cell::of(leader) {
        release(cell);
    }
}

/// A cell nobody needs any more.
pub(crate) fn release(cell: Cell) {
    tell(Order::Over(cell));
}

fn tell(order: Order) {
    if let Some(warden) = WARDEN.as_ref() {
        // The thread ends with the process only.
        let _ = warden.send(order);
    }
}

fn watched() -> MutexGuard<'static, HashSet<Pid>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attend(inbox: &Receiver<Order>) {
    place::sweep();
    let mut young = Vec::new();
    while let Ok(order) = inbox.recv() {
        take(order, &mut young);
        while !young.is_empty() {
            std::thread::sleep(YOUTH);
            let grown = std::mem::take(&mut young);
            for order in inbox.try_iter() {
                take(order, &mut young);
            }
            grown.into_iter().for_each(enclose);
        }
    }
}

fn take(order: Order, young: &mut Vec<Pid>) {
    match order {
        Order::Born(leader) => young.push(leader),
        Order::Over(cell) => cell.open(),
    }
}

fn enclose(leader: Pid) {
    if !watched().contains(&leader) {
        return;
    }
    let cell = Cell::gather(leader);
    // Who let go of it meanwhile may have found no cell to take back.
    if let Some(cell) = cell.filter(|_| !watched().contains(&leader)) {
        cell.open();
    }
}
