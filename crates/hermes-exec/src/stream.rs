//! The local end of a pipe or a terminal.
//!
//! Only the local end is non-blocking: the flag belongs to the open file, and the child has another one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One end of a pipe or terminal, read or written through the runtime.
#[derive(Debug)]
pub(crate) struct Stream(AsyncFd<OwnedFd>);

impl Stream {
    /// Registers the end with the runtime. Must be called within a runtime.
    pub(crate) fn new(end: OwnedFd, interest: Interest) -> io::Result<Self> {
        let flags = fcntl_getfl(&end)?;
        fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
        // SAFETY: an owned descriptor always names the same open file, and stays open as long as its owner,
        // which the registration now is.
        #[expect(unsafe_code, reason = "the runtime cannot know that a descriptor stays what it is")]
        let registered = unsafe { AsyncFd::register_with_interest(end, interest)? };
        Ok(Self(registered))
    }

    /// Reads the next bytes and returns how many there are; zero once the other side is closed. Dropping the
    /// future loses nothing.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let done =
            self.0.async_io(Interest::READABLE, |end| Ok(rustix::io::read(end.as_fd(), &mut *buffer)?)).await;
        match done {
            // A terminal reports this error when the last program on its other side is gone.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            done => done,
        }
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count =
                self.0.async_io(Interest::WRITABLE, |end| Ok(rustix::io::write(end.as_fd(), bytes)?)).await?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Returns another handle to the same end.
    pub(crate) fn try_clone(&self, interest: Interest) -> io::Result<Self> {
        Self::new(self.0.get_ref().try_clone()?, interest)
    }
}
