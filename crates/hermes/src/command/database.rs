//! `hermes db`: checks the database, copies it, and recovers a damaged one.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_store::{Error, IndexHealth, RepairOutcome, repair};

use crate::cli::DbCommand;
use crate::context::ProgramContext;
use crate::output::Console;

pub(crate) fn run(command: DbCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    match command {
        DbCommand::Check => check(context, output),
        DbCommand::Backup { file } => {
            if hermes_config::write::is_special(&file)? {
                bail!("{} is not a file; name one for the copy", file.display());
            }
            let target = hermes_config::write::follow_links(&file)?;
            context.store(output)?.back_up(&target)?;
            output.line(&format!("Copied {} to {}", context.database().display(), file.display()));
            Ok(ExitCode::SUCCESS)
        }
        DbCommand::Repair => rescue(context, output),
    }
}

fn check(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let store = context.store(output)?;
    let found = store.check().wait()?;
    output.line(&format!("{}: schema version {}", context.database().display(), found.version.unwrap_or(0)));
    for problem in &found.problems {
        output.line(&format!("  damaged: {problem}"));
    }
    if found.dangling_rows > 0 {
        output.line(&format!("  {} rows refer to rows that are not there", found.dangling_rows));
    }
    match &found.index {
        IndexHealth::Sound => output.line("  search index: sound"),
        IndexHealth::Rebuilding { done, of } => {
            output.line(&format!("  search index: being rebuilt, {done} of {of} done"));
        }
        IndexHealth::Damaged(detail) => output.line(&format!("  search index: damaged ({detail})")),
        IndexHealth::Missing => output.line("  search index: missing"),
    }
    if matches!(found.index, IndexHealth::Damaged(_) | IndexHealth::Missing) {
        store.rebuild_index();
        output.line("  the index is being rebuilt; nothing else is affected");
    }
    store.close().wait()?;
    if found.problems.is_empty() && found.dangling_rows == 0 {
        output.line("The database is sound.");
        return Ok(ExitCode::SUCCESS);
    }
    output.line("Stop every running Hermes, then run `hermes db repair`.");
    Ok(ExitCode::FAILURE)
}

fn rescue(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let path = context.database();
    let report = match repair(&path) {
        // The store's own message would suggest the recovery that was just tried.
        Err(Error::Damaged { detail, .. }) => bail!(
            "nothing in {} can be read ({detail}). It was left as it is; move it away, and Hermes begins a new one",
            path.display()
        ),
        Ok(RepairOutcome::Sound) => {
            output.line(&format!("{} is sound; nothing was changed.", path.display()));
            return Ok(ExitCode::SUCCESS);
        }
        Ok(RepairOutcome::Repaired(report)) => report,
        Err(error) => return Err(error.into()),
    };
    output.line(&format!("Rescued {} sessions and {} messages.", report.sessions, report.messages));
    if report.restored_sessions > 0 {
        output
            .line(&format!("{} sessions were recreated for messages without one.", report.restored_sessions));
    }
    if report.unreadable > 0 {
        output.line(&format!("{} places could not be read.", report.unreadable));
    }
    output.line(&format!("The file as it was is kept as {}", report.damaged_copy.display()));
    Ok(ExitCode::SUCCESS)
}
