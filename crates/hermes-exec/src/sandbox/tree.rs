//! Which folder is the project, and which neighbours to let in around what is kept out.

use std::fs;
use std::path::{Path, PathBuf};

use super::SandboxPlaces;
use super::cache::caches;

/// How far a folder that is no repository itself is looked through for some.
const MOST_ENTRIES: usize = 256;
const MOST_REPOSITORIES: usize = 16;
/// Names of submodules may have folders in them.
const MOST_DEPTH: usize = 3;

/// The nearest folder above with a repository; the folder itself if there is none below the user's home.
pub(super) fn project_of(directory: &Path, places: &SandboxPlaces) -> PathBuf {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let above = |folder: &&Path| !places.user_home.starts_with(folder) && folder.parent().is_some();
    let found = directory.ancestors().take_while(above).find(|folder| folder.join(".git").exists());
    found.map_or(directory.clone(), Path::to_owned)
}

/// Where a repository whose `.git` is a file keeps its data: a worktree's lies with the main one.
pub(super) fn repository_of(project: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(project.join(".git")).ok()?;
    let given = Path::new(text.trim().strip_prefix("gitdir:")?.trim()).to_owned();
    let folder = project.join(given).canonicalize().ok()?;
    let common = fs::read_to_string(folder.join("commondir")).ok();
    let common = common.and_then(|common| folder.join(common.trim()).canonicalize().ok());
    Some(common.unwrap_or(folder))
}

/// Where commands of a project may write.
pub(super) fn writable_roots(project: &Path, places: &SandboxPlaces) -> Vec<PathBuf> {
    let mut roots = vec![project.to_owned()];
    roots.extend(repository_of(project));
    roots.extend(places.temporary.iter().chain(&places.writable).cloned());
    roots.extend(caches(&places.user_home));
    // The whole machine is never meant.
    roots.retain(|root| root.parent().is_some());
    roots
}

/// Repositories commands of a project may write to, each with the folder that holds its data: its own, or those of the
/// folders in it; and theirs, which are their own folders. Without those whose hooks the user lets commands write.
pub(super) fn repositories_in(project: &Path, allowed: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let git_of = |folder: &Path| {
        let inside = folder.join(".git");
        let found = if inside.is_dir() { inside.canonicalize().ok() } else { repository_of(folder) };
        // One that is to be made later counts too.
        found.unwrap_or(inside)
    };
    let mut found = vec![(project.to_owned(), git_of(project))];
    if !project.join(".git").exists() {
        let entries = fs::read_dir(project).into_iter().flatten().flatten().take(MOST_ENTRIES);
        let folders = entries.map(|entry| entry.path()).filter(|path| path.join(".git").exists());
        found.extend(folders.take(MOST_REPOSITORIES).map(|folder| (folder.clone(), git_of(&folder))));
    }
    let modules: Vec<PathBuf> = found.iter().flat_map(|(_, git)| modules_in(git)).collect();
    found.extend(modules.into_iter().map(|git| (git.clone(), git)));
    found.retain(|(_, git)| !allowed.contains(&git.join("hooks")));
    found
}

/// Where a repository keeps those that are part of it. They are their own folders.
fn modules_in(git: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(git.join("modules"), 0)];
    while let Some((folder, depth)) = open.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in folders.map(|entry| entry.path()) {
            if found.len() >= MOST_REPOSITORIES {
                return found;
            }
            if entry.join("HEAD").is_file() {
                open.push((entry.join("modules"), depth));
                found.push(entry);
            } else if depth < MOST_DEPTH {
                open.push((entry, depth + 1));
            }
        }
    }
    found
}

/// The largest parts of a tree that hold nothing of what is kept out; if there are more than `most`, the folder with too
/// many. Links are left out: what they lead to is let in, or not, where it really lies.
pub(super) fn parts(root: &Path, kept_out: &[PathBuf], most: usize) -> Result<Vec<PathBuf>, PathBuf> {
    let mut parts = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(next) = open.pop() {
        if kept_out.iter().any(|path| next.starts_with(path)) {
            continue;
        }
        if !kept_out.iter().any(|path| path.starts_with(&next)) {
            parts.push(next);
            continue;
        }
        let entries = fs::read_dir(&next).into_iter().flatten().flatten();
        let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        let room = most.saturating_sub(parts.len() + open.len());
        let before = open.len();
        open.extend(real.take(room + 1).map(|entry| entry.path()));
        if open.len() - before > room {
            return Err(next);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_out_is_walked_around() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["a/secret", "a/other", "b"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("a/secret"), root.join("link")).unwrap();
        let secret = [root.join("a/secret")];
        let mut found = parts(&root, &secret, 100).unwrap();
        found.sort();
        assert_eq!(found, [root.join("a/other"), root.join("b")]);
        assert_eq!(parts(&root, &[], 100).unwrap(), std::slice::from_ref(&root));
        assert!(parts(&secret[0], &secret, 100).unwrap().is_empty());
        // Both folders on the way are open at once, with the secret itself: three.
        assert!(parts(&root, &secret, 3).is_ok());
        fs::create_dir(root.join("a/third")).unwrap();
        assert_eq!(parts(&root, &secret, 3), Err(root.join("a")));
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
        let places = SandboxPlaces { user_home: root.join("home"), ..SandboxPlaces::default() };
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
        assert_eq!(repository_of(&root.join("home/w")), Some(root.join("home/p/.git")));
    }
}
