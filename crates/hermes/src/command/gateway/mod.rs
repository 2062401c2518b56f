//! `hermes gateway`: the always-on service.

mod run;
pub(crate) mod service;
mod services;
pub(crate) mod setup;
mod shutdown;
mod status;
mod update;

pub(crate) use services::QUICK_COMMAND_LIMIT;
pub(crate) use status::health_lines;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::GatewayCommand;
use crate::context::ProgramContext;
use crate::output::Console;

pub(crate) use services::ProgramServices;

pub(crate) fn run(
    command: Option<GatewayCommand>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    match command.unwrap_or_default() {
        GatewayCommand::Run { verbose, replace } => run::run(verbose, replace, context, output),
        GatewayCommand::Setup(arguments) => setup::run(&arguments, context, output),
        GatewayCommand::Install { force, system, run_as_user } => {
            service::install(force.into(), system.into(), run_as_user, context, output)
        }
        GatewayCommand::Uninstall { system } => service::uninstall(system.into(), context, output),
        GatewayCommand::Start { system } => service::start(system.into(), context, output),
        GatewayCommand::Restart { system } => service::restart(system.into(), context, output),
        GatewayCommand::Status { deep, system } => status::show(deep, system.into(), context, output),
        GatewayCommand::Stop { system } => service::stop(system.into(), context, output),
        GatewayCommand::Drain => Ok(status::drain(context, output)),
    }
}
