//! The fence the operating system puts around a command.

use std::io;

/// A prepared fence; a child enters it between fork and exec.
#[derive(Debug)]
pub(crate) struct Fence;

impl Fence {
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "stub")]
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(())
    }
}
