//! Work on files that the kernel holds to a conversation's limits: a thread that has entered the rules a command would enter.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;

use super::prepared_sandbox::PreparedSandbox;

type Work = Box<dyn FnOnce() + Send>;

/// A thread within the rules. It ends when this is dropped.
#[derive(Debug)]
pub struct SandboxedThread {
    work: mpsc::Sender<Work>,
}

impl SandboxedThread {
    /// Starts one. Where the kernel has no Landlock, it is a plain thread, and whoever uses it must check paths.
    pub(super) fn start(prepared: Arc<PreparedSandbox>) -> io::Result<Self> {
        let (work, inbox) = mpsc::channel::<Work>();
        let (entered, ready) = mpsc::channel::<io::Result<()>>();
        std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            let inside = prepared.enter_thread();
            let may_work = inside.is_ok();
            drop(prepared);
            // Nobody waits any more when the call was cancelled.
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

    /// Runs work there and waits for it.
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
    io::Error::other("the thread for files is gone")
}
