//! `hermes claw migrate`: takes over what an OpenClaw installation has.
//!
//! A plan is made first, by reading only; it is shown, and carried out after a confirmation. Invariant: the folder of
//! OpenClaw is not changed, what exists here is replaced only if that was asked for, and keys are taken over only if that
//! was asked for.

mod plan;
mod settings;
mod source;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_config::{ManagedMode, user_home, write};
use hermes_gateway::process;
use serde_json::json;

use super::backup::{self, ArchiveScope};
use crate::cli::MigrateClawArguments;
use crate::context::{ProgramContext, local_time, now};
use crate::output::{Confirmation, Console};
use plan::{ImportItem, ImportPlan, ImportState};
use source::OpenClaw;

/// The folders in which OpenClaw keeps its data, by release.
const FOLDERS: [&str; 3] = [".openclaw", ".clawdbot", ".moltbot"];

pub(crate) fn run(
    arguments: &MigrateClawArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let folder = folder(arguments, context)?;
    let claw = OpenClaw::read(&folder)?;
    for warning in &claw.warnings {
        output.notice(&format!("⚠ {warning}"));
    }
    let mut plan = ImportPlan::make(&claw, arguments, context)?;
    output.line(&format!("From {} to {}", folder.display(), context.home.path().display()));
    print(&plan, output);
    if arguments.dry_run {
        output.line("\nNothing was changed.");
        return Ok(ExitCode::SUCCESS);
    }
    if !plan.items.iter().any(ImportItem::is_to_be_done) {
        output.line("\nThere is nothing to take over.");
        return Ok(ExitCode::SUCCESS);
    }
    ManagedMode::detect(&context.home, &context.env).check_allowed("import settings")?;
    if process::running_pid(&context.home).is_some() {
        bail!("the gateway is running; stop it first: hermes gateway stop");
    }
    if !arguments.yes {
        match output.confirm("\nTake this over?") {
            Confirmation::Yes => {}
            Confirmation::No => {
                output.line("Cancelled; nothing was changed.");
                return Ok(ExitCode::SUCCESS);
            }
            Confirmation::NotInteractive => {
                output.error("no terminal to confirm on; -y skips the confirmation. Nothing was changed");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    let date = local_time(now()).to_string().replace([':', '-'], "").replace('T', "-");
    context.home.ensure()?;
    if !arguments.no_backup {
        let file = context.home.folder("backups")?.join(format!("pre-migration-{date}.zip"));
        backup::write_archive(&context.home, &file, ArchiveScope::Quick)?;
        output.line(&format!("✓ The home as it was is in {}", file.display()));
    }
    context.home.folder("migration")?;
    let report = context.home.folder("migration/openclaw")?.join(&date);
    fs::create_dir_all(report.join("archive"))?;
    plan.carry_out(&report.join("archive"), context);
    write_report(&plan, &report)?;
    summarize(&plan, output);
    output.line(&format!("The report is in {}", report.display()));
    let failed = plan.items.iter().any(|item| matches!(item.state, ImportState::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Tells whether there is an installation to take over from.
pub(crate) fn is_present(context: &ProgramContext) -> bool {
    folder(&MigrateClawArguments::default(), context).is_ok()
}

fn folder(arguments: &MigrateClawArguments, context: &ProgramContext) -> Result<PathBuf> {
    if let Some(folder) = &arguments.source {
        if !folder.is_dir() {
            bail!("OpenClaw directory not found: {}", folder.display());
        }
        return Ok(folder.canonicalize()?);
    }
    let user_home = user_home(&context.env)?;
    let found = FOLDERS.iter().map(|name| user_home.join(name)).find(|folder| folder.is_dir());
    found.with_context(|| format!("OpenClaw directory not found: {}", user_home.join(FOLDERS[0]).display()))
}

fn print(plan: &ImportPlan, output: &Console) {
    for item in &plan.items {
        let (mark, note) = match &item.state {
            ImportState::Planned => ("+", String::new()),
            ImportState::Archived => ("→", " (kept for you to read; Hermes has nothing like it)".to_owned()),
            ImportState::Done => ("✓", String::new()),
            ImportState::Conflict => ("!", " (exists; --overwrite replaces it)".to_owned()),
            ImportState::Skipped(why) => ("-", format!(" ({why})")),
            ImportState::Failed(why) => ("✗", format!(" ({why})")),
        };
        output.line(&format!("  {mark} {:<20} {} → {}{note}", item.kind, item.from, item.to));
    }
}

fn summarize(plan: &ImportPlan, output: &Console) {
    let count = |is: fn(&ImportState) -> bool| plan.items.iter().filter(|item| is(&item.state)).count();
    output.line(&format!(
        "\n✓ {} migrated, {} archived, {} conflicts, {} skipped, {} errors",
        count(|state| *state == ImportState::Done),
        count(|state| *state == ImportState::Archived),
        count(|state| *state == ImportState::Conflict),
        count(|state| matches!(state, ImportState::Skipped(_))),
        count(|state| matches!(state, ImportState::Failed(_))),
    ));
    for item in &plan.items {
        if let ImportState::Failed(why) = &item.state {
            output.error(&format!("{}: {why}", item.kind));
        }
    }
}

fn write_report(plan: &ImportPlan, folder: &std::path::Path) -> Result<()> {
    let rows: Vec<_> = plan
        .items
        .iter()
        .map(|item| {
            let (state, why) = item.state.describe();
            json!({"kind": item.kind, "from": item.from, "to": item.to, "state": state, "reason": why})
        })
        .collect();
    let text = serde_json::to_string_pretty(&json!({"items": rows}))?;
    Ok(write::replace(&folder.join("report.json"), text.as_bytes())?)
}
