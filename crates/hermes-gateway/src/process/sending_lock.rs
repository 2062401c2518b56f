//! `outbox.lock`: only one process of a home sends at a time, the gateway or a command that delivers in its
//! place.
//!
//! A process that starts sending treats replies marked as being sent as left over by a dead process; that is true
//! only for the holder of this lock. The file stays when the lock is released: deleting it would let two
//! processes hold it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;

use hermes_config::{Error, Home};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The right to send, held until dropped or until the process ends.
#[derive(Debug)]
pub struct SendingLock {
    _file: File,
}

impl SendingLock {
    /// Takes the lock. Returns `None` when another process holds it.
    pub fn try_acquire(home: &Home) -> hermes_config::Result<Option<Self>> {
        let path = home.join("outbox.lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| Error::unwritable(&path, source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            // Where the file system has no locks, `gateway.pid` still shows whether a gateway runs.
            _ => Ok(Some(Self { _file: file })),
        }
    }
}
