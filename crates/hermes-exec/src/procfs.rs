//! Who descends from a process, as the kernel tells it.
//!
//! A child that adopts what its descendants leave behind (see `child.rs`) has all of them below it as long as it lives, also
//! those that started a session of their own. Who was put into a control group of another kind is looked after by somebody
//! else (a container, a scope of systemd) and does not count. Where the system does not tell, nobody is found.

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;

use rustix::process::Pid;

/// Everyone below it, not itself. Some may have ended and wait to be reaped.
pub(crate) fn descendants(of: Pid) -> HashSet<Pid> {
    let mut found = HashSet::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        parents.extend(children(parent).into_iter().filter(|child| found.insert(*child)));
    }
    found.retain(|pid| shares_our_cgroup(*pid));
    found
}

fn children(parent: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())) else {
        return Vec::new();
    };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(parse_pid).collect::<Vec<_>>()).collect()
}

/// A process's number as the kernel writes it.
pub(crate) fn parse_pid(text: &str) -> Option<Pid> {
    text.trim().parse().ok().and_then(Pid::from_raw)
}

/// The control group we are in, as the kernel names it.
pub(crate) fn own_cgroup() -> Option<&'static str> {
    static OURS: LazyLock<Option<String>> = LazyLock::new(|| control_group("self"));
    OURS.as_deref()
}

/// Whether a process is in the control group we are in, or in a cell of it.
pub(crate) fn shares_our_cgroup(process: Pid) -> bool {
    own_cgroup().is_none_or(|ours| is_in_group(process, ours))
}

/// Returns whether a process is in a control group, or in a cell of it.
pub(crate) fn is_in_group(process: Pid, group: &str) -> bool {
    let Some(its) = control_group(&process.as_raw_nonzero().to_string()) else { return true };
    let rest = its.strip_prefix(group.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest == "/" || rest.starts_with("/hermes-"))
}

/// Whether it has ended and only waits to be reaped.
pub(crate) fn is_zombie(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

fn control_group(process: &str) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    groups.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}
