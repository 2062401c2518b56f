//! Runs the system's programs: `systemctl`, `loginctl`, `launchctl`, `getent`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_config::Env;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode, Variables};
use hermes_task::SystemClock;
use hermes_types::Cancel;
use tokio::runtime::Runtime;

/// Limits a call; stopping a service may take as long as its unit allows.
const LIMIT: Duration = Duration::from_mins(2);

/// Runs programs and waits for them.
#[derive(Debug)]
pub(crate) struct ServiceControl {
    programs: ProgramRunner,
    runtime: Runtime,
}

/// The exit code and output of a program.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl ServiceControl {
    /// Creates a runner. `runtime_folder` is where the user's service manager listens; it is passed to programs if
    /// the session did not set it.
    pub(crate) fn new(env: &Env, runtime_folder: &Path) -> Result<Self> {
        let mut variables = Variables::for_commands(env.iter(), &[], &[]);
        if let Some(path) = env.shell_value("PATH") {
            // Only programs that the user's shell would find are run.
            variables = variables.with("PATH", path);
        }
        let bus = runtime_folder.join("bus");
        if env.get("XDG_RUNTIME_DIR").is_none() && runtime_folder.is_dir() {
            variables = variables.with("XDG_RUNTIME_DIR", &runtime_folder.to_string_lossy());
        }
        if env.get("DBUS_SESSION_BUS_ADDRESS").is_none() && bus.exists() {
            variables = variables.with("DBUS_SESSION_BUS_ADDRESS", &format!("unix:path={}", bus.display()));
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
        Ok(Self { programs: ProgramRunner::new(variables, Arc::new(SystemClock::new())), runtime })
    }

    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        self.programs.find(name)
    }

    /// Runs a program and waits for its end.
    pub(crate) fn run(&self, name: &str, arguments: &[&str]) -> Result<ProgramOutput> {
        let program = Program {
            name,
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: Path::new("/"),
            limit: LIMIT,
            stderr: StderrMode::Merge,
        };
        match self.runtime.block_on(self.programs.output(program, &Cancel::new()))? {
            (text, ProgramExit::Exited(code)) => Ok(ProgramOutput { code, text: text.trim_end().to_owned() }),
            _ => bail!("`{name} {}` did not end within {} s", arguments.join(" "), LIMIT.as_secs()),
        }
    }

    /// Runs a program that must succeed.
    pub(crate) fn run_checked(&self, name: &str, arguments: &[&str]) -> Result<()> {
        let said = self.run(name, arguments)?;
        if said.code == 0 {
            return Ok(());
        }
        let line = format!("{name} {}", arguments.join(" "));
        bail!("`{line}` failed with {}: {}", said.code, said.text.trim());
    }
}
