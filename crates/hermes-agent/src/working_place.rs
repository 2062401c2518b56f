//! The folder a session works in, and the git branch there, as lists and filters of sessions use them.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_store::NewSession;

/// The longest file read for the name of a branch.
const MAX_BYTES: u64 = 4096;

/// Records the folder and its branch in a new session.
pub(crate) fn record(session: &mut NewSession, folder: &Path) {
    session.cwd = Some(folder.display().to_string());
    session.git_branch = git_branch(folder);
}

/// Returns the branch that is checked out in a folder; `None` outside a repository, and when no branch is.
fn git_branch(folder: &Path) -> Option<String> {
    let git = folder.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let control = if git.is_dir() {
        git
    } else {
        // A worktree has a file that names its folder.
        let named = PathBuf::from(read(&git)?.trim().strip_prefix("gitdir:")?.trim());
        git.parent()?.join(named)
    };
    let head = read(&control.join("HEAD"))?;
    head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

fn read(path: &Path) -> Option<String> {
    let short = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES);
    short.then(|| fs::read_to_string(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_read_from_the_repository_or_the_worktree() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(git_branch(root), None);
        fs::create_dir_all(root.join(".git/worktrees/other")).unwrap();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/feature/login\n").unwrap();
        assert_eq!(git_branch(&root.join("src/deep")).as_deref(), Some("feature/login"));
        fs::create_dir_all(root.join("other")).unwrap();
        fs::write(root.join("other/.git"), "gitdir: ../.git/worktrees/other\n").unwrap();
        fs::write(root.join(".git/worktrees/other/HEAD"), "ref: refs/heads/second\n").unwrap();
        assert_eq!(git_branch(&root.join("other")).as_deref(), Some("second"));
        fs::write(root.join(".git/HEAD"), "0123456789abcdef\n").unwrap();
        assert_eq!(git_branch(root), None, "no branch is checked out");
    }
}
