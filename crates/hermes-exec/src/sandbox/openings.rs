//! What the rules let in: folders as a whole, or their parts around what is kept out.
//!
//! Every part costs each command a few microseconds, and a folder can hold a hundred thousand. So where there are many,
//! and mounts can keep things out instead, the folder is let in as a whole.

use std::path::{Path, PathBuf};

use super::refusal::Limits;
use super::tree::parts;

/// More than this are not let in one by one where mounts can do it.
const MANY: usize = 512;
/// More than this are not let in one by one at all.
const MOST: usize = 65_536;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Openings {
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
    /// Those among them, for either, in which mounts must keep out what the rules would.
    pub(super) covered: Vec<PathBuf>,
}

impl Openings {
    /// `whole` is a folder to be writable as a whole where that is possible, so that new files can be made in it.
    pub(super) fn of(limits: &Limits, whole: Option<&Path>, can_mount: bool) -> Result<Self, String> {
        let mut openings = Self::default();
        openings.readable = openings.around(Path::new("/"), &limits.unreadable, can_mount)?;
        for root in &limits.writable {
            let parts = if can_mount && whole == Some(root) {
                openings.covered.push(root.clone());
                vec![root.clone()]
            } else {
                openings.around(root, &limits.unchangeable, can_mount)?
            };
            openings.writable.extend(parts);
        }
        Ok(openings)
    }

    fn around(&mut self, root: &Path, kept_out: &[PathBuf], can_mount: bool) -> Result<Vec<PathBuf>, String> {
        match parts(root, kept_out, if can_mount { MANY } else { MOST }) {
            Ok(parts) => Ok(parts),
            Err(_) if can_mount => {
                self.covered.push(root.to_owned());
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

    use super::super::Reach;
    use super::*;

    fn limits(root: &Path) -> Limits {
        Limits {
            writable: vec![root.to_owned()],
            unreadable: vec![root.join("secret")],
            unchangeable: vec![root.join("secret"), root.join("rc")],
            hooks: Vec::new(),
            reach: Reach::Everywhere,
        }
    }

    #[test]
    fn a_full_folder_is_let_in_whole_if_mounts_keep_the_rest_out() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for number in 0..=MANY {
            fs::write(root.join(number.to_string()), "").unwrap();
        }
        fs::write(root.join("secret"), "").unwrap();
        fs::write(root.join("rc"), "").unwrap();
        let limits = limits(&root);
        let covered = Openings::of(&limits, None, true).unwrap();
        assert_eq!(covered.readable, [PathBuf::from("/")]);
        assert_eq!(covered.writable, std::slice::from_ref(&root));
        assert_eq!(covered.covered, [PathBuf::from("/"), root.clone()]);
        let one_by_one = Openings::of(&limits, None, false).unwrap();
        assert_eq!(one_by_one.writable.len(), MANY + 1);
        assert!(one_by_one.covered.is_empty());
    }

    #[test]
    fn too_full_a_folder_is_named() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        fs::write(root.join("secret"), "").unwrap();
        for number in 0..=MOST {
            fs::write(root.join(number.to_string()), "").unwrap();
        }
        let refused = Openings::of(&limits(&root), None, false).unwrap_err();
        assert!(refused.starts_with(&format!("{} holds more than", root.display())), "{refused}");
    }
}
