//! `auth.json`, locked across a renewal.
//!
//! The lock belongs to a thread, and a renewal waits on the network; so a separate thread takes the lock, reads and
//! writes on request, and releases the lock when the holder is dropped.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_config::auth::{AuthFile, AuthState};
use hermes_types::Cancel;

use super::error::SignInError;

type Job = Box<dyn FnOnce(&AuthFile) + Send>;

/// `auth.json`, locked against every other process and task.
#[derive(Debug)]
pub(super) struct LockedAuthFile {
    jobs: Sender<Job>,
}

impl LockedAuthFile {
    /// Waits for the lock.
    pub(super) async fn lock(file: &AuthFile) -> Result<Self, SignInError> {
        let (jobs, work) = channel::<Job>();
        let (promise, taken) = result_channel();
        let file = file.clone();
        std::thread::Builder::new()
            .name("auth-lock".to_owned())
            .spawn(move || hold_lock(&file, &work, promise))
            .map_err(|error| SignInError::Storage(format!("cannot start a thread: {error}")))?;
        taken.wait().await.unwrap_or_else(|| Err(thread_ended_error()))?;
        Ok(Self { jobs })
    }

    pub(super) async fn read(&self) -> Result<AuthState, SignInError> {
        self.run(AuthFile::read).await
    }

    /// Changes the file. When this returns, the change is on disk.
    pub(super) async fn update(
        &self,
        change: impl FnOnce(&mut AuthState) + Send + 'static,
    ) -> Result<(), SignInError> {
        self.run(|file| file.update(change).map_err(SignInError::from)).await?
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AuthFile) -> T + Send + 'static,
    ) -> Result<T, SignInError> {
        let (promise, answer) = result_channel();
        let job: Job = Box::new(move |file| promise.send(work(file)));
        self.jobs.send(job).map_err(|_| thread_ended_error())?;
        answer.wait().await.ok_or_else(thread_ended_error)
    }
}

fn thread_ended_error() -> SignInError {
    SignInError::Storage("the thread that holds auth.json ended early".to_owned())
}

fn hold_lock(file: &AuthFile, work: &Receiver<Job>, taken: ThreadResultSender<Result<(), SignInError>>) {
    let _lock = match file.lock() {
        Ok(lock) => lock,
        Err(error) => return taken.send(Err(error.into())),
    };
    taken.send(Ok(()));
    while let Ok(job) = work.recv() {
        job(file);
    }
}

/// Runs blocking work on a separate thread; returns `None` if the thread could not be started.
pub(crate) fn run_on_thread(work: impl FnOnce() + Send + 'static) -> Option<ThreadResult<()>> {
    let (promise, answer) = result_channel();
    let spawned = std::thread::Builder::new().name("auth-write".to_owned()).spawn(move || {
        work();
        promise.send(());
    });
    match spawned {
        Ok(_) => Some(answer),
        Err(error) => {
            tracing::warn!(%error, "cannot start a thread; the state of a key is not saved");
            None
        }
    }
}

/// A value that a thread produces and a task awaits.
#[derive(Debug)]
pub(crate) struct ThreadResult<T> {
    value: Arc<Mutex<Option<T>>>,
    done: Cancel,
}

struct ThreadResultSender<T> {
    value: Arc<Mutex<Option<T>>>,
    /// Cancelled when the value is set, and also when the thread ends without setting it.
    done: Cancel,
}

fn result_channel<T>() -> (ThreadResultSender<T>, ThreadResult<T>) {
    let value = Arc::new(Mutex::new(None));
    let done = Cancel::new();
    (ThreadResultSender { value: Arc::clone(&value), done: done.clone() }, ThreadResult { value, done })
}

impl<T> ThreadResultSender<T> {
    fn send(self, value: T) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

impl<T> Drop for ThreadResultSender<T> {
    fn drop(&mut self) {
        self.done.cancel();
    }
}

impl<T> ThreadResult<T> {
    pub(crate) async fn wait(self) -> Option<T> {
        self.done.cancelled().await;
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
