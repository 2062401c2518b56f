//! `hermes sessions`: lists, exports, archives, renames and deletes stored sessions.

mod export;
mod filters;
mod list;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_gateway::process;
use hermes_schedule::Zone;
use hermes_store::{
    ArchiveChange, ArchivedSessions, CoveredStates, Error, RemovalOutcome, SearchScope, SessionCriteria,
    SessionFilter, Store,
};
use hermes_text::{SearchQuery, Title};
use hermes_types::SessionId;

use crate::cli::{ChatArguments, DbCommand, SessionFilterArguments, SessionsCommand};
use crate::command;
use crate::context::ProgramContext;
use crate::output::{Confirmation, Console};
pub(crate) use list::day;
use list::format_age;

pub(crate) use list::{age, recent};

/// The sources the summary always names, in this order.
const SOURCES: [&str; 5] = ["cli", "telegram", "discord", "whatsapp", "slack"];
/// The age, in days, from which on sessions are deleted if nothing else is asked for.
const USUAL_AGE: &str = "90";

pub(crate) fn run(command: SessionsCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    // Dates are shown in the configured time zone.
    let _ = context.config(output);
    match command {
        SessionsCommand::Optimize => return optimize(context, output).map(|()| ExitCode::SUCCESS),
        SessionsCommand::Repair => return command::database::run(DbCommand::Repair, context, output),
        _ => {}
    }
    let store = context.store(output)?;
    match command {
        SessionsCommand::List { source, workspace, limit } => {
            list::list(&store, SessionFilter { source, workspace }, limit, output)?;
        }
        SessionsCommand::Browse { source, limit } => {
            let filter = SessionFilter { source, ..SessionFilter::default() };
            let chosen = list::browse(&store, filter, limit, context, output)?;
            store.close().wait()?;
            let Some(id) = chosen else { return Ok(ExitCode::SUCCESS) };
            let arguments =
                ChatArguments { resume: Some(id.as_str().to_owned()), ..ChatArguments::default() };
            return command::chat::run(&arguments, context, output);
        }
        SessionsCommand::Search { words, limit } => search(&store, &words.join(" "), limit, output)?,
        SessionsCommand::Export(arguments) => {
            let removed = export::run(&store, &arguments, zone(context, output), context, output)?;
            for id in removed {
                remove_logs(context, &id);
            }
        }
        SessionsCommand::Delete { id, yes } => delete(&store, &id, Consent::from_flag(yes), context, output)?,
        SessionsCommand::Prune { filters, include_archived, dry_run, yes } => {
            let archived =
                if include_archived { ArchivedSessions::Include } else { ArchivedSessions::Exclude };
            prune(&store, &filters, archived, Step::from_flags(dry_run, yes), context, output)?;
        }
        SessionsCommand::Archive { ids, filters, restore, dry_run, yes } => {
            let change = if restore { ArchiveChange::Restore } else { ArchiveChange::Archive };
            // Naming sessions one by one is consent enough: archiving loses nothing.
            let step = Step::from_flags(dry_run, yes || filters.is_empty());
            archive(&store, &ids, &filters, change, step, context, output)?;
        }
        SessionsCommand::Rename { id, title } => rename(&store, &id, &title.join(" "), output)?,
        SessionsCommand::Stats => stats(&store, output)?,
        SessionsCommand::Optimize | SessionsCommand::Repair => {}
    }
    store.close().wait().or_else(|error| if matches!(error, Error::Closed) { Ok(()) } else { Err(error) })?;
    Ok(ExitCode::SUCCESS)
}

/// Says whether the user has already agreed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consent {
    Given,
    AskFirst,
}

impl Consent {
    fn from_flag(yes: bool) -> Self {
        if yes { Self::Given } else { Self::AskFirst }
    }

    fn obtain(self, question: &str, output: &Console) -> bool {
        if self == Self::Given {
            return true;
        }
        match output.confirm(question) {
            Confirmation::Yes => true,
            Confirmation::No => {
                output.line("Cancelled.");
                false
            }
            Confirmation::NotInteractive => {
                output.line("Cancelled: no terminal to confirm on. Use -y to skip the confirmation.");
                false
            }
        }
    }
}

fn search(store: &Store, words: &str, limit: usize, output: &Console) -> Result<()> {
    let Some(query) = SearchQuery::sanitise(words) else {
        output.line("Nothing to search for.");
        return Ok(());
    };
    let within = SearchScope { exclude_sources: vec!["tool".to_owned()], limit, ..SearchScope::default() };
    let found = store.search(query, within).wait()?;
    if found.hits.is_empty() {
        output.line("No matches.");
    }
    for hit in found.hits {
        let when = format_age(hit.timestamp);
        output.line(&format!("{} · {} · {when}", hit.session_id, hit.role));
        output.line(&format!("    {}", hermes_text::single_line(&hit.snippet)));
    }
    Ok(())
}

fn delete(
    store: &Store,
    text: &str,
    consent: Consent,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let Some(id) = store.resolve_prefix(text).wait()? else {
        output.line(&format!("Session '{text}' not found."));
        return Ok(());
    };
    if !consent.obtain(&format!("Delete session '{id}' and all its messages?"), output) {
        return Ok(());
    }
    if store.delete_session(&id).wait()? == RemovalOutcome::NotFound {
        output.line(&format!("Session '{id}' not found."));
        return Ok(());
    }
    remove_logs(context, &id);
    output.line(&format!("Deleted session '{id}'."));
    Ok(())
}

/// Deletes the covered sessions that have ended.
fn prune(
    store: &Store,
    filters: &SessionFilterArguments,
    archived: ArchivedSessions,
    step: Step,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let mut filters = filters.clone();
    let bounds = [&filters.older_than, &filters.newer_than, &filters.before, &filters.after];
    if bounds.iter().all(|bound| bound.is_none()) {
        filters.older_than = Some(USUAL_AGE.to_owned());
    }
    let zone = zone(context, output);
    let criteria =
        SessionCriteria { states: CoveredStates::Ended, archived, ..filters::criteria(&filters, zone)? };
    let doomed = store.find_sessions(criteria.clone()).wait()?;
    if doomed.is_empty() {
        // Scripts read this line where only an age is given.
        let days = filters.older_than.as_deref().filter(|age| age.parse::<u32>().is_ok());
        let age_only = SessionFilterArguments {
            older_than: filters.older_than.clone(),
            source: filters.source.clone(),
            ..SessionFilterArguments::default()
        };
        output.line(&match days.filter(|_| filters == age_only) {
            Some(days) => format!("No ended sessions older than {days} days."),
            None => "No ended sessions match.".to_owned(),
        });
        return Ok(());
    }
    if !step.go_on("delete", "Delete", store, &doomed, output)? {
        return Ok(());
    }
    let pruned = store.prune_sessions(criteria).wait()?;
    for id in &pruned {
        remove_logs(context, id);
    }
    output.line(&format!("Pruned {} sessions.", pruned.len()));
    Ok(())
}

/// Hides sessions from lists, or shows them again.
fn archive(
    store: &Store,
    ids: &[String],
    filters: &SessionFilterArguments,
    change: ArchiveChange,
    step: Step,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    if ids.is_empty() && filters.is_empty() {
        bail!("name a session or a filter, such as --older-than 30d; nothing was changed");
    }
    let mut covered = Vec::new();
    for text in ids {
        match store.resolve_prefix(text).wait()? {
            Some(id) => covered.push(id),
            None => output.line(&format!("Session '{text}' not found.")),
        }
    }
    if !filters.is_empty() {
        let archived = match change {
            ArchiveChange::Archive => ArchivedSessions::Exclude,
            ArchiveChange::Restore => ArchivedSessions::Include,
        };
        let criteria = filters::criteria(filters, zone(context, output))?;
        // What is still running stays visible.
        let criteria = SessionCriteria { states: CoveredStates::Ended, archived, ..criteria };
        covered.extend(store.find_sessions(criteria).wait()?);
    }
    if covered.is_empty() {
        output.line("No sessions match.");
        return Ok(());
    }
    let (verb, question, done) = match change {
        ArchiveChange::Archive => ("archive", "Archive", "Archived"),
        ArchiveChange::Restore => ("restore", "Restore", "Restored"),
    };
    if !step.go_on(verb, question, store, &covered, output)? {
        return Ok(());
    }
    let count = covered.len();
    store.archive_sessions(covered, change).wait()?;
    output.line(&format!("{done} {}.", counted(count)));
    Ok(())
}

/// Merges the search index and gives unused space back.
fn optimize(context: &ProgramContext, output: &Console) -> Result<()> {
    if process::running_pid(&context.home).is_some() {
        bail!("the gateway is running; stop it first: hermes gateway stop");
    }
    let report = hermes_store::compact(&context.database())?;
    output.line(&format!(
        "{}: {} before, {} now.",
        context.database().display(),
        megabytes(report.bytes_before),
        megabytes(report.bytes_after)
    ));
    Ok(())
}

/// How a change of many sessions begins: it is listed, asked about, or made at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    ListOnly,
    Change(Consent),
}

impl Step {
    fn from_flags(dry_run: bool, yes: bool) -> Self {
        if dry_run { Self::ListOnly } else { Self::Change(Consent::from_flag(yes)) }
    }

    /// Lists the sessions or asks about them. Returns true if the change is to be made.
    fn go_on(
        self,
        verb: &str,
        question: &str,
        store: &Store,
        ids: &[SessionId],
        output: &Console,
    ) -> Result<bool> {
        match self {
            Self::Change(consent) => {
                Ok(consent.obtain(&format!("{question} {}?", counted(ids.len())), output))
            }
            Self::ListOnly => {
                for id in ids {
                    let row = store.session(id).wait()?;
                    let (day, title) = row.map_or_else(Default::default, |row| {
                        (day(row.started_at), row.title.unwrap_or_default())
                    });
                    output.line(format!("{id}  {day}  {title}").trim_end());
                }
                output.line(&format!("Would {verb} {}; nothing was changed.", counted(ids.len())));
                Ok(false)
            }
        }
    }
}

/// Formats a number of sessions.
fn counted(count: usize) -> String {
    format!("{count} {}", if count == 1 { "session" } else { "sessions" })
}

fn zone(context: &ProgramContext, output: &Console) -> Zone {
    Zone::configured(&context.config(output), &context.env)
}

/// Removes the files that other releases keep beside the database for a session. Missing files are not an error.
fn remove_logs(context: &ProgramContext, id: &SessionId) {
    let folder = context.home.join("sessions");
    for name in [format!("{id}.json"), format!("{id}.jsonl"), format!("session_{id}.json")] {
        let _ = fs::remove_file(folder.join(name));
    }
    let prefix = format!("request_dump_{id}_");
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn rename(store: &Store, text: &str, title: &str, output: &Console) -> Result<()> {
    let Some(id) = store.resolve_prefix(text).wait()? else {
        output.line(&format!("Session '{text}' not found."));
        return Ok(());
    };
    let title = Title::sanitise(title)?.context("the title is empty")?;
    store.set_title(&id, Some(title.clone())).wait()?;
    output.line(&format!("Session '{id}' renamed to: {}", title.as_str()));
    Ok(())
}

fn stats(store: &Store, output: &Console) -> Result<()> {
    let stats = store.stats().wait()?;
    output.line(&format!("Total sessions: {}", stats.sessions));
    output.line(&format!("Total messages: {}", stats.messages));
    let of =
        |source: &str| stats.by_source.iter().find(|(name, _)| name == source).map_or(0, |(_, count)| *count);
    for source in SOURCES.into_iter().filter(|source| of(source) > 0) {
        output.line(&format!("  {source}: {} sessions", of(source)));
    }
    for (source, count) in stats.by_source.iter().filter(|(name, _)| !SOURCES.contains(&name.as_str())) {
        output.line(&format!("  {source}: {count} sessions"));
    }
    output.line(&format!("Database size: {}", megabytes(stats.file_bytes)));
    Ok(())
}

pub(crate) fn megabytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a file size for people")]
    let megabytes = bytes as f64 / (1024.0 * 1024.0);
    format!("{megabytes:.1} MB")
}
