//! Finds the folders of the children's control groups, which lie below the control group of this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{Access, access};
use rustix::process::{Pid, test_kill_process};

use crate::procfs::parse_pid;

/// The folder of this process's control group, if this process may divide it.
static OWN: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let folder = cgroup_path(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup")).filter(|folder| {
        let members = folder.join("cgroup.procs");
        [folder, &members].into_iter().all(|path| access(path, Access::WRITE_OK).is_ok())
    });
    if folder.is_none() {
        tracing::debug!("no control group can be divided here: a command is ended by its process group");
    }
    folder
});

/// Returns the common beginning of the folders of this process's control groups; the leader's pid follows.
pub(crate) fn prefix() -> Option<String> {
    let own = OWN.as_ref()?;
    Some(format!("{}/hermes-{}", own.display(), std::process::id()))
}

/// Returns the path of the control group of this leader, whether or not it exists.
pub(super) fn folder_for(leader: Pid) -> Option<PathBuf> {
    prefix().map(|prefix| PathBuf::from(format!("{prefix}-{}", leader.as_raw_nonzero())))
}

/// Returns the path of the control group that another process would have made for this leader.
pub(super) fn folder_made_by(maker: &str, leader: Pid) -> Option<PathBuf> {
    parse_pid(maker)?;
    OWN.as_ref().map(|own| own.join(format!("hermes-{maker}-{}", leader.as_raw_nonzero())))
}

/// Removes control groups that a vanished Hermes process left. Those that are not empty stay, because the
/// kernel refuses to remove them.
pub(super) fn remove_stale() {
    let Some(own) = OWN.as_ref() else { return };
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let folder = entry.path();
        if creator_pid(&folder).is_some_and(|maker| test_kill_process(maker).is_err()) {
            let _ = fs::remove_dir(&folder);
        }
    }
}

/// Returns the pid of the process that made a control group, from its name.
fn creator_pid(folder: &Path) -> Option<Pid> {
    let (maker, leader) = folder.file_name()?.to_str()?.strip_prefix("hermes-")?.split_once('-')?;
    parse_pid(leader).and(parse_pid(maker))
}

/// Returns the path of a process's control group below the mount point of the unified hierarchy.
fn cgroup_path(mounts: &str, groups: &str) -> Option<PathBuf> {
    let place = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if !kind.starts_with("cgroup2 ") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let below = Path::new(place).strip_prefix(root).ok()?;
        Some(Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "23 1 0:2 / /proc rw - proc proc rw\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n\
        41 31 0:38 ROOT /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn our_own_place_is_found_whatever_is_mounted() {
        let check = |root: &str, groups: &str, expected: Option<&str>| {
            let found = cgroup_path(&MOUNTS.replace("ROOT", root), groups);
            assert_eq!(found, expected.map(PathBuf::from), "{root} {groups}");
        };
        check("/", "9:name=systemd:/\n0::/\n", Some("/sys/fs/cgroup/unified"));
        check("/", "0::/user.slice/a.scope\n", Some("/sys/fs/cgroup/unified/user.slice/a.scope"));
        check("/box", "0::/box/inner\n", Some("/sys/fs/cgroup/unified/inner"));
        check("/box", "0::/elsewhere\n", None);
        check("/", "9:pids:/\n", None);
        assert_eq!(cgroup_path("23 1 0:2 / /proc rw - proc proc rw\n", "0::/\n"), None);
    }

    #[test]
    fn only_cells_are_called_like_cells() {
        assert_eq!(creator_pid(Path::new("/x/hermes-12-34")), parse_pid("12"));
        for other in ["/x/hermes-12", "/x/hermes-a-3", "/x/hermes--3", "/x/hermes-1-2-3", "/x/docker"] {
            assert_eq!(creator_pid(Path::new(other)), None, "{other}");
        }
    }
}
