//! Where builds keep what they fetched: without that no package could be had.
//!
//! A command's cache is a place of ours, named to the tools by variables: what lies in the user's own may be run by the user
//! later. What no variable leads elsewhere stays open, as far as it is data that the tools check or rebuild.

use std::path::{Path, PathBuf};

use super::Sandbox;

/// Below the user's home.
const CACHES: &[&str] = &[
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/.global-cache",
    ".npm/_logs",
    ".cache/matplotlib",
    ".cache/fontconfig",
    ".cache/coursier/v1",
    ".cache/huggingface/hub",
    ".cache/huggingface/datasets",
    ".cache/torch/hub/checkpoints",
    ".m2/repository",
    ".ivy2/cache",
    ".conda/pkgs",
];

/// Below the Hermes home.
pub(super) const OURS: &str = "sandboxes/caches";

/// Variables that lead a tool's cache to a folder of ours.
const REDIRECTED: &[(&str, &str)] = &[
    ("npm_config_cache", "npm"),
    ("npm_config_store_dir", "pnpm"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("YARN_GLOBAL_FOLDER", "yarn-berry"),
    ("BUN_INSTALL_CACHE_DIR", "bun"),
    ("DENO_DIR", "deno"),
    ("COREPACK_HOME", "corepack"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("POETRY_CACHE_DIR", "poetry"),
    ("PRE_COMMIT_HOME", "pre-commit"),
    ("GOCACHE", "go-build"),
    ("GOMODCACHE", "go-mod"),
    ("GOLANGCI_LINT_CACHE", "golangci-lint"),
    ("GRADLE_USER_HOME", "gradle"),
    ("NUGET_PACKAGES", "nuget"),
    ("BUNDLE_USER_CACHE", "bundle"),
    ("PUB_CACHE", "pub"),
    ("COMPOSER_CACHE_DIR", "composer"),
    ("CCACHE_DIR", "ccache"),
    ("SCCACHE_DIR", "sccache"),
    ("ZIG_GLOBAL_CACHE_DIR", "zig"),
];
const GO_PROXY: &str = "https://proxy.golang.org,direct";

impl Sandbox {
    /// Where commands keep what they fetch; nothing where there is no fence.
    fn cache_folder(&self) -> Option<PathBuf> {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = self.is_active().then(|| self.places.hermes_home.join(OURS))?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        Some(folder)
    }

    /// Variables a fenced command gets where it has no others of the name.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let Some(folder) = self.cache_folder() else { return Vec::new() };
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut all: Vec<(&'static str, String)> =
            REDIRECTED.iter().map(|(name, below)| (*name, text(folder.join(below)))).collect();
        // What was fetched before serves as a source, and is checked as any other is.
        let fetched = self.places.user_home.join("go/pkg/mod/cache/download");
        if fetched.is_dir() {
            all.push(("GOPROXY", format!("file://{},{GO_PROXY}", text(fetched))));
        }
        all
    }
}

/// Their names below the user's home.
pub(super) fn cache_names() -> &'static [&'static str] {
    CACHES
}

/// Whether a path is one of them.
pub(super) fn is_cache(user_home: &Path, path: &Path) -> bool {
    CACHES.iter().any(|name| path == user_home.join(name))
}

/// Those that exist.
pub(super) fn caches(user_home: &Path) -> Vec<PathBuf> {
    CACHES.iter().filter_map(|name| user_home.join(name).canonicalize().ok()).collect()
}
