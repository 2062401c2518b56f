//! Tests of Modal's own Python package, if it is installed: it has the parts that Hermes uses, and works with
//! a small server on this machine that implements Modal's protocol. No other machine is contacted.
#![expect(clippy::disallowed_methods, reason = "tests look for installed peers and start one")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{
    ForwardedVariables, InstanceRetention, ModalAccount, ModalDirectEnvironment, ModalOptions, OutputBounds,
    Program, ProgramExit, ProgramRunner, PythonSearch, RemoteFiles, ResourceLimits, Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Environment, RunError, ShellCommand};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::files::works_on_files;
use super::remote::{
    RemoteFixture, does_not_wait_for_what_is_left_running, keeps_its_state, speaks_plainly, takes_input,
};
use super::support::{LONG, lives, until};

/// Returns the Python that has the package.
fn installed() -> Option<PathBuf> {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let python = peers.join("modal/bin/python");
    if python.exists() {
        return Some(python);
    }
    hermes_testkit::peer_is_missing(&format!("there is no {}", python.display()));
    None
}

fn variables(home: &Path, more: &[(&str, &str)]) -> Variables {
    let base = [("HOME", home.to_str().unwrap()), ("PATH", "/usr/bin:/bin")];
    let names: Vec<String> = more.iter().map(|(name, _)| (*name).to_owned()).collect();
    Variables::for_commands(base.into_iter().chain(more.iter().copied()), &names, &[])
}

fn account(python: &Path, home: &Path, more: &[(&str, &str)]) -> Arc<ModalAccount> {
    let pythons = PythonSearch { configured: python.to_str(), hermes_home: home };
    let snapshots = home.join("modal_snapshots.json");
    ModalAccount::new(pythons, variables(home, more), snapshots, Arc::new(SystemClock::new()))
}

fn options(keep: InstanceRetention, directory: Option<&Path>) -> ModalOptions {
    ModalOptions {
        task: "task".to_owned(),
        image: "python:3.11-slim".to_owned(),
        directory: directory.map(|folder| folder.to_str().unwrap().to_owned()),
        exports: ForwardedVariables::default(),
        limits: ResourceLimits { cpus: 2.0, memory_mb: 1024, disk_mb: 51200 },
        retention: keep,
        idle: Duration::from_mins(5),
        bounds: OutputBounds::default(),
    }
}

/// A Modal server on this machine.
struct Server {
    world: TempDir,
    child: Child,
    account: Arc<ModalAccount>,
}

impl Server {
    fn start() -> Option<Self> {
        let python = installed()?;
        let world = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new(&python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modal/server.py"))
            .arg(world.path())
            .env_clear()
            .env("HOME", world.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let more = [
            ("MODAL_SERVER_URL", address.trim()),
            ("MODAL_TOKEN_ID", "ak-right"),
            ("MODAL_TOKEN_SECRET", "as-right"),
        ];
        let account = account(&python, world.path(), &more);
        Some(Self { world, child, account })
    }

    fn open(&self, keep: InstanceRetention) -> Arc<ModalDirectEnvironment> {
        self.account.open(options(keep, Some(self.world.path())))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn peer_commands_run_through_the_package() {
    let Some(server) = Server::start() else { return };
    let place = server.open(InstanceRetention::Ephemeral);
    let there = RemoteFixture(&*place);
    speaks_plainly(there).await;
    takes_input(there).await;
    keeps_its_state(there, server.world.path().join("x").to_str().unwrap()).await;
    works_on_files(RemoteFiles::new(&*place, OutputBounds::default()), there).await;
    does_not_wait_for_what_is_left_running(there).await;
    place.close().await;
    let asked: Value =
        serde_json::from_slice(&std::fs::read(server.world.path().join("asked")).unwrap()).unwrap();
    assert_eq!(
        asked,
        json!({
            "app": "ap-hermes-agent", "words": ["sleep", "infinity"], "timeout": 3600, "memory": 1024,
            "milli_cpu": 2000,
        })
    );
    let dockerfile = std::fs::read_to_string(server.world.path().join("dockerfile")).unwrap();
    assert!(dockerfile.starts_with("FROM python:3.11-slim\n"), "{dockerfile}");
}

#[tokio::test]
async fn peer_the_package_keeps_files_and_ends_what_is_stopped() {
    let Some(server) = Server::start() else { return };
    let snapshots = server.world.path().join("modal_snapshots.json");
    std::fs::write(&snapshots, r#"{"task":"im-gone"}"#).unwrap();
    let place = server.open(InstanceRetention::Persistent);
    let there = RemoteFixture(&*place);
    there.check("ls ~; echo kept > ~/file", "").await;
    let limit = Duration::from_secs(1);
    let late = there.run_with("sleep 600 & echo $!; sleep 600", None, None, limit, &Cancel::new()).await;
    let (pid, rest) = late.output.split_once('\n').unwrap();
    assert_eq!((rest, late.exit_code), ("\n[Command timed out after 1s]", 124));
    until(|| !lives(pid)).await;

    let (flag, cancel) = (server.world.path().join("begun"), Cancel::new());
    let command = format!("echo $$ > ~/pid; touch {}; sleep 600", flag.display());
    let (stopped, ()) = tokio::join!(there.run_with(&command, None, None, LONG, &cancel), async {
        until(|| flag.exists()).await;
        cancel.cancel();
    });
    assert_eq!(
        (stopped.output.as_str(), stopped.exit_code),
        ("\n[Command interrupted - Modal sandbox terminated]", 130)
    );
    there.check("cat ~/file", "kept\n").await;
    let pid = there.run("cat ~/pid").await.output;
    until(|| !lives(&pid)).await;
    place.close().await;
    let kept: Value = serde_json::from_slice(&std::fs::read(&snapshots).unwrap()).unwrap();
    let image = server.world.path().join("images").join(kept["task"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(image.join("file")).unwrap(), "kept\n");
}

#[tokio::test]
async fn peer_the_package_has_all_that_is_used_of_it() {
    let Some(python) = installed() else { return };
    let home = tempfile::tempdir().unwrap();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Program {
        name: python.to_str().unwrap(),
        arguments: vec![
            ours.join("tests/modal/check_package.py").into(),
            ours.join("src/modal/direct/envoy.py").into(),
        ],
        directory: home.path(),
        limit: LONG,
        stderr: hermes_exec::StderrMode::Merge,
    };
    let programs = ProgramRunner::new(variables(home.path(), &[]), Arc::new(SystemClock::new()));
    let (said, end) = programs.output(program, &Cancel::new()).await.unwrap();
    assert_eq!(end, ProgramExit::Exited(0), "{said}");
    assert!(said.contains("modal.Sandbox.create\n") && said.contains("sandbox.exec\n"), "{said}");
}

#[tokio::test]
async fn peer_the_package_misses_the_account() {
    let Some(python) = installed() else { return };
    let home = tempfile::tempdir().unwrap();
    let account = account(&python, home.path(), &[]);
    account.check(&Cancel::new()).await.unwrap();
    let place = account.open(options(InstanceRetention::Ephemeral, None));
    let command = ShellCommand { shell: "true", directory: None, stdin: None, timeout: LONG };
    let refused = place.run(command, &Cancel::new()).await;
    assert!(
        matches!(&refused, Err(RunError::Unavailable(text)) if text.starts_with("no Modal sandbox: AuthError: Token missing")),
        "{refused:?}"
    );
}
