//! Tells whether the process that holds a lease is still alive.

use hermes_types::HolderId;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Returns false only when the holder's process has certainly ended. If its process id has been reused, a dead
/// holder looks alive; its lease then expires by itself.
pub fn may_be_alive(holder: &HolderId) -> bool {
    let number = holder.as_str().split('-').next().and_then(|text| text.parse::<i32>().ok());
    let Some(pid) = number.and_then(Pid::from_raw) else { return true };
    // In a container every start may get the same process id: a holder with our id but another prefix is dead.
    if u32::try_from(pid.as_raw_nonzero().get()) == Ok(std::process::id()) {
        return holder.as_str().starts_with(HolderId::process_prefix());
    }
    test_kill_process(pid) != Err(Errno::SRCH) && !is_zombie(pid)
}

/// Tells whether the process has ended but has not been waited for; such a process still has its id.
fn is_zombie(pid: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
        return false;
    };
    // The process name before the state is in parentheses and may contain any character.
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    matches!(state, Some("Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_that_cannot_exist_does_not() {
        assert!(may_be_alive(&HolderId::generate()));
        assert!(!may_be_alive(&HolderId::new(format!("{}-x", i32::MAX))));
        assert!(may_be_alive(&HolderId::new("somebody else")), "no number, no verdict");
        let before = HolderId::new(format!("{}-0-another start", std::process::id()));
        assert!(!may_be_alive(&before), "an earlier process with this number");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes a zombie")]
    fn a_process_that_nobody_has_asked_about_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let holder = HolderId::new(format!("{}-x", child.id()));
        while may_be_alive(&holder) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
