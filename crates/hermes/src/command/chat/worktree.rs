//! `--worktree`: a git worktree of its own for a chat, beside the user's.
//!
//! Invariant: a worktree with changes that are not committed is never removed.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_task::SystemClock;
use hermes_tools::RUNS_NOTHING;
use hermes_types::Cancel;

use crate::context::ProgramContext;
use crate::output::Console;
use crate::random;
use crate::wiring::child_variables;

const GIT_LIMIT: Duration = Duration::from_secs(30);
/// Worktrees without changes are removed when they are older than this.
const PRUNE_AFTER: Duration = Duration::from_hours(24);
const IGNORED: &str = ".worktrees/";

/// A worktree that a chat works in.
pub(super) struct ChatWorktree {
    root: PathBuf,
    path: PathBuf,
    branch: String,
    git: Git,
}

impl ChatWorktree {
    /// Creates a worktree of the repository around the working folder, and makes it the working folder.
    pub(super) fn create(context: &ProgramContext, output: &Console) -> Result<Self> {
        let git = Git::new(context)?;
        let folder = std::env::current_dir()?;
        let Some(root) =
            git.run(&folder, &["rev-parse", "--show-toplevel"]).ok().map(|text| PathBuf::from(text.trim()))
        else {
            bail!("--worktree requires being inside a git repository; `git init` makes one");
        };
        let folder = root.join(".worktrees");
        prune(&git, &root, &folder);
        let id = random::hex::<4>()?;
        let (path, branch) = (folder.join(format!("hermes-{id}")), format!("hermes/hermes-{id}"));
        let place = path.to_str().context("the path of the repository is no text")?;
        git.run(&root, &["worktree", "add", "-b", &branch, place, "HEAD"])
            .context("cannot create the worktree")?;
        ignore(&root)?;
        include(&root, &path);
        std::env::set_current_dir(&path)?;
        output.line(&format!("✓ Worktree created: {}\n  Branch: {branch}", path.display()));
        Ok(Self { root, path, branch, git })
    }

    /// Returns what the model is told about it.
    pub(super) fn note(&self) -> String {
        format!(
            "You work in a git worktree of your own: {} on the branch {}, made from {}. Commit there; the user merges.",
            self.path.display(),
            self.branch,
            self.root.display()
        )
    }

    /// Removes the worktree, unless something in it was not committed.
    pub(super) fn close(self, output: &Console) {
        // The folder cannot be removed while it is the working folder.
        let _ = std::env::set_current_dir(&self.root);
        match self.git.has_changes(&self.root, &self.path) {
            Ok(false) => {
                remove(&self.git, &self.root, &self.path, &self.branch);
                output.line(&format!("✓ Worktree cleaned up: {}", self.path.display()));
            }
            _ => output.line(&format!(
                "⚠ Worktree has uncommitted changes, keeping: {0}\n  git worktree remove --force {0} removes it",
                self.path.display()
            )),
        }
    }
}

/// Removes a worktree. Its branch goes with it, unless it holds commits that are nowhere else.
fn remove(git: &Git, root: &Path, path: &Path, branch: &str) {
    let Some(place) = path.to_str() else { return };
    if let Err(error) = git.run(root, &["worktree", "remove", "--force", place]) {
        tracing::warn!("{error:#}");
        return;
    }
    // `-d` refuses when commits would be lost.
    if let Err(error) = git.run(root, &["branch", "-d", branch]) {
        tracing::debug!("{error:#}");
    }
}

/// Removes old worktrees without changes.
fn prune(git: &Git, root: &Path, folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let modified = entry.metadata().and_then(|data| data.modified());
        let age = modified.ok().and_then(|at| SystemTime::elapsed(&at).ok()).unwrap_or_default();
        let is_ours = name.starts_with("hermes-") && age > PRUNE_AFTER;
        if is_ours && git.has_changes(root, &entry.path()).is_ok_and(|changed| !changed) {
            remove(git, root, &entry.path(), &format!("hermes/{name}"));
        }
    }
}

/// Adds the folder of worktrees to .gitignore, if it is not there.
fn ignore(root: &Path) -> Result<()> {
    let file = root.join(".gitignore");
    let text = fs::read_to_string(&file).unwrap_or_default();
    if text.lines().any(|line| line.trim() == IGNORED) {
        return Ok(());
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    hermes_config::write::write_output(&file, format!("{text}{gap}{IGNORED}\n").as_bytes())?;
    Ok(())
}

/// Returns the paths that .worktreeinclude names, without those that lead out of the repository.
fn included(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(".worktreeinclude")).unwrap_or_default();
    let paths = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_inside = |line: &&str| {
        let mut parts = Path::new(line).components();
        parts.all(|part| matches!(part, Component::Normal(_)))
            && root.join(line).canonicalize().is_ok_and(|real| real.starts_with(root))
    };
    paths.filter(is_inside).map(|line| line.trim_end_matches('/').to_owned()).collect()
}

/// Copies what .worktreeinclude names: files are copied, folders are linked.
fn include(root: &Path, worktree: &Path) {
    for line in included(root) {
        let (from, to) = (root.join(&line), worktree.join(&line));
        if to.exists() {
            continue;
        }
        let copied = (|| {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            if from.is_dir() {
                std::os::unix::fs::symlink(&from, &to)
            } else {
                fs::copy(&from, &to).map(|_| ())
            }
        })();
        if let Err(error) = copied {
            tracing::warn!(%error, "{line} is not in the worktree");
        }
    }
}

/// Runs git.
struct Git {
    programs: ProgramRunner,
    runtime: tokio::runtime::Runtime,
}

impl Git {
    fn new(context: &ProgramContext) -> Result<Self> {
        let programs =
            ProgramRunner::new(child_variables(&context.env, &[]), std::sync::Arc::new(SystemClock::new()));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
        Ok(Self { programs, runtime })
    }

    /// Tells whether a worktree holds something that is not committed. Unchanged copies of what .worktreeinclude
    /// names do not count. Nothing that the worktree names is run.
    fn has_changes(&self, root: &Path, worktree: &Path) -> Result<bool> {
        let mut arguments = Vec::new();
        for setting in RUNS_NOTHING {
            arguments.extend(["-c", *setting]);
        }
        arguments.extend(["status", "--porcelain", "-z", "--untracked-files=all"]);
        let status = self.run(worktree, &arguments)?;
        let copies = included(root);
        let is_copy = |path: &str| {
            if !copies.iter().any(|copy| copy == path) {
                return false;
            }
            let (original, copy) = (root.join(path), worktree.join(path));
            if let Ok(target) = fs::read_link(&copy) {
                return target == original;
            }
            let original = fs::read(original).ok();
            original.is_some() && original == fs::read(copy).ok()
        };
        let mut entries = status.split('\0').filter(|entry| !entry.is_empty());
        Ok(entries.any(|entry| !entry.strip_prefix("?? ").is_some_and(is_copy)))
    }

    fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String> {
        let program = Program {
            name: "git",
            arguments: arguments.iter().map(|argument| (*argument).into()).collect(),
            directory,
            limit: GIT_LIMIT,
            stderr: StderrMode::Merge,
        };
        match self.runtime.block_on(self.programs.output(program, &Cancel::new())) {
            Ok((text, ProgramExit::Exited(0))) => Ok(text),
            Ok((text, _)) => bail!("git {}: {}", arguments.join(" "), text.trim()),
            Err(error) => Err(error).context("cannot run git"),
        }
    }
}
