//! Recognizes the files of a repository from which git learns which programs to run.

use std::path::Path;

/// The files of a repository's own folder that a user may want edited, and that run nothing.
const PLAIN: &[&str] = &["info/exclude", "description", "COMMIT_EDITMSG", "MERGE_MSG", "TAG_EDITMSG"];

/// Tells whether git would take a folder for a repository. `with` is a name that counts as present.
pub(super) fn looks_like_repository(folder: &Path, with: Option<&str>) -> bool {
    let has = |name: &str| with == Some(name) || folder.join(name).symlink_metadata().is_ok();
    has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

/// Tells whether git would follow or run what a tool writes to this path: anything in a `.git`, a `.git`
/// itself, and the parts of a folder that git takes for a repository, or would take for one with this file.
pub(super) fn is_control_file(path: &Path) -> bool {
    let parts: Vec<&std::ffi::OsStr> = path.components().map(std::path::Component::as_os_str).collect();
    let is_git = |part: &&std::ffi::OsStr| part.eq_ignore_ascii_case(".git");
    if let Some(at) = parts.iter().position(is_git) {
        let within: Vec<String> =
            parts.iter().skip(at + 1).map(|part| part.to_string_lossy().into_owned()).collect();
        return !PLAIN.contains(&within.join("/").as_str());
    }
    path.ancestors().skip(1).take_while(|folder| folder.parent().is_some()).any(|folder| {
        let first = path.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
        let first = first.and_then(|part| part.as_os_str().to_str());
        let is_part = first.is_some_and(|name| {
            [
                "HEAD",
                "config",
                "config.worktree",
                "hooks",
                "info",
                "objects",
                "refs",
                "commondir",
                "gitdir",
                "modules",
                "worktrees",
            ]
            .contains(&name)
        });
        is_part && looks_like_repository(folder, first)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_git_runs_is_told_from_what_it_keeps() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["bare/objects", "bare/refs", "half/objects", "half/refs"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
        for (path, machinery) in [
            (".git", true),
            (".git/config", true),
            (".git/hooks/pre-commit", true),
            (".GIT/config", true),
            (".git/modules/a/config", true),
            (".git/worktrees/w/config.worktree", true),
            (".git/info/attributes", true),
            ("sub/.git/commondir", true),
            (".git/info/exclude", false),
            (".git/COMMIT_EDITMSG", false),
            ("bare/config", true),
            ("bare/hooks/post-checkout", true),
            ("half/HEAD", true),
            ("half/config", false),
            ("src/config", false),
            (".gitignore", false),
            (".gitattributes", false),
            (".github/workflows/ci.yml", false),
        ] {
            assert_eq!(is_control_file(&root.join(path)), machinery, "{path}");
        }
    }
}
