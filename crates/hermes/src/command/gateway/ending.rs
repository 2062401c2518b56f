//! Ending the gateway of a home by a signal, and waiting for it.

use std::time::Duration;

use hermes_config::Home;
use hermes_gateway::process;
use hermes_task::SystemClock;
use hermes_types::Clock;
use rustix::process::Signal;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a gateway gets to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A minute, and no force.
    Long,
    /// Ten seconds, with force after five.
    Short,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Nobody,
    Gone,
    Stays(u32),
}

/// Asks the gateway of a home to end.
pub(crate) fn end(home: &Home, patience: Patience) -> Ended {
    match process::signal_running(home, Signal::TERM) {
        None => Ended::Nobody,
        Some(_) => wait(home, patience),
    }
}

/// Waits for one that was asked.
pub(crate) fn wait(home: &Home, patience: Patience) -> Ended {
    let (limit, force_after) = match patience {
        Patience::Long => (Duration::from_mins(1), None),
        Patience::Short => (Duration::from_secs(10), Some(Duration::from_secs(5))),
    };
    let clock = SystemClock::new();
    let began = clock.monotonic();
    while let Some(pid) = process::running(home) {
        let waited = clock.monotonic().saturating_sub(began);
        if waited > limit {
            return Ended::Stays(pid);
        }
        if force_after.is_some_and(|after| waited > after) {
            process::signal_running(home, Signal::KILL);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ended::Gone
}
