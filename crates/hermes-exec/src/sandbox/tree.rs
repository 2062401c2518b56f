//! Determines the project folder, and the paths to allow around what is denied.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::SandboxPaths;
use super::cache::{OURS, caches};

/// Returns the nearest folder with a repository, from the given folder upwards; the given folder itself if
/// there is none below the user's home.
pub(super) fn project_of(directory: &Path, places: &SandboxPaths) -> PathBuf {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let above = |folder: &&Path| !places.user_home.starts_with(folder) && folder.parent().is_some();
    let found = directory.ancestors().take_while(above).find(|folder| folder.join(".git").exists());
    found.map_or(directory.clone(), Path::to_owned)
}

/// Returns the data folder of a repository whose `.git` is a file: that of a worktree lies in the main
/// repository. Only a folder that refers back to the project counts, because any process can write a file
/// that refers to another repository.
pub(super) fn repository_of(project: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(project.join(".git")).ok()?;
    let given = Path::new(text.trim().strip_prefix("gitdir:")?.trim()).to_owned();
    let folder = project.join(given).canonicalize().ok()?;
    let project = project.canonicalize().ok()?;
    let Ok(common) = fs::read_to_string(folder.join("commondir")) else {
        return points_back_as_submodule(&folder, &project).then_some(folder);
    };
    let back = fs::read_to_string(folder.join("gitdir")).ok()?;
    let back = folder.join(back.trim()).parent().and_then(|above| above.canonicalize().ok())?;
    let common = folder.join(common.trim()).canonicalize().ok()?;
    (back == project && folder.starts_with(&common)).then_some(common)
}

fn points_back_as_submodule(folder: &Path, project: &Path) -> bool {
    let config = fs::read_to_string(folder.join("config")).unwrap_or_default();
    config.lines().filter_map(|line| line.split_once('=')).any(|(name, value)| {
        name.trim() == "worktree"
            && folder.join(value.trim().trim_matches('"')).canonicalize().is_ok_and(|tree| tree == project)
    })
}

/// Returns the folders in which commands of a project may write.
pub(super) fn writable_roots(project: &Path, places: &SandboxPaths) -> Vec<PathBuf> {
    let mut roots = vec![project.to_owned()];
    roots.extend(repository_of(project));
    roots.extend(places.temporary.iter().chain(&places.writable).cloned());
    roots.extend(caches(&places.user_home));
    roots.extend(places.hermes_home.join(OURS).canonicalize().ok());
    // The root folder is never a writable root.
    roots.retain(|root| root.parent().is_some());
    roots
}

/// The access to a part of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubtreeAccess {
    Open,
    Closed,
    /// The part contains both open and closed paths.
    Mixed,
}

/// The largest open parts of a tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OpenSubtrees {
    pub(super) open: Vec<PathBuf>,
    /// The folders whose entries were examined one by one.
    pub(super) listed: Vec<PathBuf>,
}

/// Finds the open parts; if there are more than `most`, returns the folder with too many. Links are left out:
/// their targets are allowed, or not, where they really are. In a folder that cannot be listed, such as a `/home` that
/// shows nobody its users, only the way to the known paths is followed.
pub(super) fn open_subtrees(
    root: &Path,
    part: impl Fn(&Path) -> SubtreeAccess,
    most: usize,
    known: &[PathBuf],
) -> Result<OpenSubtrees, PathBuf> {
    let mut found = OpenSubtrees::default();
    let mut waiting = vec![root.to_owned()];
    while let Some(next) = waiting.pop() {
        match part(&next) {
            SubtreeAccess::Closed => continue,
            SubtreeAccess::Open => {
                found.open.push(next);
                continue;
            }
            SubtreeAccess::Mixed => {}
        }
        let real = match fs::read_dir(&next) {
            Ok(entries) => {
                let real =
                    entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
                real.map(|entry| entry.path()).collect()
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => steps_to(known, &next),
            Err(_) => Vec::new(),
        };
        let room = most.saturating_sub(found.open.len() + waiting.len());
        let before = waiting.len();
        waiting.extend(real.into_iter().filter(|path| part(path) != SubtreeAccess::Closed).take(room + 1));
        if waiting.len() - before > room {
            return Err(next);
        }
        found.listed.push(next);
    }
    Ok(found)
}

/// Returns the entries of a folder on the way to these paths.
fn steps_to(known: &[PathBuf], folder: &Path) -> Vec<PathBuf> {
    let step = |path: &PathBuf| Some(folder.join(path.strip_prefix(folder).ok()?.components().next()?));
    let mut steps: Vec<PathBuf> = known.iter().filter_map(step).collect();
    steps.sort();
    steps.dedup();
    steps
}

#[cfg(test)]
mod tests {
    use super::super::rules::PathRules;
    use super::*;

    #[test]
    fn what_is_kept_out_is_walked_around() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["a/secret", "a/other", "b"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("a/secret"), root.join("link")).unwrap();
        let mut rules = PathRules::default();
        rules.close(root.join("a/secret"), "secret");
        let part = |path: &Path| match (rules.is_uniform(path), rules.reason(path)) {
            (false, _) => SubtreeAccess::Mixed,
            (true, None) => SubtreeAccess::Open,
            (true, Some(_)) => SubtreeAccess::Closed,
        };
        let mut found = open_subtrees(&root, part, 100, &[]).unwrap();
        found.open.sort();
        assert_eq!(found.open, [root.join("a/other"), root.join("b")]);
        assert_eq!(found.listed, [root.clone(), root.join("a")]);
        assert!(open_subtrees(&root.join("a/secret"), part, 100, &[]).unwrap().open.is_empty());
        assert!(open_subtrees(&root, part, 2, &[]).is_ok());
        fs::create_dir(root.join("a/third")).unwrap();
        assert!(open_subtrees(&root, part, 2, &[]).is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_passed_through() {
        let folder = Path::new("/home");
        let known = ["/home/me", "/home/me/project", "/tmp"].map(PathBuf::from);
        assert_eq!(steps_to(&known, folder), [PathBuf::from("/home/me")]);
        assert_eq!(steps_to(&known, Path::new("/srv")), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_project_is_where_the_repository_is() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("home/p/.git")).unwrap();
        fs::create_dir_all(root.join("home/p/src/deep")).unwrap();
        fs::create_dir_all(root.join("home/q/.git")).unwrap();
        fs::create_dir_all(root.join("home/.git")).unwrap();
        fs::create_dir_all(root.join("home/plain")).unwrap();
        let places = SandboxPaths { user_home: root.join("home"), ..SandboxPaths::default() };
        let check =
            |from: &str, wanted: &str| assert_eq!(project_of(&root.join(from), &places), root.join(wanted));
        check("home/p/src/deep", "home/p");
        check("home/plain", "home/plain");
        check("home", "home");
        fs::create_dir_all(root.join("home/p/.git/worktrees/w")).unwrap();
        fs::create_dir_all(root.join("home/w")).unwrap();
        let gitdir = root.join("home/p/.git/worktrees/w");
        fs::write(root.join("home/w/.git"), format!("gitdir: {}\n", gitdir.display())).unwrap();
        fs::write(gitdir.join("commondir"), "../..\n").unwrap();
        assert_eq!(repository_of(&root.join("home/w")), None, "it does not point back");
        fs::write(gitdir.join("gitdir"), format!("{}\n", root.join("home/w/.git").display())).unwrap();
        assert_eq!(repository_of(&root.join("home/w")), Some(root.join("home/p/.git")));
    }
}
