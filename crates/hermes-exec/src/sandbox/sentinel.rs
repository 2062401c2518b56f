//! A thread that looks after what fenced processes do while nobody waits for them: those that run on, and what a command left
//! running. It puts back what must not stay every few seconds, until the last of them is gone.

use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use super::Fence;
use crate::group::Group;
use crate::guardian;
use crate::mark::Mark;

const PAUSE: Duration = Duration::from_secs(2);
/// Processes that end at about the same time are looked after together.
const GATHERING: Duration = Duration::from_millis(200);

/// A fenced process and all it started.
struct Followed {
    fence: Arc<Fence>,
    group: Group,
    bound: Bound,
}

/// Whether what is left of it dies with us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Yes,
    No,
}

static SENTINEL: LazyLock<Option<mpsc::Sender<Followed>>> = LazyLock::new(|| {
    let (sender, inbox) = mpsc::channel();
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    thread.spawn(move || look_after(&inbox)).ok().map(|_| sender)
});

/// Looks after a process from now on until it is gone with all it started.
pub(crate) fn follow(fence: Arc<Fence>, group: Group, bound: Bound) {
    let followed = Followed { fence, group, bound };
    if let Some(sentinel) = SENTINEL.as_ref() {
        // It only ends with us.
        let _ = sentinel.send(followed);
    }
}

fn look_after(inbox: &mpsc::Receiver<Followed>) {
    let mut all: Vec<Followed> = Vec::new();
    loop {
        let next = if all.is_empty() { inbox.recv().ok() } else { inbox.recv_timeout(PAUSE).ok() };
        if next.is_none() && all.is_empty() {
            return;
        }
        if next.is_some() {
            std::thread::sleep(GATHERING);
        }
        all.extend(next);
        all.extend(inbox.try_iter());
        let carried = Mark::carried();
        all.retain(|followed| {
            let lives = followed.group.mark().is_some_and(|mark| carried.contains(&mark.number()));
            followed.fence.sweep();
            if !lives && followed.bound == Bound::Yes {
                guardian::forget(followed.group);
            }
            lives
        });
    }
}
