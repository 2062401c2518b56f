//! `.tick.lock`: allows one tick at a time across all processes.
//!
//! The file stays when the lock is released: deleting it would let two processes each lock a file of that name.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;

use hermes_config::{Error as ConfigError, Home};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Result;

/// The tick lock, held until it is dropped or the process ends.
#[derive(Debug)]
pub struct TickLock {
    _file: File,
}

impl TickLock {
    /// Acquires the lock, or returns `None` when another holder has it.
    pub fn try_acquire(home: &Home) -> Result<Option<Self>> {
        home.folder("cron")?;
        let path = home.cron_lock();
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| ConfigError::unwritable(&path, source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            // Where the file system has no locks, the claims in the database still prevent duplicate runs.
            _ => Ok(Some(Self { _file: file })),
        }
    }
}
