//! `hermes uninstall`: removes the service and the program, and the home if that is wanted.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_gateway::process;

use super::gateway::service::{self, ServiceScope};
use crate::cli::UninstallArguments;
use crate::context::ProgramContext;
use crate::output::Console;

pub(crate) fn run(
    arguments: &UninstallArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let home = context.home.path();
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let mut full = arguments.full;
    if !arguments.yes {
        if !output.can_ask() {
            bail!("no terminal to ask on; `hermes uninstall -y` keeps the home, `--full -y` removes it too");
        }
        if !full {
            let rows = ["Keep the home (sessions, memory, settings)", "Remove everything", "Cancel"];
            let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
            match output.choose("Uninstall Hermes?", &rows, 2) {
                Some(0) => {}
                Some(1) => full = true,
                _ => {
                    output.line("Cancelled.");
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
        let what = if full { format!(" and {}", home.display()) } else { String::new() };
        let answer = output.ask(&format!("This removes {}{what}. Type yes to go on: ", program.display()));
        if answer.as_deref().map(str::trim) != Some("yes") {
            output.line("Cancelled.");
            return Ok(ExitCode::SUCCESS);
        }
    }
    let has_service = service::is_installed(context, output)?;
    if process::running_pid(&context.home).is_some() {
        bail!("the gateway is running; `hermes gateway stop`, then again");
    }
    if has_service {
        service::uninstall(ServiceScope::User, context, output)?;
    }
    if full {
        fs::remove_dir_all(home).with_context(|| format!("cannot remove {}", home.display()))?;
        output.line(&format!("✓ Removed {}", home.display()));
    } else {
        output.line(&format!("Kept {}", home.display()));
    }
    fs::remove_file(&program).with_context(|| format!("cannot remove {}", program.display()))?;
    output.line(&format!("✓ Removed {}", program.display()));
    Ok(ExitCode::SUCCESS)
}
