//! A background process in a remote environment that is polled periodically.
//!
//! The counterpart of [`crate::BackgroundProcess`]: holds the newest output and the exit code, as of the last
//! poll. It takes no input. The holder of the handle decides how long the process is remembered. Dropping
//! every handle stops the polling and leaves the process running.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, RunError};
use tokio::sync::watch;

use super::process_handle::ProcessPoll;
use super::{RemoteProcessHandle, RemoteProcessState, RemoteShellSession};
use crate::ring::RingBuffer;

const PAUSE: Duration = Duration::from_secs(2);
/// The number of consecutive failed polls after which the process is given up.
const MOST_FAILURES: u32 = 3;
const KILLED: i32 = -15;
const LOST: i32 = -1;

/// A handle to a remote process; clones refer to the same process.
#[derive(Debug, Clone)]
pub struct RemoteProcess(Arc<RemoteProcessShared>);

#[derive(Debug)]
struct RemoteProcessShared {
    process: RemoteProcessHandle,
    directory: String,
    clock: Arc<dyn Clock>,
    /// The shell session, released when the process has ended, so that the environment can be closed.
    session: Mutex<Option<Arc<RemoteShellSession>>>,
    ring: Mutex<RingBuffer>,
    ended: watch::Sender<Option<i32>>,
}

impl RemoteProcess {
    /// Starts a process and polls it until `owner` is cancelled.
    pub async fn start(
        seat: Arc<RemoteShellSession>,
        command: &str,
        directory: Option<&Path>,
        clock: Arc<dyn Clock>,
        owner: &Cancel,
    ) -> Result<Self, RunError> {
        let process = RemoteProcessHandle::start(&*seat, command, directory, owner).await?;
        let directory =
            directory.map_or_else(|| seat.directory(), |folder| folder.to_string_lossy().into_owned());
        let shared = Arc::new(RemoteProcessShared {
            process,
            directory,
            clock,
            session: Mutex::new(Some(seat)),
            ring: Mutex::default(),
            ended: watch::Sender::new(None),
        });
        let watcher = Arc::clone(&shared);
        let cancel = owner.clone();
        spawn_named(format!("distant process {}", shared.process.pid()), owner, async move {
            watcher.watch(&cancel).await;
        });
        Ok(Self(shared))
    }

    /// Returns the pid in the remote environment.
    pub fn pid(&self) -> u32 {
        self.0.process.pid()
    }

    pub fn directory(&self) -> &str {
        &self.0.directory
    }

    /// Returns the exit code; `None` while the process runs, −1 if it left no code or can no longer be
    /// reached.
    pub fn exit_code(&self) -> Option<i32> {
        *self.0.ended.borrow()
    }

    /// Waits until the process has exited and returns its exit code.
    pub async fn ended(&self) -> i32 {
        let mut ended = self.0.ended.subscribe();
        ended.wait_for(Option::is_some).await.ok().and_then(|code| *code).unwrap_or(LOST)
    }

    /// Returns at most `chars` characters from the end of the output.
    pub fn output(&self, chars: usize) -> String {
        lock(&self.0.ring).last(chars).to_owned()
    }

    /// Returns the number of characters the process has written in all.
    pub fn total_chars(&self) -> u64 {
        lock(&self.0.ring).total()
    }

    /// Ends the whole remote process group.
    pub async fn kill(&self) -> i32 {
        let seat = lock(&self.0.session).clone();
        if let Some(seat) = seat.filter(|_| self.exit_code().is_none()) {
            if let Err(error) = self.0.process.kill(&*seat, &Cancel::new()).await {
                tracing::warn!(%error, "a process elsewhere could not be ended");
            }
            self.0.end(KILLED, &seat).await;
        }
        self.ended().await
    }
}

impl RemoteProcessShared {
    async fn watch(&self, cancel: &Cancel) {
        let mut from = 0;
        let mut failures = 0;
        loop {
            let Some(seat) = lock(&self.session).clone() else { return };
            match self.process.poll(&*seat, seat.bounds(), from, cancel).await {
                Ok(ProcessPoll { state, size, next, fresh }) => {
                    failures = 0;
                    from = next;
                    lock(&self.ring).push(&fresh);
                    if from < size && !fresh.is_empty() {
                        continue;
                    }
                    if let RemoteProcessState::Exited(code) = state {
                        return self.end(code, &seat).await;
                    }
                }
                Err(_) if cancel.is_cancelled() => return,
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "a process elsewhere could not be looked at");
                    if failures >= MOST_FAILURES {
                        return self.end(LOST, &seat).await;
                    }
                }
            }
            drop(seat);
            self.clock.sleep(PAUSE).await;
        }
    }

    /// Records the exit code; the first caller determines it.
    async fn end(&self, code: i32, seat: &RemoteShellSession) {
        if lock(&self.session).take().is_none() {
            return;
        }
        lock(&self.ring).finish();
        self.ended.send_replace(Some(code));
        if let Err(error) = self.process.clone().remove_files(seat, &Cancel::new()).await {
            tracing::debug!(%error, "the files of a process elsewhere could not be removed");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
