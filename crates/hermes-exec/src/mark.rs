//! A number by which every process that a child starts can be recognized, also outside its process group.
//!
//! The number is a resource limit on computing in real time without a pause. It is so high that no process
//! reaches it, it is inherited by fork and exec, also into another session or with an emptied environment,
//! and the kernel shows it in `/proc`. A process that sets that limit itself (sound servers do) can no longer
//! be recognized. Where the limit cannot be set, no process carries a mark.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io::Read;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;

use hermes_types::random_hex;
use rustix::process::{Pid, geteuid};

use crate::procfs::{is_zombie, parse_pid, shares_our_cgroup};

/// The name of the limit in `/proc/PID/limits`; its soft value follows.
const LIMIT: &str = "Max realtime timeout";
/// A bit set in every mark; as microseconds it is more than a hundred thousand years, so no limit set for
/// another purpose is so high.
const MARK_BIT: u64 = 1 << 62;

/// The number that distinguishes one child's process tree from all other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessMark(NonZeroU64);

impl ProcessMark {
    pub(crate) fn new() -> Self {
        let random = u64::from_str_radix(&random_hex(15), 16).unwrap_or_default();
        Self(NonZeroU64::MIN | random | MARK_BIT)
    }

    /// Returns the mark with this number; `None` for a number that is no mark.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|number| number.get() & MARK_BIT != 0).map(Self)
    }

    /// Returns the mark that a process carries.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        // The kernel returns the whole file in one read.
        let mut limits = [0; 4096];
        let mut file = fs::File::open(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
        let length = file.read(&mut limits).ok()?;
        Self::find_in(std::str::from_utf8(limits.get(..length)?).ok()?)
    }

    fn find_in(limits: &str) -> Option<Self> {
        let values = limits.lines().find_map(|line| line.strip_prefix(LIMIT))?;
        Self::from_number(values.split_whitespace().next()?.parse().ok()?)
    }

    /// Returns every living process that carries the mark, except those that another manager controls.
    pub(crate) fn marked_processes(self) -> HashSet<Pid> {
        Self::carriers_of(&[self], shares_our_cgroup)
    }

    /// Returns every living process that carries one of these marks and for which `counts` holds.
    pub(crate) fn carriers_of(marks: &[Self], counts: impl Fn(Pid) -> bool) -> HashSet<Pid> {
        processes()
            .filter(|pid| {
                Self::of(*pid).is_some_and(|mark| marks.contains(&mark)) && !is_zombie(*pid) && counts(*pid)
            })
            .collect()
    }

    /// Returns every mark that a living process carries.
    pub(crate) fn live_marks() -> HashSet<u64> {
        processes().filter(|pid| !is_zombie(*pid)).filter_map(Self::of).map(Self::number).collect()
    }

    /// Sets the mark on the calling process. It only makes a system call, because it is used between fork and
    /// exec.
    #[cfg(target_os = "linux")]
    pub(crate) fn apply_to_self(self) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Rttime);
        // The kernel refuses this where a lower hard limit is set; then only descent and control groups
        // identify the processes.
        let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(self.0.get()), maximum });
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn put_on(self) {}

    /// Returns the mark as the number that the kernel shows.
    pub(crate) fn number(self) -> u64 {
        self.0.get()
    }
}

/// Returns every process that Hermes may signal: only root can signal another user's.
fn processes() -> impl Iterator<Item = Pid> {
    let me = geteuid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let within_reach = move |entry: &DirEntry| {
        me.is_root() || entry.metadata().is_ok_and(|found| found.uid() == me.as_raw())
    };
    entries.filter_map(move |entry| {
        let pid = parse_pid(entry.file_name().to_str()?)?;
        within_reach(&entry).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_is_taken_for_one() {
        let limits = |value: &str| {
            format!(
                "Max realtime priority     0                    0                    \n\
                 Max realtime timeout      {value:<21}unlimited            us        \n"
            )
        };
        let mark = ProcessMark::new();
        assert_eq!(ProcessMark::find_in(&limits(&mark.number().to_string())), Some(mark));
        assert_ne!(ProcessMark::new(), mark);
        for other in ["unlimited", "200000", "0", ""] {
            assert_eq!(ProcessMark::find_in(&limits(other)), None, "{other}");
        }
    }
}
