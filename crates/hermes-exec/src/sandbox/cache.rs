//! Folders that builds write to whatever the project: without them no package could be fetched. None of them is on a
//! usual PATH, or a command could leave a program there that a later, unfenced one runs.

use std::path::{Path, PathBuf};

const CACHES: &[&str] = &[
    ".cache",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/.global-cache",
    ".npm",
    ".yarn",
    ".bun/install/cache",
    ".pnpm-store",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/state",
    ".node-gyp",
    ".gradle",
    ".m2",
    ".ivy2",
    ".nuget",
    ".gem",
    ".bundle",
    ".pub-cache",
    "go/pkg",
    ".ccache",
    ".conda/pkgs",
    "Library/Caches",
];

/// Those that exist.
pub(super) fn caches(user_home: &Path) -> Vec<PathBuf> {
    CACHES.iter().filter_map(|name| user_home.join(name).canonicalize().ok()).collect()
}
