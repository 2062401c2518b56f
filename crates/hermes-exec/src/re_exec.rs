//! Replaces this process by another program, and starts programs that outlive it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::variables::Variables;

/// Returns the path of the program, also when the file was replaced since it was started.
pub fn own_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    // For a replaced file the kernel appends a marker to the old path.
    let text = program.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| program.clone(), PathBuf::from))
}

/// Executes the program from the disk again, with the same arguments and the same pid. Returns only when that
/// fails.
pub fn re_exec() -> io::Error {
    let program = match own_program() {
        Ok(path) => path,
        Err(error) => return error,
    };
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).exec()
}

/// Executes another program in place of this one, with these variables added. Returns only when that fails.
pub fn exec_program(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> io::Error {
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied()).exec()
}

/// Starts a program that outlives this process. Its output goes to one file and its exit code, when it exits,
/// to another.
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
    // The shell exits at once, so this process does not have to reap what it started.
    let status = command.spawn()?.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("sh ended with {status}"))) }
}

/// Starts a program that outlives this process and whose output is appended to a file.
pub fn start_service(program: &Path, arguments: &[String], log: &Path) -> io::Result<()> {
    const SCRIPT: &str = "umask 077; log=$1; shift; \"$@\" >>\"$log\" 2>&1 &";
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "hermes-apart"])
        .args([log, program])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    // The shell exits at once, so this process does not have to reap what it started.
    let status = command.spawn()?.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("sh ended with {status}"))) }
}
