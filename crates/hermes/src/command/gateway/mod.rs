//! `hermes gateway`: the always-on half of the program.

mod run;
mod services;
mod status;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::GatewayCommand;
use crate::context::Context;
use crate::output::Output;

pub(crate) fn run(command: Option<GatewayCommand>, context: &Context, output: &Output) -> Result<ExitCode> {
    match command.unwrap_or_default() {
        GatewayCommand::Run { verbose, replace } => run::run(verbose, replace, context, output),
        GatewayCommand::Status { deep, system: _ } => status::show(deep, context, output),
        GatewayCommand::Stop => status::stop(context, output),
        GatewayCommand::Drain => status::drain(context, output),
    }
}
