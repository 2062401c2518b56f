//! `hermes update`: replaces this program with the newest release, the way it was installed.
//!
//! The installer is part of this program. It replaces this process (exec), fetches or builds the new program beside
//! the old one, and executes the old one again (`staged`), which checks the new one and puts it in place. The new
//! one does the remaining steps (`finish`).

mod signature;
mod staged;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use self::staged::install;
use anyhow::{Context as _, Result, bail};
use hermes_config::{Config, migrate};

use super::backup::{self, ArchiveScope};
use crate::cli::{self, UpdateArguments};
use crate::context::{ProgramContext, local_time, now};
use crate::output::{Confirmation, Console};
use crate::wiring::bundled_skills;

const INSTALLER: &str = include_str!("../../../../../scripts/install.sh");
/// The name of the file beside the program's folder that records how it was installed.
const RECORD: &str = ".hermes-install";
const BACKUP_PREFIX: &str = "pre-update-";
/// The number of backups of updates that are kept.
const KEPT_BACKUPS: usize = 3;

/// Describes where and how this program was installed.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) program: PathBuf,
    folder: PathBuf,
    record: String,
}

impl Installation {
    /// Returns the installation this program belongs to, or an error that says what it is instead.
    pub(crate) fn own() -> Result<Self> {
        let program = hermes_exec::own_program().context("where this program lies is not known")?;
        let program = program.canonicalize().unwrap_or(program);
        let folder = program.parent().and_then(Path::parent).map(Path::to_owned);
        let record = folder.as_ref().and_then(|folder| fs::read_to_string(folder.join(RECORD)).ok());
        match (folder, record) {
            (Some(folder), Some(record)) if program.parent() == Some(&folder.join("bin")) => {
                Ok(Self { program, folder, record })
            }
            _ => bail!(
                "{} was not installed by install.sh; bring it up to date the way it came here",
                program.display()
            ),
        }
    }

    /// Tells whether releases without a signature were allowed when it was installed.
    fn allows_unsigned(&self) -> bool {
        self.recorded("unsigned").is_some()
    }

    fn recorded(&self, name: &str) -> Option<&str> {
        let line = self.record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.filter(|value| !value.is_empty())
    }
}

pub(crate) fn run(
    arguments: &UpdateArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let own = Installation::own()?;
    if !arguments.check {
        if !arguments.no_backup {
            back_up(arguments.backup, context, output)?;
        }
        output.line(&format!("⚕ Updating Hermes Agent... (now {})", cli::version()));
    }
    let folder = own.folder.to_str().context("the installation's folder has no readable name")?;
    let mut options = vec!["-c", INSTALLER, "install.sh", "--update", "--stage", "--dir", folder];
    if arguments.check {
        options.push("--check");
    }
    if arguments.yes {
        options.push("--yes");
    }
    if arguments.allow_unsigned || own.allows_unsigned() {
        options.push("--allow-unsigned");
    }
    if let Some(home) = own.recorded("home") {
        options.extend(["--hermes-home", home]);
    }
    if let Some(branch) = arguments.branch.as_deref().or_else(|| own.recorded("branch")) {
        options.extend(["--branch", branch]);
    }
    let variables = [
        ("HERMES_SOURCE", "source"),
        ("HERMES_RELEASE_URL", "release"),
        ("HERMES_RELEASE_KEY", "key"),
        ("HERMES_REPO", "repository"),
        ("HERMES_BUILD_PROFILE", "profile"),
        ("CARGO_TARGET_DIR", "target"),
    ];
    let variables: Vec<(&str, &str)> =
        variables.into_iter().filter_map(|(variable, name)| Some((variable, own.recorded(name)?))).collect();
    Err(hermes_exec::exec_program("bash", &options, &variables)).context("the installer could not be started")
}

/// Backs up the home before an update, and removes all but the latest of such copies.
fn back_up(whole: bool, context: &ProgramContext, output: &Console) -> Result<()> {
    let folder = context.home.folder("backups")?;
    let at = local_time(now()).to_string().replace([':', '-'], "").replace('T', "-");
    let file = folder.join(format!("{BACKUP_PREFIX}{at}.zip"));
    let scope = if whole { ArchiveScope::Everything } else { ArchiveScope::Quick };
    let count = backup::write_archive(&context.home, &file, scope)?;
    output.line(&format!("✓ {count} files backed up in {}", file.display()));
    let is_own = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(BACKUP_PREFIX))
    };
    let mut copies: Vec<PathBuf> =
        fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).filter(is_own).collect();
    // Their names begin with the date.
    copies.sort();
    for old in copies.iter().rev().skip(KEPT_BACKUPS) {
        if let Err(error) = fs::remove_file(old) {
            output.notice(&format!("note: {} could not be removed: {error}", old.display()));
        }
    }
    Ok(())
}

/// Runs the first steps of the new version after an update.
pub(crate) fn finish(arguments: &UpdateArguments, context: &ProgramContext, output: &Console) -> ExitCode {
    // The stored result of the update check refers to the old version.
    match fs::remove_file(context.home.join(".update_check")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            output.notice(&format!(".update_check could not be removed: {error}"));
        }
        _ => {}
    }
    // Loading prints warnings about outdated settings.
    let config = context.config(output);
    migrate_config(&config, arguments.yes, context, output);
    bundled_skills::sync_aloud(context, output);
    output.line("✓ Update complete!");
    ExitCode::SUCCESS
}

/// Offers to bring config.yaml to the version of this release.
fn migrate_config(config: &Config, yes: bool, context: &ProgramContext, output: &Console) {
    let status = migrate::status(config, &context.env);
    let is_old = status.current.is_some_and(|current| current < status.latest);
    if !is_old {
        return;
    }
    let question = format!("config.yaml: migrate it ({})?", status.version_line());
    if !yes && output.confirm(&question) != Confirmation::Yes {
        output.line(&format!("config.yaml: {}; `hermes config migrate` migrates it", status.version_line()));
        return;
    }
    match migrate::migrate(&context.home, &context.env, migrate::MigrationMode::Apply) {
        Ok(report) => {
            for line in report.lines {
                output.line(&line);
            }
        }
        // The update itself is complete; the old file still works.
        Err(error) => output.notice(&format!("note: config.yaml was not migrated: {error}")),
    }
}
