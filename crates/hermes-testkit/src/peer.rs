//! Real programs that a script started for the tests (`scripts/peers`), found by environment variables it set.

use std::path::PathBuf;

use tempfile::TempDir;

/// Reports that a test cannot run because a program, an engine or a kernel feature is missing. Panics where all of
/// them are required (`HERMES_TEST_PEERS=required`, as in `.ci/run`). Tests that need a program or a server have
/// names that begin with `peer_`: the runner skips them by default.
#[track_caller]
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says so there")]
pub fn peer_is_missing(what: &str) {
    assert!(
        std::env::var_os("HERMES_TEST_PEERS").is_none_or(|value| value != "required"),
        "missing, and required here: {what}"
    );
    println!("skipped: {what}");
}

/// An SSH server on loopback that accepts one key.
#[derive(Debug)]
pub struct SshServer {
    pub user: String,
    pub host: String,
    pub port: u16,
    pub key: PathBuf,
    /// A temporary folder of the test.
    pub folder: TempDir,
}

impl SshServer {
    /// A command that prints which process of the server holds its connection.
    pub const WHICH_CONNECTION: &str = "p=$PPID; while [ \"$(cat /proc/$p/comm)\" != sshd ]; \
        do p=$(cut -d' ' -f4 /proc/$p/stat); done; echo $p";

    /// Returns the server; prints a message and returns `None` where no script started one.
    #[expect(clippy::disallowed_methods, reason = "the script says there where the server is")]
    pub fn started() -> Option<Self> {
        let found = std::env::var("HERMES_TEST_SSH").ok().zip(std::env::var("HERMES_TEST_SSH_KEY").ok());
        let Some((address, key)) = found else {
            peer_is_missing("HERMES_TEST_SSH is not set (scripts/peers/sshd start)");
            return None;
        };
        let (user, rest) = address.split_once('@')?;
        let (host, port) = rest.split_once(':')?;
        Some(Self {
            user: user.to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
            key: PathBuf::from(key),
            folder: tempfile::tempdir_in(crate::home::folder_of_tests()).ok()?,
        })
    }
}
