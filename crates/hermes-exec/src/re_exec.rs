//! Other programs in our place, and programs that go on without us.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::variables::Variables;

/// Where the program lies, also when that file was replaced since.
pub fn own_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    // The kernel knows it under its old place with a mark behind it then.
    let text = program.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| program.clone(), PathBuf::from))
}

/// Takes the program from the disk once more, with the same arguments and under the same number. Returns only when that
/// cannot be done.
pub fn re_exec() -> io::Error {
    let program = match own_program() {
        Ok(path) => path,
        Err(error) => return error,
    };
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).exec()
}

/// Another program in our place, with these variables beside those we have. Returns only when that cannot be done.
pub fn exec_program(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> io::Error {
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied()).exec()
}

/// Starts a program that goes on when we end: what it says goes into a file, and its exit code, when it ends, into another.
pub fn start_detached(
    program: &Path,
    argument: &str,
    variables: &Variables,
    (said, code): (&Path, &Path),
) -> io::Result<()> {
    const SCRIPT: &str = "umask 077; { \"$1\" \"$2\" >\"$3\" 2>&1; echo $? >\"$4.new\"; mv \"$4.new\" \"$4\"; } >/dev/null 2>&1 &";
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "hermes-apart"])
        .arg(program)
        .arg(argument)
        .args([said, code])
        .env_clear()
        .envs(variables.pairs())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    // The shell ends at once; what it started has no parent that would have to wait for it.
    let status = command.spawn()?.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("sh ended with {status}"))) }
}
