//! `hermes update`: replaces this program with the newest release, the way it was installed.
//!
//! The installer does the work and is part of this program. It replaces this process (exec), replaces the binary,
//! and starts the new one for the remaining steps; so no code of the old version runs after the update.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_gateway::process;
use rustix::process::Signal;

use crate::cli;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::bundled_skills;

const INSTALLER: &str = include_str!("../../../../scripts/install.sh");
/// The name of the file beside the program's folder that records how it was installed.
const RECORD: &str = ".hermes-install";

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

    fn recorded(&self, name: &str) -> Option<&str> {
        let line = self.record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.filter(|value| !value.is_empty())
    }
}

pub(crate) fn run(output: &Console) -> Result<ExitCode> {
    let own = Installation::own()?;
    output.line(&format!("⚕ Updating Hermes Agent... (now {})", cli::version()));
    let folder = own.folder.to_str().context("the installation's folder has no readable name")?;
    let mut arguments = vec!["-c", INSTALLER, "install.sh", "--update", "--dir", folder];
    for (flag, name) in [("--hermes-home", "home"), ("--branch", "branch")] {
        if let Some(value) = own.recorded(name) {
            arguments.extend([flag, value]);
        }
    }
    let variables = [
        ("HERMES_SOURCE", "source"),
        ("HERMES_RELEASE_URL", "release"),
        ("HERMES_REPO", "repository"),
        ("HERMES_BUILD_PROFILE", "profile"),
        ("CARGO_TARGET_DIR", "target"),
    ];
    let variables: Vec<(&str, &str)> =
        variables.into_iter().filter_map(|(variable, name)| Some((variable, own.recorded(name)?))).collect();
    Err(hermes_exec::exec_program("bash", &arguments, &variables))
        .context("the installer could not be started")
}

/// Runs the first steps of the new version after an update.
pub(crate) fn finish(context: &ProgramContext, output: &Console) -> ExitCode {
    // The stored result of the update check refers to the old version.
    match fs::remove_file(context.home.join(".update_check")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            output.notice(&format!(".update_check could not be removed: {error}"));
        }
        _ => {}
    }
    // Loading prints warnings about outdated settings.
    context.config(output);
    bundled_skills::sync_aloud(context, output);
    if let Some(pid) = process::signal_running(&context.home, Signal::USR2) {
        output.line(&format!("The gateway (PID {pid}) begins again with it; what it was doing goes on."));
    }
    output.line("✓ Update complete!");
    ExitCode::SUCCESS
}
