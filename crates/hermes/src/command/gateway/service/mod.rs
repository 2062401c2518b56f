//! The gateway as a service of this machine: install, start, stop, status.
//!
//! `systemd/unit.rs` and `launchd/plist.rs` produce the definition texts and do nothing else; `control.rs` runs
//! programs. Invariant: only the service and the process of the active home are touched.

mod account;
mod control;
mod definition;
mod launchd;
mod machine;
mod names;
mod search_path;
mod systemd;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_config::{Home, ManagedMode};

pub(crate) use self::control::ServiceControl;
use self::launchd::Launchd;
use self::machine::{ServiceMachine, ServiceManagerKind};
use self::systemd::Systemd;
pub(crate) use self::systemd::unit::ServiceScope;
use super::run;
use super::shutdown::{self, StopResult, StopTimeout};
use crate::cli::{GatewayInstallArguments, GatewayRunArguments};
use crate::context::ProgramContext;
use crate::output::Console;

/// Manages the service of one home.
trait Supervisor {
    fn is_installed(&self) -> bool;
    fn install(&self, force: ForceInstall) -> Result<()>;
    fn uninstall(&self) -> Result<()>;
    fn start(&self) -> Result<ServiceResult>;
    fn stop(&self) -> Result<ServiceResult>;
    fn restart(&self) -> Result<ServiceResult>;
    /// Lets the service start only when it is told to.
    fn disable_autostart(&self) -> Result<()>;
    /// Prints the state of the service.
    fn report(&self, width: ReportWidth) -> Result<ServiceResult>;
    /// Returns the home the service works in.
    fn home(&self) -> Home;
}

/// Says whether there was a service to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceResult {
    Done,
    NotInstalled,
}

/// Says whether an existing definition is overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForceInstall {
    Yes,
    No,
}

/// Says whether the service manager shortens long lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportWidth {
    Terminal,
    Full,
}

impl From<bool> for ForceInstall {
    fn from(flag: bool) -> Self {
        if flag { Self::Yes } else { Self::No }
    }
}

/// Converts `--system` of the command line.
impl From<bool> for ServiceScope {
    fn from(system: bool) -> Self {
        if system { Self::System } else { Self::User }
    }
}

pub(crate) fn install(
    force: ForceInstall,
    scope: ServiceScope,
    run_as: Option<String>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    ManagedMode::detect(&context.home, &context.env).check_allowed("install the gateway service")?;
    let machine = ServiceMachine::current(context)?;
    match machine.kind {
        ServiceManagerKind::Systemd => {
            Systemd::to_install(&machine, &context.env, output, scope, run_as).install(force)?;
        }
        _ => require_supervisor(&machine, scope, context, output)?.install(force)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs the service as the command line asks for.
pub(crate) fn install_and_start(
    arguments: &GatewayInstallArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let GatewayInstallArguments { force, system, run_as_user, start_now, no_start_on_login, .. } = arguments;
    let scope = ServiceScope::from(*system);
    let machine = ServiceMachine::current(context)?;
    if *no_start_on_login && machine.kind == ServiceManagerKind::Launchd {
        bail!("launchd starts every installed agent at login; leave --no-start-on-login out");
    }
    install((*force).into(), scope, run_as_user.clone(), context, output)?;
    if *no_start_on_login {
        require_supervisor(&machine, scope, context, output)?.disable_autostart()?;
    }
    if *start_now { start(scope, context, output) } else { Ok(ExitCode::SUCCESS) }
}

pub(crate) fn uninstall(scope: ServiceScope, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    ManagedMode::detect(&context.home, &context.env).check_allowed("uninstall the gateway service")?;
    let machine = ServiceMachine::current(context)?;
    require_supervisor(&machine, scope, context, output)?.uninstall()?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn start(scope: ServiceScope, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let machine = ServiceMachine::current(context)?;
    Ok(match require_supervisor(&machine, scope, context, output)?.start()? {
        ServiceResult::Done => ExitCode::SUCCESS,
        ServiceResult::NotInstalled => ExitCode::FAILURE,
    })
}

/// Stops the service, then a gateway of this home that was started by hand.
pub(crate) fn stop(scope: ServiceScope, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let machine = ServiceMachine::current(context)?;
    let (served, home) = match supervisor(&machine, scope, context, output) {
        Some(supervisor) => (supervisor.stop()?, supervisor.home()),
        // A system without a service manager may still run gateway processes.
        None => (ServiceResult::NotInstalled, Home::new(context.home.path())),
    };
    match shutdown::stop_gateway(&home, StopTimeout::Long) {
        StopResult::StillRunning(pid) => {
            output.error(&format!(
                "the gateway (PID {pid}) does not end; `kill -9 {pid}` ends it, nothing that was acknowledged is lost"
            ));
            return Ok(ExitCode::FAILURE);
        }
        StopResult::Stopped => output.line("✓ Stopped 1 gateway process(es)"),
        StopResult::NotRunning if served == ServiceResult::NotInstalled => {
            output.line("✗ No gateway processes found");
        }
        StopResult::NotRunning => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Restarts the service. Without one, ends the running process and starts another in the foreground.
pub(crate) fn restart(scope: ServiceScope, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let machine = ServiceMachine::current(context)?;
    if let Some(supervisor) = supervisor(&machine, scope, context, output)
        && supervisor.restart()? == ServiceResult::Done
    {
        return Ok(ExitCode::SUCCESS);
    }
    if scope == ServiceScope::System {
        bail!("no system service is installed; `sudo hermes gateway install --system` installs it");
    }
    if let StopResult::StillRunning(pid) = shutdown::stop_gateway(&context.home, StopTimeout::Short) {
        bail!("the gateway that is running (PID {pid}) does not end");
    }
    run::run(GatewayRunArguments::default(), context, output)
}

pub(crate) fn is_installed(context: &ProgramContext, output: &Console) -> Result<bool> {
    let machine = ServiceMachine::current(context)?;
    Ok(supervisor(&machine, ServiceScope::User, context, output)
        .is_some_and(|supervisor| supervisor.is_installed()))
}

/// Prints the state of the service, and returns the home it works in.
pub(crate) fn report(
    scope: ServiceScope,
    width: ReportWidth,
    context: &ProgramContext,
    output: &Console,
) -> Result<(ServiceResult, Home)> {
    let machine = ServiceMachine::current(context)?;
    match supervisor(&machine, scope, context, output) {
        Some(supervisor) => Ok((supervisor.report(width)?, supervisor.home())),
        None => Ok((ServiceResult::NotInstalled, Home::new(context.home.path()))),
    }
}

/// Returns the supervisor; `None` where this system has no supported service manager.
fn supervisor<'a>(
    machine: &'a ServiceMachine,
    scope: ServiceScope,
    context: &'a ProgramContext,
    output: &'a Console,
) -> Option<Box<dyn Supervisor + 'a>> {
    match machine.kind {
        ServiceManagerKind::Systemd => {
            Some(Box::new(Systemd::installed(machine, &context.env, output, scope)))
        }
        ServiceManagerKind::Launchd => Some(Box::new(Launchd::new(machine, &context.env, output))),
        ServiceManagerKind::Unsupported => None,
    }
}

fn require_supervisor<'a>(
    machine: &'a ServiceMachine,
    scope: ServiceScope,
    context: &'a ProgramContext,
    output: &'a Console,
) -> Result<Box<dyn Supervisor + 'a>> {
    supervisor(machine, scope, context, output)
        .context("services are not supported on this system; let its own supervisor run `hermes gateway run`")
}
