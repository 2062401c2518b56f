//! A task's environment on this machine, in a temporary folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{LocalEnvironment, LocalHost, LocalOptions, OutputBounds, Sandbox, Variables};
use hermes_task::SystemClock;
use hermes_types::{Cancel, CommandOutput, Environment, ShellCommand};
use tempfile::TempDir;

pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) struct LocalFixture {
    pub(crate) folder: TempDir,
    pub(crate) host: Arc<LocalHost>,
    pub(crate) local: LocalEnvironment,
}

impl LocalFixture {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let home = folder.path().to_str().unwrap().to_owned();
        let base = [("HOME", home.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        let all = base.iter().chain(variables).map(|&(name, value)| (name, value));
        let options = LocalOptions {
            variables: Variables::for_commands(all, &[], &[]),
            temp: folder.path().join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: Sandbox::off(),
        };
        let host = LocalHost::new(options, Arc::new(SystemClock::new()));
        let local = host.open(folder.path().to_owned());
        Self { folder, host, local }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn run(&self, shell: &str) -> CommandOutput {
        self.run_with(shell, None, LONG, &Cancel::new()).await
    }

    pub(crate) async fn run_with(
        &self,
        shell: &str,
        stdin: Option<&[u8]>,
        limit: Duration,
        cancel: &Cancel,
    ) -> CommandOutput {
        let command = ShellCommand { shell, directory: None, stdin, timeout: limit };
        self.local.run(command, cancel).await.unwrap()
    }

    /// Checks that the command's output is exactly this, and its code 0.
    pub(crate) async fn check(&self, shell: &str, output: &str) {
        let finished = self.run(shell).await;
        assert_eq!(finished, CommandOutput { output: output.to_owned(), exit_code: 0 }, "{shell}");
    }
}

/// Waits until the condition holds.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Tells whether the process exists and is not a zombie.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
