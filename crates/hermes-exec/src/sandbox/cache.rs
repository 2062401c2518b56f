//! Where builds keep what they fetched: without that no package could be had.
//!
//! A command's cache is a place of ours, named to the tools by variables: what lies in the user's own is run by the user later.
//! What was fetched before can still be used where a tool looks into one folder only: its files are linked into ours (`links.rs`),
//! and the links lead to what cannot be written. What no variable leads elsewhere stays open, as far as it is data.

use std::path::{Path, PathBuf};

use super::Sandbox;
use super::links::{Brought, Due};

/// Below the user's home.
const CACHES: &[&str] = &[".npm/_logs", ".cache/matplotlib", ".cache/fontconfig"];

/// What of a user's home can be used through links in our folder.
const LINKED: &[(&str, &str)] = &[
    (".cargo/registry/cache", "cargo/registry/cache"),
    (".m2/repository", "maven"),
    (".ivy2/cache", "ivy/cache"),
    (".cache/coursier/v1", "coursier"),
    (".cache/huggingface/hub", "huggingface/hub"),
    (".cache/huggingface/datasets", "huggingface/datasets"),
    (".cache/torch/hub/checkpoints", "torch/hub/checkpoints"),
];
/// And through copies, because it is changed in place.
const COPIED: &[(&str, &str)] = &[(".cargo/registry/index", "cargo/registry/index")];
/// Settings of tools whose whole folder is led elsewhere.
const SETTINGS: &[(&str, &str)] =
    &[(".cargo/config.toml", "cargo/config.toml"), (".cargo/config", "cargo/config")];

/// Below the Hermes home.
pub(super) const OURS: &str = "sandboxes/caches";

/// Variables that lead a tool's cache to a folder of ours.
const REDIRECTED: &[(&str, &str)] = &[
    ("CARGO_HOME", "cargo"),
    ("COURSIER_CACHE", "coursier"),
    ("HF_HUB_CACHE", "huggingface/hub"),
    ("HF_DATASETS_CACHE", "huggingface/datasets"),
    ("TORCH_HOME", "torch"),
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
/// Options of Java programs that do the same, added to what the variable holds.
const ADDED: &[(&str, &str, &str)] =
    &[("MAVEN_OPTS", "maven.repo.local", "maven"), ("SBT_OPTS", "sbt.ivy.home", "ivy")];
const GO_PROXY: &str = "https://proxy.golang.org,direct";

impl Sandbox {
    /// Where commands keep what they fetch; nothing where there is no fence.
    fn cache_folder(&self) -> Option<PathBuf> {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = self.is_active().then(|| self.paths.hermes_home.join(OURS))?;
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
        let fetched = self.paths.user_home.join("go/pkg/mod/cache/download");
        if fetched.is_dir() {
            all.push(("GOPROXY", format!("file://{},{GO_PROXY}", text(fetched))));
        }
        // The first is filled, the others are read.
        let packages = self.paths.user_home.join(".conda/pkgs");
        all.push(("CONDA_PKGS_DIRS", format!("{},{}", text(folder.join("conda")), text(packages))));
        self.link(&folder);
        all
    }

    /// Options that are added to what a variable holds: its name, what shows that it is there already, and the option.
    pub(crate) fn added_options(&self) -> Vec<(&'static str, String, String)> {
        let Some(folder) = self.cache_folder() else { return Vec::new() };
        let one = |(variable, option, below): &(&'static str, &str, &str)| {
            let place = folder.join(below).to_string_lossy().into_owned();
            // Such a variable is split at blanks.
            let shown = format!("-D{option}=");
            (!place.contains(char::is_whitespace))
                .then(|| (*variable, shown.clone(), format!("{shown}{place}")))
        };
        ADDED.iter().filter_map(one).collect()
    }

    /// Makes what the user has fetched usable in our folder.
    fn link(&self, folder: &Path) {
        let home = &self.paths.user_home;
        let pairs = |names: &[(&str, &str)]| -> Vec<(PathBuf, PathBuf)> {
            names.iter().map(|(from, to)| (home.join(from), folder.join(to))).collect()
        };
        let brought = Brought { linked: pairs(LINKED), copied: pairs(COPIED), settings: pairs(SETTINGS) };
        let due = brought.due(folder);
        if due == Due::No {
            return;
        }
        let thread = self.access(folder).map(|access| access.thread());
        let Some(Ok(thread)) = thread else {
            tracing::debug!("caches are not brought to commands: no thread can be held to their limits");
            return;
        };
        let place = folder.to_owned();
        let bring = move || thread.run(move || brought.bring(&place));
        let done = match due {
            Due::Beside => std::thread::Builder::new().name("caches".to_owned()).spawn(bring).map(|_| ()),
            Due::Now | Due::No => bring(),
        };
        if let Err(error) = done {
            tracing::debug!(%error, "caches could not be brought to commands");
        }
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
