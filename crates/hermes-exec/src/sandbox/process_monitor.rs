//! A thread that looks after what fenced processes do while nobody waits for them: those that run on, and what a command left
//! running. It puts back what must not stay every few seconds, until the last of them is gone.

use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use super::ChildSandbox;
use crate::group::ProcessGroup;
use crate::mark::ProcessMark;
use crate::watchdog;

const PAUSE: Duration = Duration::from_secs(2);
/// Processes that end at about the same time are looked after together.
const BATCH_DELAY: Duration = Duration::from_millis(200);

/// A fenced process and all it started.
struct MonitoredProcess {
    sandbox: Arc<ChildSandbox>,
    group: ProcessGroup,
    bound: BoundToParent,
}

/// Whether what is left of it dies with us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundToParent {
    Yes,
    No,
}

static MONITOR: LazyLock<Option<mpsc::Sender<MonitoredProcess>>> = LazyLock::new(|| {
    let (sender, inbox) = mpsc::channel();
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    thread.spawn(move || run_monitor(&inbox)).ok().map(|_| sender)
});

/// Looks after a process from now on until it is gone with all it started.
pub(crate) fn monitor(fence: Arc<ChildSandbox>, group: ProcessGroup, bound: BoundToParent) {
    let followed = MonitoredProcess { sandbox: fence, group, bound };
    if let Some(sentinel) = MONITOR.as_ref() {
        // It only ends with us.
        let _ = sentinel.send(followed);
    }
}

fn run_monitor(inbox: &mpsc::Receiver<MonitoredProcess>) {
    let mut all: Vec<MonitoredProcess> = Vec::new();
    loop {
        let next = if all.is_empty() { inbox.recv().ok() } else { inbox.recv_timeout(PAUSE).ok() };
        if next.is_none() && all.is_empty() {
            return;
        }
        if next.is_some() {
            std::thread::sleep(BATCH_DELAY);
        }
        all.extend(next);
        all.extend(inbox.try_iter());
        let carried = ProcessMark::live_marks();
        all.retain(|followed| {
            let lives = followed.group.mark().is_some_and(|mark| carried.contains(&mark.number()));
            followed.sandbox.restore_protected_files();
            if !lives && followed.bound == BoundToParent::Yes {
                watchdog::unregister_group(followed.group);
            }
            lives
        });
    }
}
