//! Folders that builds write to whatever the project: without them no package could be fetched.

use std::path::{Path, PathBuf};

const CACHES: &[&str] = &[
    ".cache",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/.global-cache",
    ".rustup",
    ".npm",
    ".yarn",
    ".bun",
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
    ".deno",
    "go/pkg",
    ".ccache",
    ".conda/pkgs",
    "Library/Caches",
];

/// Those that exist.
pub(super) fn caches(user_home: &Path) -> Vec<PathBuf> {
    CACHES.iter().filter_map(|name| user_home.join(name).canonicalize().ok()).collect()
}
