//! A thread that monitors sandboxed processes while no caller waits for them: background processes, and
//! processes that a command left running. It restores protected files every few seconds, until the last of
//! them has exited.

use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use super::ChildSandbox;
use crate::group::ProcessGroup;
use crate::mark::ProcessMark;
use crate::watchdog;

const PAUSE: Duration = Duration::from_secs(2);
/// The delay within which processes that end at about the same time are handled together.
const BATCH_DELAY: Duration = Duration::from_millis(200);

/// A sandboxed process and all processes it started.
struct MonitoredProcess {
    sandbox: Arc<ChildSandbox>,
    group: ProcessGroup,
    bound: BoundToParent,
}

/// Selects whether what is left of the process dies with Hermes.
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

/// Monitors a process until it and all processes it started have exited.
pub(crate) fn monitor(fence: Arc<ChildSandbox>, group: ProcessGroup, bound: BoundToParent) {
    let followed = MonitoredProcess { sandbox: fence, group, bound };
    if let Some(sentinel) = MONITOR.as_ref() {
        // The thread runs as long as this process, so the message is always received.
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
