//! Every test of this crate, in one binary.
#![expect(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_task::{SystemClock, TaskError, TaskGroup, spawn_cooperative, spawn_named};
use hermes_types::{Cancel, Clock};
use tokio::sync::oneshot;

/// Sends a message when it is dropped.
struct DropNotifier(Option<oneshot::Sender<()>>);

impl Drop for DropNotifier {
    fn drop(&mut self) {
        self.0.take().unwrap().send(()).ok();
    }
}

#[tokio::test]
async fn a_task_gives_its_result() {
    let task = spawn_named("sum", &Cancel::new(), async { 40 + 2 });
    assert_eq!(task.await, Ok(42));
}

#[tokio::test]
async fn cancelling_drops_what_the_task_holds() {
    let cancel = Cancel::new();
    let (sender, dropped) = oneshot::channel();
    let task = spawn_named("waits", &cancel, async move {
        let _held = DropNotifier(Some(sender));
        std::future::pending::<()>().await;
    });
    tokio::task::yield_now().await;
    cancel.cancel();
    assert_eq!(task.await, Err(TaskError::Cancelled));
    dropped.await.unwrap();
}

#[tokio::test]
async fn a_cancelled_token_starts_nothing() {
    let cancel = Cancel::new();
    cancel.cancel();
    let task = spawn_named("never", &cancel, async { 1 });
    assert_eq!(task.await, Err(TaskError::Cancelled));
}

#[tokio::test]
async fn cooperative_work_finishes_its_cleanup() {
    let cancel = Cancel::new();
    let task = spawn_cooperative("tidy", &cancel, |cancel| async move {
        cancel.cancelled().await;
        tokio::task::yield_now().await;
        "tidied"
    });
    cancel.cancel();
    assert_eq!(task.await, Ok("tidied"));
}

#[tokio::test]
async fn a_panic_is_an_ending() {
    let cancel = Cancel::new();
    let number = 7;
    let task = spawn_named("plain", &cancel, async { panic!("plain text") });
    let result: Result<(), _> = task.await;
    assert_eq!(result, Err(TaskError::Panicked("plain text".into())));
    let task = spawn_cooperative("formatted", &cancel, |_| async move { panic!("number {number}") });
    let result: Result<(), _> = task.await;
    assert_eq!(result, Err(TaskError::Panicked("number 7".into())));
    assert!(!cancel.is_cancelled());
}

#[tokio::test]
async fn an_aborted_task_counts_as_cancelled() {
    let task = spawn_named("forever", &Cancel::new(), std::future::pending::<()>());
    task.abort();
    assert_eq!(task.await, Err(TaskError::Cancelled));
}

#[tokio::test]
async fn a_group_ends_together() {
    let parent = Cancel::new();
    let tasks = TaskGroup::new(&parent);
    let tidied = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        tasks.spawn("forever", std::future::pending::<()>());
        let tidied = tidied.clone();
        tasks.spawn_cooperative("tidy", |cancel| async move {
            cancel.cancelled().await;
            tidied.fetch_add(1, Ordering::SeqCst);
        });
    }
    tasks.spawn("panics", async { panic!("one of many") });
    assert_eq!(tasks.len(), 7);
    tasks.shut_down().await;
    assert!(tasks.is_empty());
    assert_eq!(tidied.load(Ordering::SeqCst), 3);
    assert!(!parent.is_cancelled());
}

#[tokio::test]
async fn a_group_can_be_waited_for() {
    let tasks = TaskGroup::new(&Cancel::new());
    let task = tasks.spawn("one", async { 1 });
    tasks.join().await;
    assert_eq!(task.await, Ok(1));
}

#[tokio::test]
async fn dropping_a_group_or_cancelling_its_parent_ends_it() {
    let parent = Cancel::new();
    let first = TaskGroup::new(&parent);
    let task = first.spawn("forever", std::future::pending::<()>());
    drop(first);
    assert_eq!(task.await, Err(TaskError::Cancelled));
    let second = TaskGroup::new(&parent);
    let task = second.spawn("forever", std::future::pending::<()>());
    parent.cancel();
    assert_eq!(task.await, Err(TaskError::Cancelled));
}

#[test]
fn the_clock_may_be_asked_outside_a_runtime() {
    let clock = SystemClock::new();
    assert!(clock.now().seconds() > 1_700_000_000.0);
    let before = clock.monotonic();
    assert!(clock.monotonic() >= before);
    drop(clock.sleep(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn the_clock_sleeps_on_the_runtimes_timers() {
    SystemClock::new().sleep(Duration::from_hours(1)).await;
}
