//! The caches in which builds keep what they downloaded, without which no package could be installed.
//!
//! A command uses a cache folder of Hermes, which variables name to the tools, because the user later runs
//! what is in the user's own cache. Earlier downloads can still be used where a tool reads only one folder:
//! their files are linked into the Hermes cache (`links.rs`), and the links lead to files that commands
//! cannot write. A cache that no variable redirects stays writable, as far as it holds only data.

use std::path::{Path, PathBuf};

use super::Sandbox;
use super::links::{Brought, Due};

/// The writable caches below the user's home.
const CACHES: &[&str] = &[".npm/_logs", ".cache/matplotlib", ".cache/fontconfig"];

/// The folders of a user's home that are used through links in the Hermes cache.
const LINKED: &[(&str, &str)] = &[
    (".cargo/registry/cache", "cargo/registry/cache"),
    (".m2/repository", "maven"),
    (".ivy2/cache", "ivy/cache"),
    (".cache/coursier/v1", "coursier"),
    (".cache/huggingface/hub", "huggingface/hub"),
    (".cache/huggingface/datasets", "huggingface/datasets"),
    (".cache/torch/hub/checkpoints", "torch/hub/checkpoints"),
];
/// The folders that are used through copies, because they are changed in place.
const COPIED: &[(&str, &str)] = &[(".cargo/registry/index", "cargo/registry/index")];
/// The settings of tools whose whole folder is redirected.
const SETTINGS: &[(&str, &str)] =
    &[(".cargo/config.toml", "cargo/config.toml"), (".cargo/config", "cargo/config")];

/// The path of the caches below the Hermes home.
pub(super) const OURS: &str = "sandboxes/caches";

/// The variables that redirect a tool's cache to a folder of Hermes.
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
/// The options of Java programs that redirect a cache; they are added to the value of the variable.
const ADDED: &[(&str, &str, &str)] =
    &[("MAVEN_OPTS", "maven.repo.local", "maven"), ("SBT_OPTS", "sbt.ivy.home", "ivy")];
const GO_PROXY: &str = "https://proxy.golang.org,direct";

impl Sandbox {
    /// Returns the folder in which commands keep their downloads; `None` where there is no sandbox.
    fn cache_folder(&self) -> Option<PathBuf> {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = self.is_active().then(|| self.paths.hermes_home.join(OURS))?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        Some(folder)
    }

    /// Returns the variables that a sandboxed command gets where they are not set.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let Some(folder) = self.cache_folder() else { return Vec::new() };
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut all: Vec<(&'static str, String)> =
            REDIRECTED.iter().map(|(name, below)| (*name, text(folder.join(below)))).collect();
        // Earlier downloads serve as a source, and are verified like any other.
        let fetched = self.paths.user_home.join("go/pkg/mod/cache/download");
        if fetched.is_dir() {
            all.push(("GOPROXY", format!("file://{},{GO_PROXY}", text(fetched))));
        }
        // The first folder is filled, the others are only read.
        let packages = self.paths.user_home.join(".conda/pkgs");
        all.push(("CONDA_PKGS_DIRS", format!("{},{}", text(folder.join("conda")), text(packages))));
        self.link(&folder);
        all
    }

    /// Returns options that are added to the value of a variable: the variable's name, the text that shows
    /// that the option is already there, and the option.
    pub(crate) fn added_options(&self) -> Vec<(&'static str, String, String)> {
        let Some(folder) = self.cache_folder() else { return Vec::new() };
        let one = |(variable, option, below): &(&'static str, &str, &str)| {
            let place = folder.join(below).to_string_lossy().into_owned();
            // The value of such a variable is split at blanks.
            let shown = format!("-D{option}=");
            (!place.contains(char::is_whitespace))
                .then(|| (*variable, shown.clone(), format!("{shown}{place}")))
        };
        ADDED.iter().filter_map(one).collect()
    }

    /// Makes the user's downloads usable in the Hermes cache.
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

/// Returns the names of the writable caches below the user's home.
pub(super) fn cache_names() -> &'static [&'static str] {
    CACHES
}

/// Tells whether a path is a writable cache.
pub(super) fn is_cache(user_home: &Path, path: &Path) -> bool {
    CACHES.iter().any(|name| path == user_home.join(name))
}

/// Returns the writable caches that exist.
pub(super) fn caches(user_home: &Path) -> Vec<PathBuf> {
    CACHES.iter().filter_map(|name| user_home.join(name).canonicalize().ok()).collect()
}
