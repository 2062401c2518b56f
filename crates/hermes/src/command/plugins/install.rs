//! Installs and updates plugins: a clone of a git repository, or a copy of a folder.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_plugins::PluginManifest;
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};

use super::PluginCommands;
use crate::output::Confirmation;
use crate::random;
use crate::wiring::child_variables;

const GIT_LIMIT: Duration = Duration::from_mins(1);
/// The most files and bytes of a plugin that is copied.
const MAX_FILES: usize = 5_000;
const MAX_BYTES: u64 = 100 * 1024 * 1024;

impl PluginCommands<'_> {
    pub(super) fn install(&self, source: &str, replace: bool, enable: bool) -> Result<()> {
        let root = self.context.home.folder("plugins")?;
        let staged = root.join(format!(".install-{}", random::hex::<8>()?));
        let done = self.fetch(source, &staged).and_then(|usual| place(&staged, &root, &usual, replace));
        // What was placed is not there any more.
        let _ = fs::remove_dir_all(&staged);
        let (name, folder) = done?;
        self.output.line(&format!("Installed {name} in {}", folder.display()));
        if let Ok(text) = fs::read_to_string(folder.join("after-install.md")) {
            self.output.line(&hermes_text::escape_terminal(text.trim()));
        }
        let question = format!("Enable {name}? Its code runs outside the sandbox, with your permissions.");
        if enable || self.output.confirm(&question) == Confirmation::Yes {
            return self.enable(&name);
        }
        self.output.line(&format!("Enable it with: hermes plugins enable {name}"));
        Ok(())
    }

    /// Fetches a plugin into a folder, and returns the name its source suggests.
    fn fetch(&self, source: &str, to: &Path) -> Result<String> {
        let local = Path::new(source);
        if source.starts_with(['/', '.', '~']) || local.is_dir() {
            let from = hermes_config::expand_tilde(source, &self.context.env)?;
            let from = from.canonicalize().with_context(|| from.display().to_string())?;
            copy(&from, to, &mut CopyBudget { files: MAX_FILES, bytes: MAX_BYTES })?;
            return Ok(from.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        let url = git_url(source)?;
        let arguments = ["clone", "--depth", "1", "--", url.as_str()].map(OsString::from);
        let arguments = arguments.into_iter().chain([to.as_os_str().to_owned()]).collect();
        let above = to.parent().unwrap_or(to);
        self.git(arguments, above)?;
        let name = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        Ok(name.trim_end_matches(".git").to_owned())
    }

    pub(super) fn update(&self, name: &str) -> Result<()> {
        let plugin = self.installed(name)?;
        if !plugin.is_checkout() {
            bail!("{name} was not installed from a git repository; install it again with --force");
        }
        let text = self.git(["pull", "--ff-only"].map(OsString::from).to_vec(), &plugin.folder)?;
        let is_same = text.contains("Already up to date");
        let what = if is_same { "is up to date" } else { "was updated; restart Hermes to use it" };
        self.output.line(&format!("{name} {what}."));
        Ok(())
    }

    /// Runs git and returns its output.
    fn git(&self, arguments: Vec<OsString>, folder: &Path) -> Result<String> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let variables = child_variables(&self.context.env, &[]).with("GIT_TERMINAL_PROMPT", "0");
        let programs = ProgramRunner::new(variables, clock);
        let program = Program {
            name: "git",
            arguments,
            directory: folder,
            limit: GIT_LIMIT,
            stderr: StderrMode::Merge,
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
        match runtime.block_on(programs.output(program, &Cancel::new()))? {
            (text, ProgramExit::Exited(0)) => Ok(text),
            (text, ProgramExit::Exited(_)) => bail!("git: {}", text.trim()),
            (_, _) => bail!("git did not end within {} s", GIT_LIMIT.as_secs()),
        }
    }
}

/// Moves a fetched plugin to its place.
fn place(staged: &Path, root: &Path, usual: &str, replace: bool) -> Result<(String, PathBuf)> {
    let manifest = match PluginManifest::read(staged) {
        Some(Ok(manifest)) => manifest,
        Some(Err(reason)) => bail!("{reason}"),
        None => bail!("there is no plugin.yaml in it; nothing was installed"),
    };
    let is_default = staged.file_name().is_some_and(|name| name == manifest.name.as_str());
    let name = if is_default { usual.to_owned() } else { manifest.name };
    if !is_plain(&name) {
        bail!("`{name}` cannot be the name of a plugin; nothing was installed");
    }
    if manifest.too_new {
        bail!("the plugin needs a newer release (manifest_version); nothing was installed");
    }
    fill_examples(staged)?;
    let folder = root.join(&name);
    if folder.symlink_metadata().is_ok() {
        if !replace {
            bail!("the plugin {name} is installed already; --force replaces it");
        }
        let old = root.join(format!(".old-{}", random::hex::<8>()?));
        fs::rename(&folder, &old)?;
        if let Err(error) = fs::rename(staged, &folder) {
            fs::rename(&old, &folder)?;
            return Err(error.into());
        }
        if old.is_symlink() { fs::remove_file(&old)? } else { fs::remove_dir_all(&old)? }
    } else {
        fs::rename(staged, &folder)?;
    }
    Ok((name, folder))
}

/// Returns the URL of a repository.
fn git_url(source: &str) -> Result<String> {
    if source.contains("://") || source.starts_with("git@") {
        return Ok(source.to_owned());
    }
    let parts: Vec<&str> = source.split('/').collect();
    match parts.as_slice() {
        [owner, repo] if is_plain(owner) && is_plain(repo) => {
            Ok(format!("https://github.com/{owner}/{repo}.git"))
        }
        _ => bail!("`{source}` is neither owner/repo, nor the URL of a git repository, nor a folder"),
    }
}

/// Tells whether a text is one harmless component of a path.
fn is_plain(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_one = Path::new(name).components().count() == 1
        && matches!(Path::new(name).components().next(), Some(Component::Normal(_)));
    is_one && !name.starts_with(['.', '-']) && name.chars().all(is_part)
}

/// Copies each `NAME.example` to `NAME`, unless that exists.
fn fill_examples(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let plain = path.with_extension("");
        if path.extension().is_some_and(|end| end == "example") && path.is_file() && !plain.exists() {
            fs::copy(&path, &plain)?;
        }
    }
    Ok(())
}

struct CopyBudget {
    files: usize,
    bytes: u64,
}

/// Copies files and folders. Links and devices are refused.
fn copy(from: &Path, to: &Path, budget: &mut CopyBudget) -> Result<()> {
    fs::create_dir(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (source, target, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            if entry.file_name() != "__pycache__" {
                copy(&source, &target, budget)?;
            }
            continue;
        }
        if !kind.is_file() {
            bail!("{} is a link or a device; nothing was installed", source.display());
        }
        let size = entry.metadata()?.len();
        budget.files = budget.files.checked_sub(1).context("the folder has too many files")?;
        budget.bytes = budget.bytes.checked_sub(size).context("the folder is too large")?;
        fs::copy(&source, &target)?;
    }
    Ok(())
}
