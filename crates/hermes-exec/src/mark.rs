//! A number that everyone a child starts carries, wherever they go.
//!
//! It is a limit on the time a process may compute in real time without a pause: so high that nobody meets it, handed on by
//! fork and exec, also into another session or through an emptied environment, and shown by the kernel to whoever asks. One
//! who sets that limit anew (sound servers do) is lost sight of. Where it cannot be set, nobody carries it.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io::Read;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;

use hermes_types::random_hex;
use rustix::process::{Pid, geteuid};

use crate::procfs::{is_zombie, parse_pid, shares_our_cgroup};

/// What the kernel calls the limit in `/proc/PID/limits`; its soft value follows.
const LIMIT: &str = "Max realtime timeout";
/// Set in every mark and, as microseconds, more than a hundred thousand years: no limit anybody means is so high.
const MARK_BIT: u64 = 1 << 62;

/// What sets one child's kin apart from everybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessMark(NonZeroU64);

impl ProcessMark {
    pub(crate) fn new() -> Self {
        let random = u64::from_str_radix(&random_hex(15), 16).unwrap_or_default();
        Self(NonZeroU64::MIN | random | MARK_BIT)
    }

    /// Returns the mark with this number; none for a number that is no mark.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|number| number.get() & MARK_BIT != 0).map(Self)
    }

    /// The mark a process carries.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        // The kernel says all of it at once.
        let mut limits = [0; 4096];
        let mut file = fs::File::open(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
        let length = file.read(&mut limits).ok()?;
        Self::find_in(std::str::from_utf8(limits.get(..length)?).ok()?)
    }

    fn find_in(limits: &str) -> Option<Self> {
        let values = limits.lines().find_map(|line| line.strip_prefix(LIMIT))?;
        Self::from_number(values.split_whitespace().next()?.parse().ok()?)
    }

    /// Everyone who carries it and lives, except those somebody else looks after.
    pub(crate) fn marked_processes(self) -> HashSet<Pid> {
        Self::carriers_of(&[self], shares_our_cgroup)
    }

    /// Returns every living process that carries one of these marks and is among those that count.
    pub(crate) fn carriers_of(marks: &[Self], counts: impl Fn(Pid) -> bool) -> HashSet<Pid> {
        processes()
            .filter(|pid| {
                Self::of(*pid).is_some_and(|mark| marks.contains(&mark)) && !is_zombie(*pid) && counts(*pid)
            })
            .collect()
    }

    /// Every mark that somebody carries who lives.
    pub(crate) fn live_marks() -> HashSet<u64> {
        processes().filter(|pid| !is_zombie(*pid)).filter_map(Self::of).map(Self::number).collect()
    }

    /// Makes the calling process carry it. Only makes a system call, for it is used between fork and exec.
    #[cfg(target_os = "linux")]
    pub(crate) fn apply_to_self(self) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Rttime);
        // Refused where a lower limit is set for everybody; then descent and cells are all there is.
        let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(self.0.get()), maximum });
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn put_on(self) {}

    /// As the kernel shows it.
    pub(crate) fn number(self) -> u64 {
        self.0.get()
    }
}

/// Every process that is within our reach: nobody but root could do anything about another user's.
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
