//! Tells whether this machine lets a program create cgroups below its own.

use std::fs;
use std::path::PathBuf;

/// Returns the folder of our own cgroup; prints a message and returns `None` where cgroups may not be created in it
/// (containers, users without their own session).
pub fn divisible_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount =
        mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let place = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let folder = mount.zip(place).map(|(mount, place)| PathBuf::from(mount).join(place));
    let usable =
        folder.filter(|folder| fs::File::options().append(true).open(folder.join("cgroup.procs")).is_ok());
    if usable.is_none() {
        crate::peer_is_missing("no control group can be divided here");
    }
    usable
}
