//! `hermes gateway`: the always-on service.

mod all;
mod attachments;
mod run;
mod servers;
pub(crate) mod service;
mod services;
pub(crate) mod setup;
mod shutdown;
mod spoken_answers;
mod status;
mod update;

pub(crate) use services::QUICK_COMMAND_LIMIT;
pub(crate) use status::health_lines;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{GatewayCommand, GatewayServiceArguments};
use crate::context::ProgramContext;
use crate::output::Console;

pub(crate) use services::ProgramServices;

pub(crate) fn run(
    command: Option<GatewayCommand>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    match command.unwrap_or_default() {
        GatewayCommand::Run(arguments) => run::run(arguments, context, output),
        GatewayCommand::Setup(arguments) => setup::run(&arguments, context, output),
        GatewayCommand::Install(arguments) => service::install_and_start(&arguments, context, output),
        GatewayCommand::Uninstall { system } => service::uninstall(system.into(), context, output),
        GatewayCommand::Start(GatewayServiceArguments { all: true, .. }) => all::start(context, output),
        GatewayCommand::Start(arguments) => service::start(arguments.system.into(), context, output),
        GatewayCommand::Restart(GatewayServiceArguments { all: true, .. }) => all::restart(context, output),
        GatewayCommand::Restart(arguments) => service::restart(arguments.system.into(), context, output),
        GatewayCommand::Status(arguments) => status::show(&arguments, context, output),
        GatewayCommand::List => all::list(context, output),
        GatewayCommand::Stop(GatewayServiceArguments { all: true, .. }) => all::stop(context, output),
        GatewayCommand::Stop(arguments) => service::stop(arguments.system.into(), context, output),
        GatewayCommand::Drain => Ok(status::drain(context, output)),
    }
}
