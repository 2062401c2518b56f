//! `hermes update`: the newest program in the place of this one, the way it was installed.
//!
//! The installer does the work and is part of this program. It takes our place, puts the new program where this one lies,
//! and starts that for what is left to do; so nothing of an old version runs behind a new one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_gateway::process;
use rustix::process::Signal;

use crate::cli;
use crate::context::ProgramContext;
use crate::output::Console;

const INSTALLER: &str = include_str!("../../../../scripts/install.sh");
/// Beside the program's folder; says how it came there.
const RECORD: &str = ".hermes-install";

/// Where and how this program was installed.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) program: PathBuf,
    folder: PathBuf,
    record: String,
}

impl Installation {
    /// The one this program is part of; else words about what it is.
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

/// What the new program does first.
pub(crate) fn finish(context: &ProgramContext, output: &Console) -> ExitCode {
    // What was known of newer versions is about the old one.
    match fs::remove_file(context.home.join(".update_check")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            output.notice(&format!(".update_check could not be removed: {error}"));
        }
        _ => {}
    }
    // Settings that are out of date are said.
    context.config(output);
    if let Some(pid) = process::signal_running(&context.home, Signal::USR2) {
        output.line(&format!("The gateway (PID {pid}) begins again with it; what it was doing goes on."));
    }
    output.line("✓ Update complete!");
    ExitCode::SUCCESS
}
