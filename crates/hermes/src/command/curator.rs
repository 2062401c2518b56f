//! `hermes curator` and `/curator`: what happens to skills that are not used, and copies of all skills.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use hermes_config::Config;
use hermes_knowledge::{
    CuratorMode, CuratorReport, CuratorSettings, all_skill_usage, archive_skill, archived_skills,
    back_up_skills, curator_state, pause_curator, pin_skill, prune_skills, restore_skill, roll_back_skills,
    run_curator, run_curator_if_due, skill_backups,
};

use crate::cli::CuratorCommand;
use crate::command::table::table;
use crate::context::{ProgramContext, now};
use crate::output::{Confirmation, Console};

#[derive(Debug, Parser)]
#[command(name = "/curator", disable_help_subcommand = true)]
struct CuratorLine {
    #[command(subcommand)]
    command: Option<CuratorCommand>,
}

pub(crate) fn run(command: CuratorCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    context.config(output);
    let question = match &command {
        CuratorCommand::Prune { days, dry_run: false, yes: false } => {
            Some(format!("Archive all skills of the agent that were not used for {days} days?"))
        }
        CuratorCommand::Rollback { list: false, yes: false, .. } => {
            Some("Put the skills back as they are in the copy? The present state is copied first.".to_owned())
        }
        _ => None,
    };
    if let Some(question) = question {
        match output.confirm(&question) {
            Confirmation::Yes => {}
            Confirmation::No => return Ok(ExitCode::SUCCESS),
            Confirmation::NotInteractive => {
                output.error("nobody can be asked; --yes goes on without asking. Nothing was changed");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    output.line(answer(command, context)?.trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Runs a line of a chat, and returns its answer. Nothing is asked there.
pub(crate) fn run_line(line: &str, context: &ProgramContext) -> String {
    let Some(words) = hermes_text::split_words(line) else { return "A quote is not closed.".to_owned() };
    match CuratorLine::try_parse_from(std::iter::once("/curator".to_owned()).chain(words)) {
        Ok(CuratorLine { command }) => {
            answer(command.unwrap_or_default(), context).unwrap_or_else(|error| format!("⚠️ {error:#}"))
        }
        Err(error) => error.to_string(),
    }
}

/// Runs the curator when it is due. A failure is logged.
pub(crate) fn run_if_due(context: &ProgramContext) {
    let settings = CuratorSettings::from_config(&Config::load(&context.home, &context.env));
    match run_curator_if_due(&context.home, &settings, now()) {
        Ok(Some(report)) => {
            tracing::info!(archived = ?report.archived, "the curator ran: {}", report.summary());
        }
        Ok(None) => {}
        Err(error) => tracing::info!(%error, "the curator did not run"),
    }
}

fn answer(command: CuratorCommand, context: &ProgramContext) -> Result<String> {
    let home = &context.home;
    let settings = CuratorSettings::from_config(&Config::load(home, &context.env));
    Ok(match command {
        CuratorCommand::Status => status(context, &settings)?,
        CuratorCommand::Usage => usage(context),
        CuratorCommand::Run { dry_run } => {
            let mode = if dry_run { CuratorMode::Preview } else { CuratorMode::Act };
            describe(&run_curator(home, &settings, mode, now())?, mode)
        }
        CuratorCommand::Pause => {
            pause_curator(home, true)?;
            "The curator does not run by itself until `hermes curator resume`.".to_owned()
        }
        CuratorCommand::Resume => {
            pause_curator(home, false)?;
            "The curator runs by itself again.".to_owned()
        }
        CuratorCommand::Pin { name } => {
            pin_skill(home, &name, true)?;
            format!("Pinned: {name} is never put away.")
        }
        CuratorCommand::Unpin { name } => {
            pin_skill(home, &name, false)?;
            format!("Unpinned: {name}.")
        }
        CuratorCommand::Archive { name } => {
            let place = archive_skill(home, &name, now())?;
            format!("Moved to {}. `hermes curator restore {name}` brings it back.", place.display())
        }
        CuratorCommand::Restore { name } => {
            format!("Restored: {}", restore_skill(home, &name)?.display())
        }
        CuratorCommand::ListArchived => list_archived(context),
        CuratorCommand::Prune { days, dry_run, .. } => {
            let mode = if dry_run { CuratorMode::Preview } else { CuratorMode::Act };
            describe(&prune_skills(home, days, mode, now())?, mode)
        }
        CuratorCommand::Backup { reason } => {
            let backup = back_up_skills(home, &reason, now())?;
            format!("Copied {} skills: {}", backup.skills.len(), backup.id)
        }
        CuratorCommand::Rollback { list: true, .. } => list_backups(context),
        CuratorCommand::Rollback { id, .. } => {
            let backup = roll_back_skills(home, id.as_deref(), now())?;
            format!("The {} skills of the copy {} are back.", backup.skills.len(), backup.id)
        }
    })
}

fn status(context: &ProgramContext, settings: &CuratorSettings) -> Result<String> {
    let state = curator_state(&context.home);
    let preview = run_curator(&context.home, settings, CuratorMode::Preview, now())?;
    let mut text = String::new();
    let runs = match (settings.enabled, state.paused) {
        (false, _) => "off (`curator.enabled` in config.yaml)".to_owned(),
        (true, true) => "paused (`hermes curator resume`)".to_owned(),
        (true, false) => format!("every {} h", settings.interval.as_secs() / 3600),
    };
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "Curator: {runs}");
    let last = state.last_summary.map(|summary| format!(": {summary}")).unwrap_or_default();
    match state.last_run {
        Some(at) if state.runs > 0 => drop(writeln!(text, "Last run: {at}{last}")),
        Some(at) => drop(writeln!(text, "It has not run yet; the time counts from {at}.")),
        None => drop(writeln!(text, "It has not run yet.")),
    }
    let pinned: Vec<String> = all_skill_usage(&context.home)
        .into_iter()
        .filter(|(_, usage)| usage.pinned)
        .map(|(name, _)| name)
        .collect();
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let _ = writeln!(text, "Not used for {} days: {}", settings.stale_days, list(&preview.stale));
    let _ =
        writeln!(text, "To be archived (after {} days): {}", settings.archive_days, list(&preview.archived));
    let _ = writeln!(text, "Pinned: {}", list(&pinned));
    let _ = writeln!(text, "Archived: {}", archived_skills(&context.home).len());
    Ok(text)
}

fn usage(context: &ProgramContext) -> String {
    let rows: Vec<Vec<String>> = all_skill_usage(&context.home)
        .into_iter()
        .map(|(name, usage)| {
            let last = usage.last_activity().unwrap_or_default().to_owned();
            let by = usage.created_by.clone().unwrap_or_default();
            let pinned = if usage.pinned { "yes" } else { "" };
            vec![
                name,
                usage.use_count.to_string(),
                usage.success_count.to_string(),
                usage.patch_count.to_string(),
                last,
                by,
                pinned.to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "No skill was used yet.".to_owned();
    }
    let header = ["Name", "Uses", "Successes", "Changes", "Last", "By", "Pinned"];
    table(&header, &[40, 6, 9, 8, 25, 8, 6], &rows)
}

fn list_archived(context: &ProgramContext) -> String {
    let archived = archived_skills(&context.home);
    if archived.is_empty() {
        return "No skill is archived.".to_owned();
    }
    let line = |skill: &hermes_knowledge::ArchivedSkill| match &skill.at {
        Some(at) => format!("{}  ({at})", skill.name),
        None => skill.name.clone(),
    };
    let lines: Vec<String> = archived.iter().map(line).collect();
    format!("{}\n\nTo bring one back: hermes curator restore NAME", lines.join("\n"))
}

fn list_backups(context: &ProgramContext) -> String {
    let backups = skill_backups(&context.home);
    if backups.is_empty() {
        return "There is no copy of the skills. `hermes curator backup` makes one.".to_owned();
    }
    let line = |backup: &hermes_knowledge::SkillBackup| {
        format!("{}  {} skills  {}", backup.id, backup.skills.len(), backup.reason)
    };
    backups.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn describe(report: &CuratorReport, mode: CuratorMode) -> String {
    let mut lines = Vec::new();
    let word = if mode == CuratorMode::Preview { "Would archive" } else { "Archived" };
    lines.extend(report.archived.iter().map(|name| format!("{word}: {name}")));
    lines.extend(report.stale.iter().map(|name| format!("Not used for long: {name}")));
    lines.extend(report.failed.iter().map(|(name, error)| format!("Not archived: {name}: {error}")));
    if lines.is_empty() {
        return "Nothing to do: the agent's skills are in use, pinned, or recent.".to_owned();
    }
    lines.join("\n")
}
