//! The gateways of all profiles.

use std::process::ExitCode;

use anyhow::Result;
use hermes_gateway::process;
use rustix::process::Signal;

use super::service::{self, ServiceScope};
use crate::command::profile::{ProfileHome, profile_homes};
use crate::context::ProgramContext;
use crate::output::Console;

pub(super) fn list(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    output.line(&format!("  {:<20} {:<12} {:<14} Home", "Profile", "Gateway", "Service"));
    for profile in profile_homes(context)? {
        let own = profile.context(context);
        let mark = if own.home.path() == context.home.path() { "◆" } else { " " };
        let running = process::running_pid(&own.home).map(|pid| format!("PID {pid}"));
        let installed = service::is_installed(&own, output)?;
        output.line(&format!(
            "{mark} {:<20} {:<12} {:<14} {}",
            profile.name,
            running.as_deref().unwrap_or("stopped"),
            if installed { "installed" } else { "—" },
            own.home.path().display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the services that are installed.
pub(super) fn start(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    for_each(context, output, |own| {
        if !service::is_installed(own, output)? {
            output.line("  no service is installed");
            return Ok(());
        }
        service::start(ServiceScope::User, own, output).map(drop)
    })
}

pub(super) fn stop(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    for_each(context, output, |own| service::stop(ServiceScope::User, own, output).map(drop))
}

/// Restarts the services, and what runs without one: such a gateway takes its own place.
pub(super) fn restart(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    for_each(context, output, |own| {
        if service::is_installed(own, output)? {
            return service::restart(ServiceScope::User, own, output).map(drop);
        }
        match process::signal_running(&own.home, Signal::USR2) {
            Some(pid) => output.line(&format!("✓ The gateway (PID {pid}) restarts")),
            None => output.line("✗ Gateway is not running"),
        }
        Ok(())
    })
}

/// Does the same in each profile. A failure is reported, and the others are not affected.
fn for_each(
    context: &ProgramContext,
    output: &Console,
    mut act: impl FnMut(&ProgramContext) -> Result<()>,
) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for profile in profile_homes(context)? {
        let ProfileHome { name, .. } = &profile;
        output.line(&format!("{name}:"));
        if let Err(error) = act(&profile.context(context)) {
            output.error(&format!("{name}: {error:#}"));
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
