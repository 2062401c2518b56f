//! Modal's own Python package, if it is installed: it has what we use of it, and says what it lacks. Nobody is asked over the
//! network.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{
    Bounds, Forwarded, Keep, Limits, ModalAccount, ModalOptions, Program, ProgramEnd, Programs, Pythons,
    Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Command, Environment, RunError};

use super::support::LONG;

/// The Python that has the package.
fn installed() -> Option<PathBuf> {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let python = peers.join("modal/bin/python");
    if python.exists() {
        return Some(python);
    }
    assert!(std::env::var_os("CI").is_none(), "Modal's package must be installed on CI");
    println!("skipped: there is no {}", python.display());
    None
}

fn variables(home: &Path) -> Variables {
    Variables::for_commands([("HOME", home.to_str().unwrap()), ("PATH", "/usr/bin:/bin")], &[], &[])
}

#[tokio::test]
async fn the_package_has_all_that_is_used_of_it() {
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
        complaints: hermes_exec::Complaints::Keep,
    };
    let programs = Programs::new(variables(home.path()), Arc::new(SystemClock::new()));
    let (said, end) = programs.output(program, &Cancel::new()).await.unwrap();
    assert_eq!(end, ProgramEnd::Exited(0), "{said}");
    assert!(said.contains("modal.Sandbox.create\n") && said.contains("sandbox.exec\n"), "{said}");
}

#[tokio::test]
async fn the_package_misses_the_account() {
    let Some(python) = installed() else { return };
    let home = tempfile::tempdir().unwrap();
    let pythons = Pythons { configured: python.to_str(), hermes_home: home.path() };
    let snapshots = home.path().join("modal_snapshots.json");
    let account = ModalAccount::new(pythons, variables(home.path()), snapshots, Arc::new(SystemClock::new()));
    account.check(&Cancel::new()).await.unwrap();
    let place = account.open(ModalOptions {
        task: "task".to_owned(),
        image: "python:3.11-slim".to_owned(),
        directory: None,
        exports: Forwarded::default(),
        limits: Limits { cpus: 1.0, memory_mb: 1024, disk_mb: 0 },
        keep: Keep::Ephemeral,
        idle: Duration::from_mins(5),
        bounds: Bounds::default(),
    });
    let command = Command { shell: "true", directory: None, stdin: None, limit: LONG };
    let refused = place.run(command, &Cancel::new()).await;
    assert!(
        matches!(&refused, Err(RunError::Unavailable(text)) if text.starts_with("no Modal sandbox: AuthError: Token missing")),
        "{refused:?}"
    );
}
