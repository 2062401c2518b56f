//! The gateway under launchd.

pub(crate) mod plist;

use std::path::PathBuf;

use anyhow::{Result, bail};
use hermes_config::{Env, Home};

use self::plist::{Agent, path_in};
use super::machine::Machine;
use super::names::{Names, resolved};
use super::search_path::{node_folder, search_path};
use super::systemd::unit::same;
use super::{Force, Served, Supervisor, definition};
use crate::command::gateway::ending::{self, Patience};
use crate::output::Output;

/// What `launchctl start` answers about an agent that is not loaded.
const NOT_LOADED: i32 = 3;

/// The agent of one home.
pub(crate) struct Launchd<'a> {
    machine: &'a Machine,
    env: &'a Env,
    output: &'a Output,
    names: Names,
}

impl<'a> Launchd<'a> {
    pub(crate) fn new(machine: &'a Machine, env: &'a Env, output: &'a Output) -> Self {
        let names = Names::of(&machine.home, &resolved(&machine.folder.join(".hermes")));
        Self { machine, env, output, names }
    }

    fn file(&self) -> PathBuf {
        self.machine.agents.join(format!("{}.plist", self.names.label()))
    }

    fn wanted(&self, existing: Option<&str>) -> String {
        let kept = existing.and_then(path_in);
        let shell = self.env.shell("PATH");
        let node = node_folder(&[kept.as_deref(), shell]);
        // The folders of the shell that installed it stay, whichever looks at it later.
        let rest: Vec<String> =
            kept.as_deref().or(shell).unwrap_or_default().split(':').map(str::to_owned).collect();
        let search_path = search_path(&self.machine.binary, node, &self.machine.folder, &rest);
        Agent {
            label: &self.names.label(),
            binary: &self.machine.binary,
            home: &self.machine.home,
            search_path: &search_path,
        }
        .text()
    }

    fn order(&self, verb: &str, what: &str) -> Result<()> {
        self.machine.control.order("launchctl", &[verb, what])
    }

    /// Lets go of the agent; one that is not loaded is let go of already.
    fn unload(&self) -> Result<()> {
        self.machine.control.ask("launchctl", &["unload", &self.file().to_string_lossy()]).map(drop)
    }

    fn load(&self) -> Result<()> {
        self.order("load", &self.file().to_string_lossy())
    }

    fn put(&self, text: &str) -> Result<()> {
        self.unload()?;
        definition::put(&self.file(), text)?;
        self.load()
    }

    fn refresh(&self, existing: &str) -> Result<()> {
        let wanted = self.wanted(Some(existing));
        if !same(existing, &wanted) {
            self.put(&wanted)?;
            self.output.line(&format!("✓ Updated the service definition: {}", self.file().display()));
        }
        Ok(())
    }

    fn start_loaded(&self) -> Result<()> {
        let label = self.names.label();
        let said = self.machine.control.ask("launchctl", &["start", &label])?;
        match said.code {
            0 => Ok(()),
            NOT_LOADED => {
                self.load()?;
                self.order("start", &label)
            }
            code => bail!("`launchctl start {label}` failed with {code}: {}", said.text.trim()),
        }
    }
}

impl Supervisor for Launchd<'_> {
    fn is_installed(&self) -> bool {
        self.file().exists()
    }

    fn install(&self, force: Force) -> Result<()> {
        let file = self.file();
        let existing = definition::read(&file);
        let wanted = self.wanted(existing.as_deref());
        if existing.as_deref().is_some_and(|text| same(text, &wanted)) && force == Force::No {
            self.output.line(&format!("Service already installed at: {}", file.display()));
            self.output.line("Use --force to reinstall");
            return Ok(());
        }
        self.put(&wanted)?;
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

    fn start(&self) -> Result<Served> {
        let Some(existing) = definition::read(&self.file()) else {
            self.output.error("no service is installed; `hermes gateway install` installs it");
            return Ok(Served::NotInstalled);
        };
        self.refresh(&existing)?;
        self.start_loaded()?;
        self.output.line("✓ Service started");
        Ok(Served::Done)
    }

    fn stop(&self) -> Result<Served> {
        if !self.file().exists() {
            return Ok(Served::NotInstalled);
        }
        self.order("stop", &self.names.label())?;
        self.output.line("✓ Service stopped");
        Ok(Served::Done)
    }

    fn restart(&self) -> Result<Served> {
        let Some(existing) = definition::read(&self.file()) else { return Ok(Served::NotInstalled) };
        self.refresh(&existing)?;
        // `launchctl stop` does not wait.
        self.machine.control.ask("launchctl", &["stop", &self.names.label()])?;
        ending::wait(&self.home(), Patience::Short);
        self.start_loaded()?;
        self.output.line("✓ Service restarted");
        Ok(Served::Done)
    }

    fn report(&self) -> Result<Served> {
        let Some(existing) = definition::read(&self.file()) else { return Ok(Served::NotInstalled) };
        if !same(&existing, &self.wanted(Some(&existing))) {
            self.output
                .line("⚠ The installed service definition is outdated; `hermes gateway restart` updates it");
        }
        let said = self.machine.control.ask("launchctl", &["list", &self.names.label()])?;
        if said.code == 0 {
            self.output.line(&said.text);
            self.output.line("✓ Gateway service is loaded");
        } else {
            self.output.line("✗ Gateway service is not loaded");
            self.output.line("  hermes gateway start  starts it");
        }
        Ok(Served::Done)
    }

    fn home(&self) -> Home {
        Home::at(&self.machine.home)
    }
}
