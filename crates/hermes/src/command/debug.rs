//! `hermes debug`: a report for support, as a file. Nothing is uploaded.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use hermes_config::write;

use super::dump;
use crate::cli::DebugCommand;
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;

pub(crate) fn run(command: DebugCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let DebugCommand::Share { lines, output: file, local } = command;
    let report = dump::report(context, lines);
    if local {
        output.text(&report);
        return Ok(ExitCode::SUCCESS);
    }
    let date = local_time(now()).to_string().replace([':', '-'], "").replace('T', "-");
    let file = file.unwrap_or_else(|| PathBuf::from(format!("hermes-debug-{date}.md")));
    write::write_output(&file, report.as_bytes())?;
    let shown = file.canonicalize().unwrap_or_else(|_| Path::new(&file).to_owned());
    output.line(&format!("✓ Report written to {}", shown.display()));
    output.line("  It has no keys and no conversations. Read it before you pass it on.");
    Ok(ExitCode::SUCCESS)
}
