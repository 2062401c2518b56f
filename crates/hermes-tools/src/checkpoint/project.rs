//! Which folder a file's project is.

use std::path::{Path, PathBuf};

const MARKS: [&str; 9] = [
    ".git",
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Makefile",
    "pom.xml",
    ".hg",
    "Gemfile",
];

/// The nearest folder above the file that looks like a project's top, below the user's home; else the file's own
/// folder, or the nearest one that exists.
pub(super) fn root_of(path: &Path, user_home: &Path) -> PathBuf {
    let start = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let above = || start.ancestors().take_while(|folder| *folder != user_home && folder.parent().is_some());
    above()
        .find(|folder| MARKS.iter().any(|mark| folder.join(mark).exists()))
        .or_else(|| above().find(|folder| folder.is_dir()))
        .unwrap_or(start)
        .to_owned()
}
