//! Labels that name the Hermes process a container or a run record belongs to, so that one whose process is
//! gone can be distinguished from one in use.
//!
//! Containers and run records outlive a process that was killed. Their label names that process by machine,
//! pid and start time. What a process on another machine or in another pid namespace started cannot be judged
//! from here and is left alone.

use crate::recovered_process::RecoveredProcess;
use crate::remote::fnv;

/// Returns the label of this process.
pub(crate) fn ourselves() -> String {
    let pid = std::process::id();
    let machine = machine().unwrap_or_default();
    format!("{machine}.{pid}.{}", RecoveredProcess::start_time(pid).unwrap_or(0))
}

/// Tells whether the process that a label names is known to be gone.
pub(crate) fn is_gone(label: &str) -> bool {
    let mut parts = label.trim().split('.');
    let (Some(place), Some(pid), Some(started)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let (Ok(pid), Ok(started)) = (pid.parse(), started.parse::<u64>()) else { return false };
    machine().is_some_and(|here| here == place)
        && RecoveredProcess::find(pid, (started > 0).then_some(started)).is_none()
}

/// Returns an identifier of this boot of this machine and of the pid namespace; `None` where the system does
/// not provide it.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{:016x}", fnv(&format!("{}{}", boot.trim(), space.display()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_of_this_machine_can_be_known_to_be_gone() {
        let own = ourselves();
        assert!(!is_gone(&own), "{own}");
        let (here, _) = own.split_once('.').unwrap();
        assert!(is_gone(&format!("{here}.4194303.1")));
        // The label has the pid of this process and another start time.
        assert!(is_gone(&format!("{here}.{}.1", std::process::id())));
        for foreign in ["0123.4194303.1", "", "x", &format!("{here}.x.y")] {
            assert!(!is_gone(foreign), "{foreign}");
        }
    }
}
