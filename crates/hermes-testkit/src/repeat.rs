//! Runs tests of the calling program once more as an ordinary user.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::peer::peer_is_missing;

/// The user id without rights of its own.
const NOBODY: u32 = 65534;

/// Says whether the repeated tests may create user namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserNamespaces {
    Allowed,
    /// As on Ubuntu, which gives programs none.
    Denied,
}

/// Runs the tests whose names contain one of these texts once more, as an ordinary user in a folder of its own. Root is
/// needed for that.
pub fn repeat_tests_as_nobody(namespaces: UserNamespaces, tests: &[&str]) {
    let Ok(folder) = tempfile::tempdir() else { return peer_is_missing("a temporary folder") };
    let opened = fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755));
    let inside = folder.path().join("home");
    match opened.and_then(|()| fs::create_dir(&inside)) {
        Ok(()) => repeat_tests_as_nobody_in(&inside, namespaces, tests),
        Err(error) => peer_is_missing(&error.to_string()),
    }
}

/// Runs these tests as an ordinary user in a folder, which is given to that user.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the test program runs itself once more")]
pub fn repeat_tests_as_nobody_in(folder: &Path, namespaces: UserNamespaces, tests: &[&str]) {
    let is_root = fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
    let program = folder.join("tests");
    let copied = std::env::current_exe().and_then(|own| fs::copy(own, &program));
    if !is_root || copied.is_err() || chown(folder, Some(NOBODY), Some(NOBODY)).is_err() {
        return peer_is_missing("root");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/without_namespaces.py");
    let change_user: &[&str] = match namespaces {
        UserNamespaces::Allowed => &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"],
        UserNamespaces::Denied => &["python3", script],
    };
    let mut command = change_user.iter();
    let done = Command::new(command.next().copied().unwrap_or_default())
        .args(command)
        .arg(&program)
        .args(tests)
        .args(["--test-threads", "2"])
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("HERMES_TEST_HOMES", folder)
        // The process is not root, and a missing peer that needs root must not fail the tests.
        .env_remove("HERMES_TEST_PEERS")
        .current_dir(folder)
        .output();
    let Ok(done) = done else { return peer_is_missing(change_user.first().copied().unwrap_or_default()) };
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("passed; 0 failed"), "{said}");
    assert!(!said.contains("running 0 tests"), "no test has such a name: {tests:?}");
}
