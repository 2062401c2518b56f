//! A thread for work on files under a conversation's limits, enforced by the kernel: it has entered the rules
//! that a command would enter.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;

use super::prepared_sandbox::PreparedSandbox;

type Work = Box<dyn FnOnce() + Send>;

/// A thread under the rules. It ends when this value is dropped.
#[derive(Debug)]
pub struct SandboxedThread {
    work: mpsc::Sender<Work>,
}

impl SandboxedThread {
    /// Starts a thread. Where the kernel has no Landlock, it is unrestricted, and callers must check paths.
    pub(super) fn start(prepared: Arc<PreparedSandbox>) -> io::Result<Self> {
        let (work, inbox) = mpsc::channel::<Work>();
        let (entered, ready) = mpsc::channel::<io::Result<()>>();
        std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            let inside = prepared.enter_thread();
            let may_work = inside.is_ok();
            drop(prepared);
            // The receiver is gone when the call was cancelled.
            let _ = entered.send(inside);
            if may_work {
                for work in inbox {
                    work();
                }
            }
        })?;
        ready.recv().map_err(|_| gone())??;
        Ok(Self { work })
    }

    /// Runs work on the thread and waits for its result.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (answer, done) = mpsc::channel();
        let work: Work = Box::new(move || {
            let _ = answer.send(work());
        });
        self.work.send(work).map_err(|_| gone())?;
        done.recv().map_err(|_| gone())
    }
}

fn gone() -> io::Error {
    io::Error::other("the file thread has ended")
}
