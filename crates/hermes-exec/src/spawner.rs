//! The thread from which all children are forked.
//!
//! The kernel ties a child's parent-death signal to the *thread* that forked it, and the runtime may end its
//! threads at any time. This thread lives as long as the process, so a child gets that signal when Hermes
//! dies and not before.

use std::io;
use std::sync::{LazyLock, mpsc};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct SpawnRequest {
    command: Command,
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Child>>,
}

static SPAWNER: LazyLock<Option<mpsc::Sender<SpawnRequest>>> = LazyLock::new(|| {
    let (orders, inbox) = mpsc::channel::<SpawnRequest>();
    let thread = std::thread::Builder::new().name("children".to_owned());
    let started = thread.spawn(move || {
        for SpawnRequest { mut command, runtime, answer } in inbox {
            let _within = runtime.enter();
            // The receiver is gone when the call was cancelled; the child is then killed as it is dropped.
            let _ = answer.send(command.spawn());
        }
    });
    started.ok().map(|_| orders)
});

/// Starts a child. The command must be set to be killed when dropped.
pub(crate) async fn start(command: Command) -> io::Result<Child> {
    let (answer, started) = oneshot::channel();
    let order = SpawnRequest { command, runtime: Handle::current(), answer };
    let Some(keeper) = SPAWNER.as_ref() else {
        return Err(io::Error::other("no thread could be started for child processes"));
    };
    keeper.send(order).map_err(|_| io::Error::other("the thread that starts child processes has ended"))?;
    started.await.map_err(|_| io::Error::other("the thread that starts child processes has ended"))?
}
