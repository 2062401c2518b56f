//! Ending a command ends all processes it started also where no control group can be divided.
//!
//! The tests run themselves again in a process without such a group: unchanged where there is none anyway,
//! else with the control group made unwritable for that process, which requires root.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{
    ProgramExit, RecoveredProcess, Sandbox, ScriptCommand, ScriptRunner, TerminalMode, Variables,
};
use hermes_task::SystemClock;
use hermes_testkit::divisible_group;
use hermes_types::Cancel;

use super::support::{LONG, LocalFixture, lives, until};

/// Leaves the group and its parent, clears its environment and ignores termination requests.
const LEAVER: &str = "env -i setsid sh -c 'trap \"\" TERM; echo $$ > left.new; mv left.new left; exec sleep 600' & \
    while ! [ -e left ]; do sleep 0.01; done";

fn left_by(place: &Path) -> String {
    fs::read_to_string(place.join("left")).unwrap().trim().to_owned()
}

/// Runs one of the tests below in a process without control groups.
#[expect(clippy::disallowed_methods, reason = "the process that is started is this test program itself")]
fn without_cells(test: &str, folder: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let name = format!("all::process_marks::{test}");
    let mut command = match divisible_group() {
        None => Command::new(program),
        Some(own) => {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", "mount -o bind,ro \"$0\" \"$0\" && exec \"$@\""]);
            command.arg(own).arg(program);
            command
        }
    };
    command.args(["--ignored", "--exact", &name]).current_dir(folder).stdout(Stdio::null()).spawn().unwrap()
}

fn succeeds(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    assert!(without_cells(test, folder.path()).wait().unwrap().success(), "{test}");
}

#[test]
fn a_script_that_has_ended_leaves_nobody() {
    succeeds("a_script_that_ends");
}

#[test]
fn killing_a_background_process_ends_those_who_do_not_listen() {
    succeeds("a_background_process_that_is_killed");
}

#[test]
fn a_survivor_ends_with_those_who_left() {
    succeeds("a_survivor_that_is_killed");
}

#[tokio::test]
async fn those_who_left_a_script_die_with_us() {
    let place = tempfile::tempdir().unwrap();
    let mut helper = without_cells("a_script_that_never_ends", place.path());
    let file = place.path().join("left");
    until(|| file.exists()).await;
    let left = left_by(place.path());
    helper.kill().unwrap();
    helper.wait().unwrap();
    until(|| !lives(&left)).await;
}

async fn run_script(folder: &Path, text: &str) -> ProgramExit {
    let scripts = ScriptRunner::new(Sandbox::off(), Arc::new(SystemClock::new()));
    let variables = Variables::for_scripts([("PATH", "/usr/bin:/bin")], &[]);
    let script = ScriptCommand {
        program: Path::new("/bin/sh"),
        arguments: vec!["-c".into(), text.into()],
        variables: &variables,
        directory: folder,
        sandbox_anchor: folder,
        limit: Duration::from_mins(1),
        output_limits: (1000, 1000),
        stderr_limit: 1000,
    };
    scripts.run(script, &Cancel::new()).await.unwrap().exit
}

#[tokio::test]
#[ignore = "a test above runs it"]
async fn a_script_that_ends() {
    let place = LocalFixture::new();
    assert_eq!(run_script(place.path(), LEAVER).await, ProgramExit::Exited(0));
    until(|| !lives(&left_by(place.path()))).await;
}

#[tokio::test]
#[ignore = "it never ends; a test above runs it"]
async fn a_script_that_never_ends() {
    let folder = std::env::current_dir().unwrap();
    run_script(&folder, &format!("{LEAVER}; sleep 600")).await;
}

#[tokio::test]
#[ignore = "a test above runs it"]
async fn a_background_process_that_is_killed() {
    let place = LocalFixture::new();
    let command = format!("(trap '' TERM; {LEAVER}; sleep 600)");
    let process = place.local.start(&command, None, TerminalMode::None, &Cancel::new()).await.unwrap();
    let file = place.path().join("left");
    until(|| file.exists()).await;
    assert_eq!(process.kill().await, -15);
    until(|| !lives(&left_by(place.path()))).await;
    // A command that ends by itself may leave a process running.
    fs::remove_file(file).unwrap();
    place.run_with(LEAVER, None, LONG, &Cancel::new()).await;
    let left = left_by(place.path());
    assert!(lives(&left));
    place.check(&format!("kill -9 {left}"), "").await;
}

#[tokio::test]
#[ignore = "a test above runs it"]
async fn a_survivor_that_is_killed() {
    let place = LocalFixture::new();
    let owner = Cancel::new();
    let command = format!("{LEAVER}; exec sleep 600");
    let process = place.local.start(&command, None, TerminalMode::None, &owner).await.unwrap();
    let file = place.path().join("left");
    until(|| file.exists()).await;
    let found = RecoveredProcess::find(process.pid(), None).unwrap();
    found.kill(&SystemClock::new()).await;
    until(|| !lives(&left_by(place.path()))).await;
}
