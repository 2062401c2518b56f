//! The paths that the rules allow: whole folders, or the parts of a folder around what is denied.
//!
//! Every part costs a few microseconds when the rules are made, and a folder can hold a hundred thousand. So
//! where there are many, and mounts can hide the denied paths instead, the whole folder is allowed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::limits::SandboxLimits;
use super::tree::{SubtreeAccess, open_subtrees};

/// The number of parts above which a folder is allowed as a whole where mounts are possible.
const MANY: usize = 1024;
/// The number of parts above which they are not allowed one by one at all.
const MOST: usize = 65_536;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AllowedPaths {
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
    /// The readable or writable folders in which mounts must hide what the rules would deny.
    pub(super) masked_by_mounts: Vec<PathBuf>,
    /// The folders whose entries were allowed one by one.
    pub(super) listed: BTreeSet<PathBuf>,
}

impl AllowedPaths {
    /// Collects the allowed paths. Where mounts are possible, a root that contains something protected is
    /// writable as a whole, so that new files can be created in it, and a temporary folder is readable as a
    /// whole: its entries change all the time, and the rules would have to be made again for every command.
    pub(super) fn of(limits: &SandboxLimits, temporary: &[PathBuf], can_mount: bool) -> Result<Self, String> {
        let mut openings = Self::default();
        let known = limits.known_paths();
        let masked = |path: &Path| {
            can_mount
                && limits.read_access(path) == SubtreeAccess::Mixed
                && temporary.iter().any(|folder| folder == path)
        };
        let read_access =
            |path: &Path| if masked(path) { SubtreeAccess::Open } else { limits.read_access(path) };
        openings.readable = openings.open_paths_below(Path::new("/"), read_access, can_mount, &known)?;
        openings.masked_by_mounts.extend(temporary.iter().filter(|folder| masked(folder)).cloned());
        for root in &limits.writable {
            let parts = if can_mount && limits.write_access(root) == SubtreeAccess::Mixed {
                openings.masked_by_mounts.push(root.clone());
                vec![root.clone()]
            } else {
                openings.open_paths_below(root, |path| limits.write_access(path), can_mount, &known)?
            };
            openings.writable.extend(parts);
        }
        Ok(openings)
    }

    /// Tells whether the rules allow writing to a folder.
    pub(super) fn allows_writes_in(&self, folder: &Path) -> bool {
        self.writable.iter().any(|part| folder.starts_with(part))
    }

    fn open_paths_below(
        &mut self,
        root: &Path,
        part: impl Fn(&Path) -> SubtreeAccess,
        can_mount: bool,
        known: &[PathBuf],
    ) -> Result<Vec<PathBuf>, String> {
        match open_subtrees(root, part, if can_mount { MANY } else { MOST }, known) {
            Ok(parts) => {
                self.listed.extend(parts.listed);
                Ok(parts.open)
            }
            Err(_) if can_mount => {
                self.masked_by_mounts.push(root.to_owned());
                Ok(vec![root.to_owned()])
            }
            Err(full) => Err(format!(
                "{} holds more than {MOST} files beside what commands may not touch, too many for the sandbox; \
                 move some away, or run commands without it: `hermes config set terminal.sandbox off`",
                full.display()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{NetworkReach, SandboxPaths};
    use super::*;

    fn limits(root: &Path) -> SandboxLimits {
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("hermes"),
            writable: vec![root.to_owned()],
            ..SandboxPaths::default()
        };
        SandboxLimits::of(&root.join("user/project"), &places, NetworkReach::Everywhere)
    }

    fn folder(files: usize) -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("user/project")).unwrap();
        fs::create_dir_all(root.join("hermes")).unwrap();
        for number in 0..files {
            fs::write(root.join(number.to_string()), "").unwrap();
        }
        (top, root)
    }

    #[test]
    fn a_full_folder_is_let_in_whole_if_mounts_keep_the_rest_out() {
        let (_top, root) = folder(MANY + 1);
        let limits = limits(&root);
        let covered = AllowedPaths::of(&limits, &[], true).unwrap();
        assert!(
            covered.masked_by_mounts.contains(&root) && covered.writable.contains(&root),
            "{:?}",
            covered.masked_by_mounts
        );
        let one_by_one = AllowedPaths::of(&limits, &[], false).unwrap();
        assert!(one_by_one.writable.len() > MANY && one_by_one.masked_by_mounts.is_empty());
    }

    #[test]
    fn a_temporary_folder_is_not_listed_if_mounts_keep_the_rest_out() {
        let (_top, root) = folder(3);
        let limits = limits(&root);
        let temporary = [root.clone()];
        let covered = AllowedPaths::of(&limits, &temporary, true).unwrap();
        assert!(covered.readable.contains(&root) && covered.masked_by_mounts.contains(&root));
        assert!(!covered.listed.contains(&root), "{:?}", covered.listed);
        let one_by_one = AllowedPaths::of(&limits, &temporary, false).unwrap();
        assert!(one_by_one.listed.contains(&root) && !one_by_one.readable.contains(&root));
    }

    #[test]
    fn too_full_a_folder_is_named() {
        let (_top, root) = folder(MOST + 1);
        let refused = AllowedPaths::of(&limits(&root), &[], false).unwrap_err();
        assert!(refused.starts_with(&format!("{} holds more than", root.display())), "{refused}");
    }
}
