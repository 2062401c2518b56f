//! Ends the gateway of a home by a signal, and waits for it.

use std::time::Duration;

use hermes_config::Home;
use hermes_gateway::process;
use hermes_task::SystemClock;
use hermes_types::Clock;
use rustix::process::Signal;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The time a gateway has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopTimeout {
    /// One minute, without SIGKILL.
    Long,
    /// Ten seconds, with SIGKILL after five.
    Short,
}

/// The result of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopResult {
    NotRunning,
    Stopped,
    StillRunning(u32),
}

/// Signals the gateway of a home to end.
pub(crate) fn stop_gateway(home: &Home, patience: StopTimeout) -> StopResult {
    match process::signal_running(home, Signal::TERM) {
        None => StopResult::NotRunning,
        Some(_) => wait_for_exit(home, patience),
    }
}

/// Waits for a gateway that was signalled.
pub(crate) fn wait_for_exit(home: &Home, patience: StopTimeout) -> StopResult {
    let (limit, force_after) = match patience {
        StopTimeout::Long => (Duration::from_mins(1), None),
        StopTimeout::Short => (Duration::from_secs(10), Some(Duration::from_secs(5))),
    };
    let clock = SystemClock::new();
    let began = clock.monotonic();
    while let Some(pid) = process::running_pid(home) {
        let waited = clock.monotonic().saturating_sub(began);
        if waited > limit {
            return StopResult::StillRunning(pid);
        }
        if force_after.is_some_and(|after| waited > after) {
            process::signal_running(home, Signal::KILL);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    StopResult::Stopped
}
