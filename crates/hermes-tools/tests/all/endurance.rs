//! Tests that many commands in one conversation leak no resources.
#![expect(clippy::disallowed_methods, reason = "what is compared with is a process started by hand")]

use std::time::Duration;

use hermes_task::SystemClock;
use hermes_types::Clock;
use serde_json::json;

use super::terminal::TerminalFixture;

/// The resources that this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holdings {
    descriptors: usize,
    children: usize,
    kilobytes: usize,
}

impl Holdings {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            children: children(),
            kilobytes: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

/// Counts the child processes of this process, including those that were not waited for.
fn children() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .map(|list| list.split_whitespace().count())
        .sum()
}

async fn run_often(fixture: &TerminalFixture, calls: usize) {
    for _ in 0..calls {
        let result = fixture.run(json!({"command": "true"})).await;
        assert_eq!(result["exit_code"], 0, "{result}");
    }
}

#[tokio::test]
async fn two_hundred_commands_leave_no_descriptor_and_no_child() {
    let fixture = TerminalFixture::new();
    run_often(&fixture, 5).await;
    let before = Holdings::now();
    run_often(&fixture, 200).await;
    let after = Holdings::now();
    assert_eq!((after.descriptors, after.children), (before.descriptors, before.children));
    let left = std::fs::read_dir(fixture.temp()).unwrap().count();
    assert!(left <= 4, "{left} files were left in the temporary folder");
}

/// Runs manually: `cargo test -p hermes-tools --release --test all -- --ignored --nocapture ten_thousand`.
#[tokio::test]
#[ignore = "a measurement of minutes, read by a person"]
async fn ten_thousand_commands() {
    const CALLS: usize = 10_000;
    const MOST_GROWTH_KB: usize = 5 * 1024;
    let clock = SystemClock::new();
    let fixture = TerminalFixture::new();
    run_often(&fixture, 500).await;
    let bare = {
        let start = clock.monotonic();
        for _ in 0..500 {
            std::process::Command::new("bash").args(["-c", "true"]).status().unwrap();
        }
        clock.monotonic().saturating_sub(start) / 500
    };
    let before = Holdings::now();
    let start = clock.monotonic();
    run_often(&fixture, CALLS).await;
    let each = clock.monotonic().saturating_sub(start) / u32::try_from(CALLS).unwrap();
    let after = Holdings::now();
    println!("per call {each:?}, a bare bash {bare:?}, over it {:?}", each.saturating_sub(bare));
    println!("before {before:?}\nafter  {after:?}");
    assert_eq!((after.descriptors, after.children), (before.descriptors, before.children));
    let growth = after.kilobytes.saturating_sub(before.kilobytes);
    assert!(growth <= MOST_GROWTH_KB, "{growth} kB more than before");
}

#[tokio::test]
async fn sixty_four_processes_run_and_one_more_is_refused() {
    let fixture = TerminalFixture::new();
    let mut ids = Vec::new();
    for _ in 0..64 {
        ids.push(fixture.start("sleep 600").await);
    }
    let refused = fixture.run(json!({"command": "sleep 600", "background": true})).await;
    assert_eq!(refused["status"], "error", "{refused}");
    assert!(
        refused["error"].as_str().unwrap().starts_with("64 background processes run already"),
        "{refused}"
    );
    // An ended process is removed to free its slot.
    let killed = fixture.look(json!({"action": "kill", "session_id": ids[0]})).await;
    assert_eq!(killed["status"], "killed");
    let next = fixture.start("sleep 600").await;
    let gone = fixture.look(json!({"action": "poll", "session_id": ids[0]})).await;
    assert_eq!(gone["status"], "not_found", "{gone}");
    let listed = fixture.look(json!({"action": "list"})).await;
    assert_eq!(listed["processes"].as_array().unwrap().len(), 64);
    assert_eq!(fixture.look(json!({"action": "poll", "session_id": next})).await["status"], "running");
    fixture.end().await;
    while children() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
