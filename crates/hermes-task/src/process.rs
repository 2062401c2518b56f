//! Whether the process behind a lease still lives.

use hermes_types::HolderId;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// False only when the holder's process is certainly gone. A number that was given to another process since makes a
/// dead holder look alive; then its lease runs out by itself.
pub fn may_live(holder: &HolderId) -> bool {
    let number = holder.as_str().split('-').next().and_then(|text| text.parse::<i32>().ok());
    let Some(pid) = number.and_then(Pid::from_raw) else { return true };
    test_kill_process(pid) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_that_cannot_exist_does_not() {
        assert!(may_live(&HolderId::generate()));
        assert!(!may_live(&HolderId::new(format!("{}-x", i32::MAX))));
        assert!(may_live(&HolderId::new("somebody else")), "no number, no verdict");
    }
}
