//! Whether this machine lets a program divide the control group it is in.

use std::fs;
use std::path::PathBuf;

/// The folder of our own control group; none, with a word, where it may not be divided (containers, users without a
/// session of their own).
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
