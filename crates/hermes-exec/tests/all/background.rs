//! Tests of background processes.

use hermes_exec::{InputError, RecoveredProcess, TerminalMode};
use hermes_types::Cancel;

use super::support::{LocalFixture, until};

#[tokio::test]
async fn output_is_kept_and_the_code_is_known() {
    let place = LocalFixture::new();
    place.check("export GREETING=hello", "").await;
    let process =
        place.local.start("echo $GREETING; exit 4", None, TerminalMode::None, &Cancel::new()).await.unwrap();
    assert_eq!(process.ended().await, 4);
    assert_eq!((process.output(100).as_str(), process.total_chars()), ("hello\n", 6));
    assert_eq!(process.exit_code(), Some(4));
}

#[tokio::test]
async fn it_can_be_talked_to_and_its_input_closed() {
    let place = LocalFixture::new();
    let process = place.local.start("cat; echo bye", None, TerminalMode::None, &Cancel::new()).await.unwrap();
    process.write(b"hi\n").await.unwrap();
    until(|| process.output(10).contains("hi")).await;
    process.close_input().await.unwrap();
    assert_eq!(process.close_input().await, Err(InputError::Closed));
    assert_eq!(process.ended().await, 0);
    assert_eq!(process.output(100), "hi\nbye\n");
}

#[tokio::test]
async fn killing_reaches_the_whole_group() {
    let place = LocalFixture::new();
    let process = place
        .local
        .start("sleep 600 & echo $!; wait", None, TerminalMode::None, &Cancel::new())
        .await
        .unwrap();
    until(|| process.output(20).ends_with('\n')).await;
    let inner = process.output(20).trim().to_owned();
    assert!(process.exit_code().is_none());
    assert_eq!(process.kill().await, -15);
    until(|| !super::support::lives(&inner)).await;
}

#[tokio::test]
async fn a_terminal_is_a_terminal() {
    let place = LocalFixture::new();
    let command = "test -t 0 && test -t 1 && stty size && read -r line && echo got $line";
    let process = place.local.start(command, None, TerminalMode::Pty, &Cancel::new()).await.unwrap();
    until(|| process.output(200).contains("30 120")).await;
    process.write(b"it\n").await.unwrap();
    assert_eq!(process.ended().await, 0);
    assert!(process.output(200).contains("got it"), "{:?}", process.output(200));
    let process = place.local.start("cat", None, TerminalMode::Pty, &Cancel::new()).await.unwrap();
    process.close_input().await.unwrap();
    assert_eq!(process.ended().await, 0);
}

#[tokio::test]
async fn a_survivor_is_known_by_its_pid_and_its_start() {
    let place = LocalFixture::new();
    let process = place.local.start("sleep 600", None, TerminalMode::None, &Cancel::new()).await.unwrap();
    let started = RecoveredProcess::start_time(process.pid());
    assert!(
        RecoveredProcess::find(process.pid(), started.map(|at| at + 1)).is_none(),
        "another process with that pid"
    );
    let survivor = RecoveredProcess::find(process.pid(), started).unwrap();
    survivor.kill(&hermes_task::SystemClock::new()).await;
    process.ended().await;
    assert!(!survivor.is_alive());
    assert!(RecoveredProcess::find(process.pid(), started).is_none());
}
