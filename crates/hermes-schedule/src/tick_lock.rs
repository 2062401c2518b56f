//! `.tick.lock`: one tick at a time, whichever process it is in.
//!
//! The file stays when the lock is given back: deleting it would let two processes hold "the" lock.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;

use hermes_config::{Error as ConfigError, Home};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Result;

/// Held until dropped, or until the process is gone.
#[derive(Debug)]
pub struct TickLock {
    _file: File,
}

impl TickLock {
    /// Takes the lock. Nothing, when somebody else has it.
    pub fn try_acquire(home: &Home) -> Result<Option<Self>> {
        home.folder("cron")?;
        let path = home.cron_lock();
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| ConfigError::unwritable(&path, source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            // Where the file system has no locks, the claims in the database still keep instants apart.
            _ => Ok(Some(Self { _file: file })),
        }
    }
}
