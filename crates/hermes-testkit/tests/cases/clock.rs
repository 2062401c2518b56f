use std::time::Duration;

use hermes_testkit::TestClock;
use hermes_types::{Clock, Timestamp};

#[tokio::test]
async fn sleeps_end_when_the_clock_gets_there() {
    let clock = TestClock::new();
    let start = clock.now();
    let short = clock.sleep(Duration::from_secs(5));
    let mut long = clock.sleep(Duration::from_mins(1));
    clock.wait_for_sleepers(2).await;
    clock.advance(Duration::from_secs(5));
    short.await;
    let polled =
        std::future::poll_fn(|context| std::task::Poll::Ready(long.as_mut().poll(context).is_ready())).await;
    assert!(!polled);
    clock.advance(Duration::from_secs(55));
    long.await;
    assert_eq!(clock.monotonic(), Duration::from_mins(1));
    assert_eq!(clock.now().since(start), Duration::from_mins(1));
    assert_eq!(clock.slept(), [Duration::from_secs(5), Duration::from_mins(1)]);
}

#[tokio::test]
async fn auto_advance_ends_sleeps_at_once_and_remembers_them() {
    let clock = TestClock::auto_advance();
    for seconds in [2, 4, 8] {
        clock.sleep(Duration::from_secs(seconds)).await;
    }
    assert_eq!(clock.slept(), [2, 4, 8].map(Duration::from_secs));
    assert_eq!(clock.monotonic(), Duration::from_secs(14));
}

#[tokio::test]
async fn auto_advance_with_a_limit_leaves_timeouts_alone() {
    let clock = TestClock::auto_advance_up_to(Duration::from_mins(1));
    let timeout = clock.sleep(Duration::from_mins(3));
    clock.sleep(Duration::from_secs(4)).await;
    tokio::select! {
        biased;
        () = timeout => panic!("the timeout fired"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(clock.monotonic(), Duration::from_secs(4));
}

#[test]
fn the_wall_steps_alone() {
    let clock = TestClock::new();
    clock.set_wall(Timestamp(10.0));
    assert_eq!(clock.now(), Timestamp(10.0));
    assert_eq!(clock.monotonic(), Duration::ZERO);
    clock.advance(Duration::from_millis(500));
    assert_eq!(clock.now(), Timestamp(10.5));
}

#[tokio::test]
async fn a_dropped_sleep_is_no_sleeper() {
    let clock = TestClock::new();
    drop(clock.sleep(Duration::from_secs(1)));
    let _held = clock.sleep(Duration::from_secs(1));
    clock.wait_for_sleepers(1).await;
    tokio::select! {
        biased;
        () = clock.wait_for_sleepers(2) => panic!("the dropped one still counts"),
        () = std::future::ready(()) => {}
    }
}
