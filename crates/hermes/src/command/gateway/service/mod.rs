//! The gateway as a service of this machine: installed, started, stopped, looked at.
//!
//! Texts of definitions are made by `systemd/unit.rs` and `launchd/plist.rs`, which do nothing else; `control.rs` starts
//! programs. Invariant: only the service and the process of the home in force are touched.

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
use hermes_config::{Home, Management};

use self::launchd::Launchd;
use self::machine::{Kind, Machine};
use self::systemd::Systemd;
pub(crate) use self::systemd::unit::Scope;
use super::ending::{self, Ended, Patience};
use super::run;
use crate::context::Context;
use crate::output::Output;

/// What looks after the service of one home.
trait Supervisor {
    fn is_installed(&self) -> bool;
    fn install(&self, force: Force) -> Result<()>;
    fn uninstall(&self) -> Result<()>;
    fn start(&self) -> Result<Served>;
    fn stop(&self) -> Result<Served>;
    fn restart(&self) -> Result<Served>;
    /// Says how the service is.
    fn report(&self) -> Result<Served>;
    /// The home the service works in.
    fn home(&self) -> Home;
}

/// Whether there was a service to serve with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    Done,
    NotInstalled,
}

/// Whether a definition that is there already is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    Yes,
    No,
}

impl From<bool> for Force {
    fn from(flag: bool) -> Self {
        if flag { Self::Yes } else { Self::No }
    }
}

/// `--system` on the command line.
impl From<bool> for Scope {
    fn from(system: bool) -> Self {
        if system { Self::System } else { Self::User }
    }
}

pub(crate) fn install(
    force: Force,
    scope: Scope,
    run_as: Option<String>,
    context: &Context,
    output: &Output,
) -> Result<ExitCode> {
    Management::of(&context.home, &context.env).allow("install the gateway service")?;
    let machine = Machine::here(context)?;
    match machine.kind {
        Kind::Systemd => Systemd::to_install(&machine, &context.env, output, scope, run_as).install(force)?,
        _ => supported(&machine, scope, context, output)?.install(force)?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn uninstall(scope: Scope, context: &Context, output: &Output) -> Result<ExitCode> {
    Management::of(&context.home, &context.env).allow("uninstall the gateway service")?;
    let machine = Machine::here(context)?;
    supported(&machine, scope, context, output)?.uninstall()?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn start(scope: Scope, context: &Context, output: &Output) -> Result<ExitCode> {
    let machine = Machine::here(context)?;
    Ok(match supported(&machine, scope, context, output)?.start()? {
        Served::Done => ExitCode::SUCCESS,
        Served::NotInstalled => ExitCode::FAILURE,
    })
}

/// Stops the service, then a gateway of this home that somebody started by hand.
pub(crate) fn stop(scope: Scope, context: &Context, output: &Output) -> Result<ExitCode> {
    let machine = Machine::here(context)?;
    let (served, home) = match supervisor(&machine, scope, context, output) {
        Some(supervisor) => (supervisor.stop()?, supervisor.home()),
        // Where there are no services, there may be processes.
        None => (Served::NotInstalled, Home::at(context.home.path())),
    };
    match ending::end(&home, Patience::Long) {
        Ended::Stays(pid) => {
            output.error(&format!(
                "the gateway (PID {pid}) does not end; `kill -9 {pid}` ends it, nothing that was acknowledged is lost"
            ));
            return Ok(ExitCode::FAILURE);
        }
        Ended::Gone => output.line("✓ Stopped 1 gateway process(es)"),
        Ended::Nobody if served == Served::NotInstalled => output.line("✗ No gateway processes found"),
        Ended::Nobody => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Restarts the service. Without one, ends the process there is and runs another in the foreground.
pub(crate) fn restart(scope: Scope, context: &Context, output: &Output) -> Result<ExitCode> {
    let machine = Machine::here(context)?;
    if let Some(supervisor) = supervisor(&machine, scope, context, output)
        && supervisor.restart()? == Served::Done
    {
        return Ok(ExitCode::SUCCESS);
    }
    if scope == Scope::System {
        bail!("no system service is installed; `sudo hermes gateway install --system` installs it");
    }
    if let Ended::Stays(pid) = ending::end(&context.home, Patience::Short) {
        bail!("the gateway that is running (PID {pid}) does not end");
    }
    run::run(false, false, context, output)
}

pub(crate) fn is_installed(context: &Context, output: &Output) -> Result<bool> {
    let machine = Machine::here(context)?;
    Ok(supervisor(&machine, Scope::User, context, output).is_some_and(|supervisor| supervisor.is_installed()))
}

/// Says how the service is, and which home it works in.
pub(crate) fn report(scope: Scope, context: &Context, output: &Output) -> Result<(Served, Home)> {
    let machine = Machine::here(context)?;
    match supervisor(&machine, scope, context, output) {
        Some(supervisor) => Ok((supervisor.report()?, supervisor.home())),
        None => Ok((Served::NotInstalled, Home::at(context.home.path()))),
    }
}

/// Nothing where this system has no services we know.
fn supervisor<'a>(
    machine: &'a Machine,
    scope: Scope,
    context: &'a Context,
    output: &'a Output,
) -> Option<Box<dyn Supervisor + 'a>> {
    match machine.kind {
        Kind::Systemd => Some(Box::new(Systemd::installed(machine, &context.env, output, scope))),
        Kind::Launchd => Some(Box::new(Launchd::new(machine, &context.env, output))),
        Kind::Unsupported => None,
    }
}

fn supported<'a>(
    machine: &'a Machine,
    scope: Scope,
    context: &'a Context,
    output: &'a Output,
) -> Result<Box<dyn Supervisor + 'a>> {
    supervisor(machine, scope, context, output)
        .context("services are not supported on this system; let its own supervisor run `hermes gateway run`")
}
