//! Distinguishes a process that has no file descriptors left from a network that fails.

use std::io;

/// The message for users about it.
pub const OUT_OF_DESCRIPTORS: &str = "this process has no file descriptors left; raise the limit (`ulimit -n`, or LimitNOFILE= of the service)";

/// Tells whether an operation failed because the process or the machine has no file descriptors left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}
