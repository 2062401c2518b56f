//! The gateway under launchd.

pub(crate) mod plist;

use std::path::PathBuf;

use anyhow::{Result, bail};
use hermes_config::{Env, Home};

use self::plist::{LaunchAgent, path_in};
use super::machine::ServiceMachine;
use super::names::{ServiceNames, resolve_path};
use super::search_path::{node_folder, search_path};
use super::systemd::unit::is_equivalent;
use super::{ForceInstall, ReportWidth, ServiceResult, Supervisor, definition};
use crate::command::gateway::shutdown::{self, StopTimeout};
use crate::output::Console;

/// The exit code of `launchctl start` for an agent that is not loaded.
const NOT_LOADED: i32 = 3;

/// The launch agent of one home.
pub(crate) struct Launchd<'a> {
    machine: &'a ServiceMachine,
    env: &'a Env,
    output: &'a Console,
    names: ServiceNames,
}

impl<'a> Launchd<'a> {
    pub(crate) fn new(machine: &'a ServiceMachine, env: &'a Env, output: &'a Console) -> Self {
        let names = ServiceNames::of(&machine.home, &resolve_path(&machine.folder.join(".hermes")));
        Self { machine, env, output, names }
    }

    fn file(&self) -> PathBuf {
        self.machine.agents.join(format!("{}.plist", self.names.label()))
    }

    fn desired_plist(&self, existing: Option<&str>) -> String {
        let kept = existing.and_then(path_in);
        let shell = self.env.shell_value("PATH");
        let node = node_folder(&[kept.as_deref(), shell]);
        // The search path of the shell that installed it stays, whichever shell checks it later.
        let rest: Vec<String> =
            kept.as_deref().or(shell).unwrap_or_default().split(':').map(str::to_owned).collect();
        let search_path = search_path(&self.machine.binary, node, &self.machine.folder, &rest);
        LaunchAgent {
            label: &self.names.label(),
            binary: &self.machine.binary,
            home: &self.machine.home,
            search_path: &search_path,
        }
        .text()
    }

    fn run_launchctl(&self, verb: &str, what: &str) -> Result<()> {
        self.machine.control.run_checked("launchctl", &[verb, what])
    }

    /// Unloads the agent; one that is not loaded is not an error.
    fn unload(&self) -> Result<()> {
        self.machine.control.run("launchctl", &["unload", &self.file().to_string_lossy()]).map(drop)
    }

    fn load(&self) -> Result<()> {
        self.run_launchctl("load", &self.file().to_string_lossy())
    }

    fn write_plist(&self, text: &str) -> Result<()> {
        self.unload()?;
        definition::write_definition(&self.file(), text)?;
        self.load()
    }

    fn refresh(&self, existing: &str) -> Result<()> {
        let wanted = self.desired_plist(Some(existing));
        if !is_equivalent(existing, &wanted) {
            self.write_plist(&wanted)?;
            self.output.line(&format!("✓ Updated the service definition: {}", self.file().display()));
        }
        Ok(())
    }

    fn start_loaded(&self) -> Result<()> {
        let label = self.names.label();
        let said = self.machine.control.run("launchctl", &["start", &label])?;
        match said.code {
            0 => Ok(()),
            NOT_LOADED => {
                self.load()?;
                self.run_launchctl("start", &label)
            }
            code => bail!("`launchctl start {label}` failed with {code}: {}", said.text.trim()),
        }
    }
}

impl Supervisor for Launchd<'_> {
    fn is_installed(&self) -> bool {
        self.file().exists()
    }

    fn install(&self, force: ForceInstall) -> Result<()> {
        let file = self.file();
        let existing = definition::read(&file);
        let wanted = self.desired_plist(existing.as_deref());
        if existing.as_deref().is_some_and(|text| is_equivalent(text, &wanted)) && force == ForceInstall::No {
            self.output.line(&format!("Service already installed at: {}", file.display()));
            self.output.line("Use --force to reinstall");
            return Ok(());
        }
        self.write_plist(&wanted)?;
        self.output.line(&format!("✓ Service installed and loaded: {}", file.display()));
        self.output.line("  hermes gateway status  tells how it is");
        Ok(())
    }

    fn uninstall(&self) -> Result<()> {
        if !self.file().exists() {
            self.output.line("No service is installed.");
            return Ok(());
        }
        self.unload()?;
        definition::remove(&self.file())?;
        self.output.line("✓ Service uninstalled");
        Ok(())
    }

    fn start(&self) -> Result<ServiceResult> {
        let Some(existing) = definition::read(&self.file()) else {
            self.output.error("no service is installed; `hermes gateway install` installs it");
            return Ok(ServiceResult::NotInstalled);
        };
        self.refresh(&existing)?;
        self.start_loaded()?;
        self.output.line("✓ Service started");
        Ok(ServiceResult::Done)
    }

    fn stop(&self) -> Result<ServiceResult> {
        if !self.file().exists() {
            return Ok(ServiceResult::NotInstalled);
        }
        self.run_launchctl("stop", &self.names.label())?;
        self.output.line("✓ Service stopped");
        Ok(ServiceResult::Done)
    }

    fn restart(&self) -> Result<ServiceResult> {
        let Some(existing) = definition::read(&self.file()) else { return Ok(ServiceResult::NotInstalled) };
        self.refresh(&existing)?;
        // `launchctl stop` does not wait.
        self.machine.control.run("launchctl", &["stop", &self.names.label()])?;
        shutdown::wait_for_exit(&self.home(), StopTimeout::Short);
        self.start_loaded()?;
        self.output.line("✓ Service restarted");
        Ok(ServiceResult::Done)
    }

    fn disable_autostart(&self) -> Result<()> {
        bail!("launchd starts every installed agent at login")
    }

    fn report(&self, _: ReportWidth) -> Result<ServiceResult> {
        let Some(existing) = definition::read(&self.file()) else { return Ok(ServiceResult::NotInstalled) };
        if !is_equivalent(&existing, &self.desired_plist(Some(&existing))) {
            self.output
                .line("⚠ The installed service definition is outdated; `hermes gateway restart` updates it");
        }
        let said = self.machine.control.run("launchctl", &["list", &self.names.label()])?;
        if said.code == 0 {
            self.output.line(&said.text);
            self.output.line("✓ Gateway service is loaded");
        } else {
            self.output.line("✗ Gateway service is not loaded");
            self.output.line("  hermes gateway start  starts it");
        }
        Ok(ServiceResult::Done)
    }

    fn home(&self) -> Home {
        Home::new(&self.machine.home)
    }
}
