//! Runs the binary in a temporary home.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use hermes_testkit::TempHome;

/// Returns the path of the program under test. Long runs and measurements by hand use another build of it.
pub(crate) fn program() -> String {
    std::env::var("HERMES_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_hermes").to_owned())
}

/// Runs `hermes` and returns everything a user would see, with the home's path masked.
pub(crate) fn hermes(home: &TempHome, arguments: &[&str]) -> String {
    run(home.path(), arguments)
}

pub(crate) fn run(home: &Path, arguments: &[&str]) -> String {
    run_in(Path::new("/"), home, arguments)
}

/// Runs `hermes` in a working folder.
pub(crate) fn run_in(folder: &Path, home: &Path, arguments: &[&str]) -> String {
    let output = Command::cargo_bin("hermes")
        .unwrap()
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("HERMES_HOME", home)
        .env("HOME", "/nonexistent")
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let blank = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*home.to_string_lossy(), "[HOME]");
    let code = output.status.code().unwrap();
    let (stdout, stderr) = (blank(&output.stdout), blank(&output.stderr));
    let mut seen = format!("exit {code}\n");
    for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
        if !text.is_empty() {
            let _ = writeln!(seen, "--- {name}\n{}", text.trim_end());
        }
    }
    seen
}

const LONG: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(5);

/// Polls until the condition holds, for at most a minute.
#[track_caller]
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    until_found(|| what.to_owned(), || look().then_some(()));
}

/// Polls until something is found; panics with a description of the current state otherwise.
#[track_caller]
pub(crate) fn until_found<T>(what: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LONG.as_millis() / LOOK.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(LOOK);
    }
    panic!("in vain: {}", what())
}
