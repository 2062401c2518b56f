//! The descendants of a process and their control groups, read from `/proc`.
//!
//! A child that adopts orphaned descendants (see `child.rs`) has all of them below it as long as it lives,
//! also those that started a session of their own. A process that was moved to an unrelated control group is
//! controlled by another manager (a container, a scope of systemd) and does not count. Where the system has
//! no such files, no process is found.

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;

use rustix::process::Pid;

/// Returns all descendants of a process, without the process itself. Some may be zombies.
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

/// Parses a pid as the kernel writes it.
pub(crate) fn parse_pid(text: &str) -> Option<Pid> {
    text.trim().parse().ok().and_then(Pid::from_raw)
}

/// Returns the path of the control group of this process, as the kernel names it.
pub(crate) fn own_cgroup() -> Option<&'static str> {
    static OURS: LazyLock<Option<String>> = LazyLock::new(|| control_group("self"));
    OURS.as_deref()
}

/// Tells whether a process is in the control group of this process, or in one below it.
pub(crate) fn shares_our_cgroup(process: Pid) -> bool {
    own_cgroup().is_none_or(|ours| is_in_group(process, ours))
}

/// Tells whether a process is in a control group, or in one below it.
pub(crate) fn is_in_group(process: Pid, group: &str) -> bool {
    let Some(its) = control_group(&process.as_raw_nonzero().to_string()) else { return true };
    let rest = its.strip_prefix(group.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest == "/" || rest.starts_with("/hermes-"))
}

/// Tells whether a process has exited and waits to be reaped.
pub(crate) fn is_zombie(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

fn control_group(process: &str) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    groups.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}
