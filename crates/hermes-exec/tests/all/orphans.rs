//! Commands whose Hermes process was killed together with its watchdog are ended by the next start.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hermes_exec::{
    LocalHost, LocalOptions, OutputBounds, Sandbox, TerminalMode, Variables, end_orphaned_commands,
    record_commands_in,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Environment};
use rustix::process::{Pid, Signal, kill_process};

use super::support::{LONG, LocalFixture, lives, until};

/// The number of commands; each starts processes that leave its group, one after the other.
const COMMANDS: usize = 4;
const STARTED_BY_EACH: usize = 5;

#[tokio::test]
async fn the_next_start_ends_what_was_running_when_the_watchdog_was_killed_too() {
    let mut left = 0;
    // Each round kills at another moment: when this many processes run.
    for (round, running) in [1, 3, 7, 12, COMMANDS * STARTED_BY_EACH].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mut helper = helper("commands_that_never_end", &root);
        let begun = || fs::read_dir(root.join("begun")).into_iter().flatten().count();
        until(|| begun() >= running).await;
        kill_with_watchdog(&mut helper, if round % 2 == 0 { First::Watchdog } else { First::Program });
        left += processes_in(&root).len();
        let records = root.join("records");
        end_orphaned_commands(&records);
        until(|| processes_in(&root).is_empty()).await;
        assert_eq!(fs::read_dir(&records).unwrap().count(), 0);
    }
    assert!(left > 0, "there was nothing to end");
}

#[tokio::test]
async fn what_a_living_program_runs_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut helper = helper("commands_that_never_end", &root);
    until(|| fs::read_dir(root.join("begun")).into_iter().flatten().count() == COMMANDS * STARTED_BY_EACH)
        .await;
    let before = processes_in(&root);
    assert_eq!(end_orphaned_commands(&root.join("records")), 0);
    assert_eq!(processes_in(&root), before);
    helper.kill().unwrap();
    helper.wait().unwrap();
    until(|| processes_in(&root).is_empty()).await;
    until(|| fs::read_dir(root.join("records")).unwrap().count() == 0).await;
}

#[tokio::test]
async fn a_background_process_outlives_us_only_once_it_is_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut helper = helper("background_processes", &root);
    until(|| root.join("both-run").exists()).await;
    let pid = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    helper.kill().unwrap();
    helper.wait().unwrap();
    until(|| !lives(&pid("unknown.pid"))).await;
    assert!(lives(&pid("known.pid")));
    kill(pid("known.pid").trim().parse().unwrap());
}

#[tokio::test]
#[ignore = "it never ends; tests above run it"]
async fn commands_that_never_end() {
    let folder = std::env::current_dir().unwrap();
    fs::create_dir_all(folder.join("begun")).unwrap();
    record_commands_in(&folder.join("records"));
    let options = LocalOptions {
        variables: Variables::for_commands([("PATH", "/usr/bin:/bin")], &[], &[]),
        temp: folder.clone(),
        bounds: OutputBounds::default(),
        sandbox: Sandbox::off(),
    };
    let host = LocalHost::new(options, Arc::new(SystemClock::new()));
    let run = async |number: usize| {
        let text = format!(
            "for i in $(seq {STARTED_BY_EACH}); do env -i setsid sh -c \": > begun/{number}-$i; exec sleep 600\" & done; wait"
        );
        let command =
            hermes_types::ShellCommand { shell: &text, directory: None, stdin: None, timeout: LONG };
        host.open(folder.clone()).run(command, &Cancel::new()).await.unwrap();
    };
    tokio::join!(run(1), run(2), run(3), run(COMMANDS));
}

#[tokio::test]
#[ignore = "it never ends; a test above runs it"]
async fn background_processes() {
    let folder = std::env::current_dir().unwrap();
    let place = LocalFixture::new();
    let start = async |name: &str| {
        let command = format!(
            "cd {}; echo $$ > {name}.new; mv {name}.new {name}.pid; exec sleep 600",
            folder.display()
        );
        let process = place.local.start(&command, None, TerminalMode::None, &Cancel::new()).await.unwrap();
        until(|| folder.join(format!("{name}.pid")).exists()).await;
        process
    };
    let (known, _unknown) = (start("known").await, start("unknown").await);
    known.let_outlive();
    fs::write(folder.join("both-run"), "").unwrap();
    std::future::pending::<()>().await;
}

#[expect(clippy::disallowed_methods, reason = "the process that is started is this test program itself")]
fn helper(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("all::orphans::{test}")])
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Selects which process is killed first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Watchdog,
    /// The program, while the watchdog cannot act.
    Program,
}

fn kill_with_watchdog(program: &mut Child, first: First) {
    let watchdog = watchdog_of(program.id());
    if first == First::Watchdog {
        kill(watchdog);
    } else {
        kill_process(Pid::from_raw(watchdog).unwrap(), Signal::STOP).unwrap();
    }
    program.kill().unwrap();
    program.wait().unwrap();
    if first == First::Program {
        kill(watchdog);
    }
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Returns the process that reads what a program writes to its watchdog.
fn watchdog_of(program: u32) -> i32 {
    let open = fs::read_dir(format!("/proc/{program}/fd")).unwrap().flatten();
    let ours: HashSet<PathBuf> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let found = numbers().find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("hermes-watchdog")
            && fs::read_link(format!("/proc/{pid}/fd/3")).is_ok_and(|pipe| ours.contains(&pipe))
    });
    found.unwrap().parse().unwrap()
}

fn numbers() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the living processes whose current folder is this one.
fn processes_in(folder: &Path) -> HashSet<String> {
    numbers()
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at == folder) && lives(pid))
        .collect()
}
