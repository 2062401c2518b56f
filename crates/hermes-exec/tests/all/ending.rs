//! Tests of commands that do not end by themselves.

use std::time::Duration;

use hermes_types::Cancel;

use super::support::{LONG, LocalFixture, lives, until};

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_time_out_ends_the_whole_group_and_says_so() {
    let place = LocalFixture::new();
    let cancel = Cancel::new();
    place.check("true", "").await;
    let finished = place.run_with("sleep 600 & echo $!; sleep 600", None, SHORT, &cancel).await;
    assert_eq!(finished.exit_code, 124);
    let (pid, rest) = finished.output.split_once('\n').unwrap();
    assert_eq!(rest, "\n[Command timed out after 0s]");
    until(|| !lives(pid)).await;
    let finished = place.run_with("sleep 600", None, SHORT, &cancel).await;
    assert_eq!(finished.output, "Command timed out after 0s");
}

#[tokio::test]
async fn a_child_that_ignores_the_request_is_killed() {
    let place = LocalFixture::new();
    let cancel = Cancel::new();
    place.check("true", "").await;
    let command = "trap '' TERM; echo $$; while :; do sleep 1; done";
    let finished = place.run_with(command, None, SHORT, &cancel).await;
    assert_eq!(finished.exit_code, 124);
    let pid = finished.output.lines().next().unwrap().to_owned();
    until(|| !lives(&pid)).await;
}

#[tokio::test]
async fn an_interrupt_comes_back_with_what_was_said() {
    let place = LocalFixture::new();
    place.check("true", "").await;
    let cancel = Cancel::new();
    let started = place.path().join("started");
    let (finished, ()) =
        tokio::join!(place.run_with("echo before; touch started; sleep 600", None, LONG, &cancel), async {
            until(|| started.exists()).await;
            cancel.cancel();
        });
    assert_eq!(finished.exit_code, 130);
    assert_eq!(finished.output, "before\n\n[Command interrupted — user sent a new message]");
}

#[tokio::test]
async fn something_left_running_does_not_hold_the_call() {
    let place = LocalFixture::new();
    let finished = place.run("sleep 600 & echo $!").await;
    assert_eq!(finished.exit_code, 0);
    let pid = finished.output.trim().to_owned();
    assert!(lives(&pid), "what was put in the background goes on");
    place.check(&format!("kill {pid}"), "").await;
    until(|| !lives(&pid)).await;
}

/// Runs until it is killed. This is not a test by itself: the next test starts it in a process of its own and
/// kills it.
#[tokio::test]
#[ignore = "it never ends; the test below runs it"]
async fn a_call_that_never_ends() {
    let place = LocalFixture::new();
    let here = std::env::current_dir().unwrap();
    let (pid, files) = (here.join("pid"), here.join("files"));
    let command = format!(
        "echo $$ > {pid}.new; echo {temp} > {files}; mv {pid}.new {pid}; exec sleep 600",
        pid = pid.display(),
        temp = place.path().join("tmp").display(),
        files = files.display()
    );
    place.run(&command).await;
}

#[tokio::test]
async fn what_we_started_dies_with_us() {
    let place = LocalFixture::new();
    let program = std::env::current_exe().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the process that is killed is this test program itself")]
    let mut helper = std::process::Command::new(program)
        .args(["--ignored", "--exact", "all::ending::a_call_that_never_ends"])
        .current_dir(place.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let file = place.path().join("pid");
    until(|| file.exists()).await;
    let pid = std::fs::read_to_string(&file).unwrap();
    assert!(lives(&pid));
    let temporary = std::fs::read_to_string(place.path().join("files")).unwrap();
    let files = || std::fs::read_dir(temporary.trim()).unwrap().count();
    assert_ne!(files(), 0);
    helper.kill().unwrap();
    helper.wait().unwrap();
    until(|| !lives(&pid)).await;
    until(|| files() == 0).await;
    std::fs::remove_dir_all(std::path::Path::new(temporary.trim()).parent().unwrap()).unwrap();
}

#[tokio::test]
async fn a_dropped_call_leaves_no_process() {
    let place = LocalFixture::new();
    place.check("true", "").await;
    let file = place.path().join("pid");
    {
        let cancel = Cancel::new();
        let mut call = std::pin::pin!(place.run_with(
            "echo $$ > pid.new; mv pid.new pid; sleep 600",
            None,
            LONG,
            &cancel
        ));
        tokio::select! {
            _ = &mut call => panic!("it cannot end"),
            () = until(|| file.exists()) => {}
        }
    }
    let pid = std::fs::read_to_string(&file).unwrap();
    until(|| !lives(&pid)).await;
}
