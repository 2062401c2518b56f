//! Beginning again in the same process.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Takes the program from the disk once more, with the same arguments and under the same number. Returns only when that
/// cannot be done.
pub fn become_again() -> io::Error {
    let program = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return error,
    };
    // A file that was replaced since is known to the kernel under its old place with a mark behind it.
    let text = program.to_string_lossy();
    let program = text.strip_suffix(" (deleted)").map_or_else(|| program.clone(), PathBuf::from);
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).exec()
}
