//! `hermes checkpoints`: the space that snapshots of projects take, and their removal.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use hermes_tools::{CheckpointProject, CheckpointRetention, CheckpointStorage, OrphanedProjects};

use super::sessions::{day, megabytes};
use crate::cli::CheckpointsCommand;
use crate::context::{ProgramContext, now};
use crate::output::{Confirmation, Console};

const MEGABYTE: u64 = 1024 * 1024;
const DAY: u64 = 24 * 3600;

pub(crate) fn run(
    command: CheckpointsCommand,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    // Dates are shown in the configured time zone.
    let _ = context.config(output);
    let storage = CheckpointStorage::new(&context.home);
    match command {
        CheckpointsCommand::Status { limit } => status(&storage, limit, output),
        CheckpointsCommand::Prune { retention_days, max_size_mb, keep_orphans } => {
            let limits = CheckpointRetention {
                unused_for: Duration::from_secs(DAY * u64::from(retention_days)),
                max_bytes: max_size_mb.saturating_mul(MEGABYTE),
                orphans: if keep_orphans { OrphanedProjects::Keep } else { OrphanedProjects::Remove },
            };
            let removed = storage.clean_up(limits, now())?;
            for project in &removed {
                output.line(&format!("  removed {}", describe(project)));
            }
            let bytes = removed.iter().map(|project| project.bytes).sum();
            output.line(&format!("✓ {} projects removed, {} freed", removed.len(), megabytes(bytes)));
        }
        CheckpointsCommand::Clear { force } => {
            let projects = storage.projects();
            let question =
                format!("Delete all checkpoints of {} projects? /rollback has nothing then", projects.len());
            if projects.is_empty() {
                output.line("There are no checkpoints.");
            } else if is_agreed(force, &question, output) {
                output.line(&format!("✓ Checkpoints of {} projects deleted", storage.clear()?));
            }
        }
        CheckpointsCommand::ClearLegacy { force } => {
            let archives = storage.legacy_archives();
            if archives.is_empty() {
                output.line("There are no archives of an older format.");
            } else if is_agreed(force, &format!("Delete {} archives?", archives.len()), output) {
                output.line(&format!("✓ {} archives deleted", storage.clear_legacy()?));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_agreed(force: bool, question: &str, output: &Console) -> bool {
    if force {
        return true;
    }
    match output.confirm(question) {
        Confirmation::Yes => return true,
        Confirmation::No => output.line("Cancelled."),
        Confirmation::NotInteractive => {
            output.line("Cancelled: no terminal to confirm on. Use -f to skip the confirmation.");
        }
    }
    false
}

fn status(storage: &CheckpointStorage, limit: usize, output: &Console) {
    let projects = storage.projects();
    let total = projects.iter().map(|project| project.bytes).sum();
    output.line(&format!("{}: {} projects, {}", storage.path().display(), projects.len(), megabytes(total)));
    for project in projects.iter().take(limit) {
        output.line(&format!("  {}", describe(project)));
    }
    if projects.len() > limit {
        output.line(&format!("  … and {} more; --limit shows them", projects.len() - limit));
    }
    for (folder, bytes) in storage.legacy_archives() {
        output.line(&format!(
            "  {} of an older format, {}: `hermes checkpoints clear-legacy` removes it",
            folder.display(),
            megabytes(bytes)
        ));
    }
}

fn describe(project: &CheckpointProject) -> String {
    let folder =
        project.project.as_ref().map_or_else(|| "unknown".to_owned(), |path| path.display().to_string());
    let gone = if project.is_orphan() { " (gone)" } else { "" };
    let newest = project.newest.map_or_else(|| "—".to_owned(), day);
    format!(
        "{:>10}  {:>4} checkpoints  {newest}  {folder}{gone}",
        megabytes(project.bytes),
        project.snapshots
    )
}
