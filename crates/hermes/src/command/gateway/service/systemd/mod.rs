//! The gateway under systemd: in the user's manager, or in the system's.

pub(crate) mod linger;
pub(crate) mod unit;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use hermes_config::{Env, Home};

use self::linger::Linger;
use self::unit::{ServiceScope, SystemdUnit, is_equivalent, path_in, setting};
use super::account::{UserAccount, current_user, invoking_user, rebase_home};
use super::machine::{Privilege, ServiceMachine};
use super::names::{ServiceNames, resolve_path};
use super::search_path::{node_folder, search_path, standard};
use super::{ForceInstall, ReportWidth, ServiceResult, Supervisor, definition};
use crate::output::Console;

/// The service of one home in one of the two managers.
pub(crate) struct Systemd<'a> {
    machine: &'a ServiceMachine,
    env: &'a Env,
    output: &'a Console,
    scope: ServiceScope,
    names: ServiceNames,
    /// The user a system service is to run as, if given.
    run_as: Option<String>,
}

impl<'a> Systemd<'a> {
    /// Returns the service to install: in the requested scope, the user's by default.
    pub(crate) fn to_install(
        machine: &'a ServiceMachine,
        env: &'a Env,
        output: &'a Console,
        scope: ServiceScope,
        run_as: Option<String>,
    ) -> Self {
        let names = names(machine, env, scope, run_as.as_deref());
        Self { machine, env, output, scope, names, run_as }
    }

    /// Returns the installed service: in the requested scope; else the user's, unless only the system has one.
    pub(crate) fn installed(
        machine: &'a ServiceMachine,
        env: &'a Env,
        output: &'a Console,
        asked: ServiceScope,
    ) -> Self {
        let user = Self::to_install(machine, env, output, ServiceScope::User, None);
        let system = Self::to_install(machine, env, output, ServiceScope::System, None);
        let (has_user, has_system) = (user.file().exists(), system.file().exists());
        if has_user && has_system {
            output.notice(&format!(
                "⚠ Both a user service and a system service are installed:\n  {}\n  {}\n  Keep one: \
                 `hermes gateway uninstall`, or `sudo hermes gateway uninstall --system`",
                user.file().display(),
                system.file().display()
            ));
        }
        let choose_system = asked == ServiceScope::System || (has_system && !has_user);
        if choose_system { system } else { user }
    }

    fn file(&self) -> PathBuf {
        let folder = match self.scope {
            ServiceScope::User => &self.machine.user_units,
            ServiceScope::System => &self.machine.system_units,
        };
        folder.join(self.names.unit_file())
    }

    /// Returns the account a system service runs as; `None` in the user's manager.
    fn account(&self, existing: Option<&str>) -> Result<Option<UserAccount>> {
        if self.scope == ServiceScope::User {
            return Ok(None);
        }
        let kept = existing.and_then(|text| setting(text, "User"));
        let name = self.run_as.as_deref().or(kept).or_else(|| invoking_user(self.env));
        match name {
            None | Some("root") => {
                bail!("a system service does not run as root; name a user with `--run-as-user NAME`")
            }
            Some(name) => UserAccount::find(&self.machine.control, name).map(Some),
        }
    }

    fn desired_unit(&self, existing: Option<&str>) -> Result<String> {
        let account = self.account(existing)?;
        let (folder, home) = match &account {
            Some(account) => self.account_folders(account),
            None => (self.machine.folder.clone(), self.machine.home.clone()),
        };
        let node = node_folder(&[existing.and_then(path_in), self.env.shell_value("PATH")]);
        let search_path = search_path(&self.machine.binary, node, &folder, &standard());
        let unit = SystemdUnit {
            binary: &self.machine.binary,
            home: &home,
            search_path: &search_path,
            account: account.as_ref(),
        };
        unit.text()
    }

    /// Returns the folder and the Hermes home of the account.
    fn account_folders(&self, account: &UserAccount) -> (PathBuf, PathBuf) {
        let folder = resolve_path(&account.folder);
        let home = rebase_home(&self.machine.home, &self.machine.folder, &folder);
        (folder, home)
    }

    /// Writes the definition and reloads the manager.
    fn write_unit(&self, text: &str) -> Result<()> {
        definition::write_definition(&self.file(), text)?;
        self.run_systemctl(&["daemon-reload"])?;
        self.run_systemctl(&["enable", &self.names.unit()])
    }

    /// Updates an outdated definition before it is used.
    fn refresh(&self, existing: &str) -> Result<()> {
        let wanted = self.desired_unit(Some(existing))?;
        if !is_equivalent(existing, &wanted) {
            self.write_unit(&wanted)?;
            self.output.line(&format!("✓ Updated the service definition: {}", self.file().display()));
        }
        Ok(())
    }

    fn systemctl<'t>(&self, arguments: &[&'t str]) -> Vec<&'t str> {
        let scope: &[&str] = if self.scope == ServiceScope::User { &["--user"] } else { &[] };
        [scope, arguments].concat()
    }

    fn run_systemctl(&self, arguments: &[&str]) -> Result<()> {
        self.machine.control.run_checked("systemctl", &self.systemctl(arguments))
    }

    /// Checks that this user may do this, and that the system supports it.
    fn check_allowed(&self, verb: &str) -> Result<()> {
        if self.scope == ServiceScope::System && self.machine.privilege == Privilege::Ordinary {
            bail!("a system service needs root: `sudo hermes gateway {verb} --system`");
        }
        if self.machine.control.find("systemctl").is_none() {
            bail!(
                "there is no systemd here (`systemctl` was not found). Let the supervisor you have run `hermes gateway run`"
            );
        }
        Ok(())
    }

    fn flag(&self) -> &'static str {
        if self.scope == ServiceScope::System { " --system" } else { "" }
    }

    fn sudo(&self) -> &'static str {
        if self.scope == ServiceScope::System { "sudo " } else { "" }
    }

    fn report_not_installed(&self) {
        self.output.error(&format!(
            "no {} service is installed; `{}hermes gateway install{}` installs it",
            self.scope.word().to_lowercase(),
            self.sudo(),
            self.flag()
        ));
    }

    fn linger(&self) -> Linger<'_> {
        Linger::new(&self.machine.control, current_user(self.env))
    }
}

/// Returns the names of the service. Under `sudo` a system service belongs to the invoking user.
fn names(machine: &ServiceMachine, env: &Env, scope: ServiceScope, run_as: Option<&str>) -> ServiceNames {
    let other = run_as.or_else(|| invoking_user(env)).filter(|name| {
        scope == ServiceScope::System && machine.privilege == Privilege::Root && *name != "root"
    });
    // An unknown user is reported when the service is installed for them.
    let account = other.and_then(|name| UserAccount::find(&machine.control, name).ok());
    let folder =
        account.as_ref().map_or_else(|| machine.folder.clone(), |account| resolve_path(&account.folder));
    let home = rebase_home(&machine.home, &machine.folder, &folder);
    let names = ServiceNames::of(&home, &resolve_path(&folder.join(".hermes")));
    match account {
        Some(account) => names_for_user(machine, names, &account.name),
        None => names,
    }
}

/// Returns the names for a user: one user's system service has the plain name, every other's includes the user
/// name.
fn names_for_user(machine: &ServiceMachine, names: ServiceNames, user: &str) -> ServiceNames {
    let own = names.for_user(user);
    let plain = definition::read(&machine.system_units.join(names.unit_file()));
    let taken = plain.is_some_and(|text| setting(&text, "User").is_some_and(|other| other != user));
    if taken || machine.system_units.join(own.unit_file()).exists() { own } else { names }
}

impl Supervisor for Systemd<'_> {
    fn is_installed(&self) -> bool {
        self.file().exists()
    }

    fn install(&self, force: ForceInstall) -> Result<()> {
        self.check_allowed("install")?;
        let file = self.file();
        let existing = definition::read(&file);
        let wanted = self.desired_unit(existing.as_deref())?;
        if let Some(account) = self.account(existing.as_deref())? {
            account.require_program(&self.machine.binary)?;
        }
        match &existing {
            Some(text) if is_equivalent(text, &wanted) && force == ForceInstall::No => {
                self.output.line(&format!("Service already installed at: {}", file.display()));
                self.output.line("Use --force to reinstall");
                return Ok(());
            }
            Some(_) => {
                self.write_unit(&wanted)?;
                self.output.line(&format!("✓ Updated the service definition: {}", file.display()));
            }
            None => {
                if let Err(error) = self.write_unit(&wanted) {
                    // A partly installed service would look installed.
                    definition::remove(&file)?;
                    return Err(error).context("the service was not installed, nothing was changed");
                }
                self.output.line(&format!(
                    "✓ {} service installed and enabled: {}",
                    self.scope.word(),
                    file.display()
                ));
            }
        }
        if let Some(user) = setting(&wanted, "User") {
            self.output.line(&format!("  Runs as: {user}"));
        }
        if self.scope == ServiceScope::User {
            self.linger().turn_on(self.output)?;
        }
        let (sudo, flag, unit) = (self.sudo(), self.flag(), self.names.unit());
        let scope = if self.scope == ServiceScope::User { " --user" } else { "" };
        self.output.line(&format!("  {sudo}hermes gateway start{flag}  starts it now"));
        self.output.line(&format!("  {sudo}journalctl{scope} -u {unit} -f  follows its log"));
        Ok(())
    }

    fn uninstall(&self) -> Result<()> {
        let file = self.file();
        if !file.exists() {
            self.output.line(&format!("No {} service is installed.", self.scope.word().to_lowercase()));
            return Ok(());
        }
        self.check_allowed("uninstall")?;
        // A service that is not running or not enabled is removed all the same.
        for verb in ["stop", "disable"] {
            if let Err(error) = self.run_systemctl(&[verb, &self.names.unit()]) {
                self.output.notice(&format!("note: {error}"));
            }
        }
        definition::remove(&file)?;
        self.run_systemctl(&["daemon-reload"])?;
        self.output.line(&format!("✓ {} service uninstalled", self.scope.word()));
        Ok(())
    }

    fn start(&self) -> Result<ServiceResult> {
        let Some(existing) = definition::read(&self.file()) else {
            self.report_not_installed();
            return Ok(ServiceResult::NotInstalled);
        };
        self.check_allowed("start")?;
        self.refresh(&existing)?;
        self.run_systemctl(&["start", &self.names.unit()])?;
        self.output.line(&format!("✓ {} service started", self.scope.word()));
        Ok(ServiceResult::Done)
    }

    fn stop(&self) -> Result<ServiceResult> {
        if !self.file().exists() {
            return Ok(ServiceResult::NotInstalled);
        }
        self.check_allowed("stop")?;
        self.run_systemctl(&["stop", &self.names.unit()])?;
        self.output.line(&format!("✓ {} service stopped", self.scope.word()));
        Ok(ServiceResult::Done)
    }

    fn restart(&self) -> Result<ServiceResult> {
        let Some(existing) = definition::read(&self.file()) else { return Ok(ServiceResult::NotInstalled) };
        self.check_allowed("restart")?;
        self.refresh(&existing)?;
        if let Err(error) = self.run_systemctl(&["restart", &self.names.unit()]) {
            if self.scope == ServiceScope::User {
                self.linger().explain_if_off(self.output)?;
            }
            return Err(error);
        }
        self.output.line(&format!("✓ {} service restarted", self.scope.word()));
        Ok(ServiceResult::Done)
    }

    fn disable_autostart(&self) -> Result<()> {
        self.run_systemctl(&["disable", &self.names.unit()])?;
        self.output.line(&format!(
            "  It starts only with `{}hermes gateway start{}`",
            self.sudo(),
            self.flag()
        ));
        Ok(())
    }

    fn report(&self, width: ReportWidth) -> Result<ServiceResult> {
        let Some(existing) = definition::read(&self.file()) else { return Ok(ServiceResult::NotInstalled) };
        let (word, unit) = (self.scope.word(), self.names.unit());
        // Another user's account may be unknown here; then nothing is said about the definition.
        if self.desired_unit(Some(&existing)).is_ok_and(|wanted| !is_equivalent(&existing, &wanted)) {
            self.output.line(&format!(
                "⚠ The installed {} service definition is outdated; `{}hermes gateway restart{}` updates it",
                word.to_lowercase(),
                self.sudo(),
                self.flag()
            ));
        }
        if self.machine.control.find("systemctl").is_none() {
            self.output.line("⚠ A service is installed, but there is no systemd here");
            return Ok(ServiceResult::Done);
        }
        let mut arguments = vec!["status", &unit, "--no-pager"];
        arguments.extend((width == ReportWidth::Full).then_some("--full"));
        let native = self.machine.control.run("systemctl", &self.systemctl(&arguments))?;
        self.output.line(&native.text);
        self.output.line("");
        let active = self.machine.control.run("systemctl", &self.systemctl(&["is-active", &unit]))?;
        if active.code == 0 {
            self.output.line(&format!("✓ {word} gateway service is running"));
        } else {
            self.output.line(&format!("✗ {word} gateway service is stopped"));
            self.output.line(&format!("  {}hermes gateway start{}  starts it", self.sudo(), self.flag()));
        }
        match setting(&existing, "User") {
            Some(user) => self.output.line(&format!("  Runs as: {user}")),
            None => self.linger().report(self.output)?,
        }
        Ok(ServiceResult::Done)
    }

    /// Returns the home of the service; for a system service, that of its account.
    fn home(&self) -> Home {
        let existing = definition::read(&self.file());
        let account = existing.and_then(|text| self.account(Some(&text)).ok().flatten());
        Home::new(
            account.map_or_else(|| self.machine.home.clone(), |account| self.account_folders(&account).1),
        )
    }
}
