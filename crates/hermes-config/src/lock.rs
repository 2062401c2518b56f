//! Advisory locks between the processes that share a home.
//!
//! A lock is a separate file, never the file it protects, because that one is replaced by renames. The kernel
//! releases the lock when a process dies, so no stale lock can remain.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_types::WallClock;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{Error, Result};

/// The time to wait for another process, and the interval between attempts.
#[derive(Debug, Clone, Copy)]
pub struct LockTimeout {
    pub timeout: Duration,
    pub poll_interval: Duration,
}

impl LockTimeout {
    /// The wait for the settings files, whose writers hold the lock for milliseconds.
    pub const SETTINGS: Self =
        Self { timeout: Duration::from_secs(10), poll_interval: Duration::from_millis(5) };
    /// The wait for `auth.json`, whose holder may be refreshing a token over the network.
    pub const AUTH: Self =
        Self { timeout: Duration::from_secs(15), poll_interval: Duration::from_millis(50) };
}

thread_local! {
    /// The locks this thread holds, so that a holder may call code that locks again.
    static HELD: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// A lock that is held until dropped, by the thread that acquired it.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    /// The locked file; absent for a nested lock of the same holder, and where the file system has no locks.
    _file: Option<File>,
    /// Keeps the lock on its thread, because the record of held locks is per thread.
    _this_thread: PhantomData<*const ()>,
}

impl FileLock {
    /// Waits for the lock, at most as long as `patience` allows.
    pub fn acquire(path: &Path, patience: LockTimeout) -> Result<Self> {
        let again = HELD.with_borrow(|held| held.iter().any(|other| other == path));
        let file = if again { None } else { acquire(path, patience)? };
        HELD.with_borrow_mut(|held| held.push(path.to_owned()));
        Ok(Self { path: path.to_owned(), _file: file, _this_thread: PhantomData })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| {
            if let Some(index) = held.iter().rposition(|other| *other == self.path) {
                held.remove(index);
            }
        });
    }
}

fn acquire(path: &Path, patience: LockTimeout) -> Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| Error::unwritable(path, source))?;
    let clock = WallClock::default();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {
                // Some network file systems have no locks; refusing to write there would make Hermes unusable on
                // them.
                tracing::warn!(path = %path.display(), "the file system has no locks; writing without one");
                return Ok(None);
            }
            Err(errno) => return Err(Error::unwritable(path, errno.into())),
        }
        let waited = clock.monotonic();
        if waited >= patience.timeout {
            return Err(Error::Busy { path: path.to_owned(), seconds: patience.timeout.as_secs() });
        }
        std::thread::sleep(jitter(patience.poll_interval).min(patience.timeout.saturating_sub(waited)));
    }
}

/// Returns between half and one and a half times `span`, so that waiting processes do not retry at the same
/// moment.
fn jitter(span: Duration) -> Duration {
    let percent = u32::try_from(random() % 100).unwrap_or(50);
    span / 2 + span * percent / 100
}

/// Returns a random number from the standard library's per-process hash seed. It is not for secrets.
pub(crate) fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}
