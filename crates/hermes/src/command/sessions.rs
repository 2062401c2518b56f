//! `hermes sessions`: lists, exports, renames and deletes stored sessions.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_config::write;
use hermes_store::{Error, RemovalOutcome, SearchScope, SessionFilter, SessionSummary, Store};
use hermes_text::{SearchQuery, Title, ellipsize, head};
use hermes_types::{SessionId, Timestamp};

use crate::cli::{ChatArguments, SessionsCommand};
use crate::command;
use crate::context::{ProgramContext, local_time, now};
use crate::output::{Confirmation, Console};

/// The sources the summary always names, in this order.
const SOURCES: [&str; 5] = ["cli", "telegram", "discord", "whatsapp", "slack"];

pub(crate) fn run(command: SessionsCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    // Dates are shown in the configured time zone.
    let _ = context.config(output);
    let store = context.store(output)?;
    match command {
        SessionsCommand::List { source, limit } => {
            list(&store, SessionFilter { source }, limit, output)?;
        }
        SessionsCommand::Browse { source, limit } => {
            let chosen = browse(&store, SessionFilter { source }, limit, context, output)?;
            store.close().wait()?;
            let Some(id) = chosen else { return Ok(ExitCode::SUCCESS) };
            let arguments =
                ChatArguments { resume: Some(id.as_str().to_owned()), ..ChatArguments::default() };
            return command::chat::run(&arguments, context, output);
        }
        SessionsCommand::Search { words, limit } => search(&store, &words.join(" "), limit, output)?,
        SessionsCommand::Export { file, source, session_id } => {
            export(&store, &file, SessionFilter { source }, session_id.as_deref(), output)?;
        }
        SessionsCommand::Delete { id, yes } => delete(&store, &id, Consent::from_flag(yes), context, output)?,
        SessionsCommand::Prune { older_than, source, yes } => {
            prune(&store, older_than, SessionFilter { source }, Consent::from_flag(yes), context, output)?;
        }
        SessionsCommand::Rename { id, title } => rename(&store, &id, &title.join(" "), output)?,
        SessionsCommand::Stats => stats(&store, output)?,
    }
    store.close().wait().or_else(|error| if matches!(error, Error::Closed) { Ok(()) } else { Err(error) })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the latest sessions, as `/resume` shows them.
pub(crate) fn recent(store: &Store, output: &Console) -> Result<()> {
    const MOST: usize = 10;
    list(store, SessionFilter { source: None }, MOST, output)
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

/// Shows a numbered list and lets the user choose. Only prints the list where the user cannot be asked.
fn browse(
    store: &Store,
    filter: SessionFilter,
    limit: usize,
    context: &ProgramContext,
    output: &Console,
) -> Result<Option<SessionId>> {
    let sessions = store.list_conversations(filter, limit).wait()?;
    if sessions.is_empty() {
        output.line("No sessions found.");
        return Ok(None);
    }
    if crate::command::chat::can_have_screen(&context.env) {
        let picked = crate::command::chat::pick_session(&sessions, context)?;
        return Ok(picked.and_then(|at| sessions.get(at)).map(|session| session.id.clone()));
    }
    let now = now();
    for (at, session) in sessions.iter().enumerate() {
        output.line(&format!("{:>3}. {}", at + 1, row(session, true, now).trim_end()));
    }
    loop {
        let Some(line) = output.ask("Number, or words of the title (Enter to leave): ") else {
            return Ok(None);
        };
        let line = line.trim().to_lowercase();
        if line.is_empty() || line == "q" {
            return Ok(None);
        }
        let chosen = match line.parse::<usize>() {
            Ok(number) => number.checked_sub(1).and_then(|at| sessions.get(at)),
            Err(_) => sessions.iter().find(|session| {
                let title = session.title.as_deref().unwrap_or_default().to_lowercase();
                title.contains(&line) || session.id.as_str().starts_with(&line)
            }),
        };
        match chosen {
            Some(session) => return Ok(Some(session.id.clone())),
            None => output.line("There is no such session in the list."),
        }
    }
}

fn list(store: &Store, filter: SessionFilter, limit: usize, output: &Console) -> Result<()> {
    let sessions = store.list_conversations(filter, limit).wait()?;
    if sessions.is_empty() {
        output.line("No sessions found.");
        return Ok(());
    }
    let now = now();
    let titled = sessions.iter().any(|session| session.title.is_some());
    if titled {
        output.line(&format!("{:<32} {:<40} {:<13} ID", "Title", "Preview", "Last Active"));
    } else {
        output.line(&format!("{:<50} {:<13} {:<6} ID", "Preview", "Last Active", "Src"));
    }
    output.line(&"─".repeat(if titled { 110 } else { 95 }));
    for session in &sessions {
        output.line(row(session, titled, now).trim_end());
    }
    Ok(())
}

fn row(session: &SessionSummary, titled: bool, now: Timestamp) -> String {
    let active = format_age(session.last_active, now);
    let SessionSummary { id, source, title, preview, .. } = session;
    if titled {
        let title = title.as_deref().unwrap_or("—");
        return format!(
            "{:<32} {:<40} {active:<13} {id}",
            ellipsize_within(title, 30),
            ellipsize_within(preview, 38)
        );
    }
    format!("{:<50} {active:<13} {:<6} {id}", ellipsize_within(preview, 48), head(source, 6))
}

/// Shortens the text to at most `chars` characters, including the dots.
fn ellipsize_within(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        text.to_owned()
    } else {
        ellipsize(text, chars.saturating_sub(3)).into_owned()
    }
}

/// Formats when a session was last active.
pub(crate) fn age(session: &SessionSummary) -> String {
    format_age(session.last_active, now())
}

fn format_age(then: Timestamp, now: Timestamp) -> String {
    let minutes = now.since(then).as_secs() / 60;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes}m ago"),
        60..1440 => format!("{}h ago", minutes / 60),
        1440..2880 => "yesterday".to_owned(),
        2880..10080 => format!("{}d ago", minutes / 1440),
        _ => day(then),
    }
}

fn day(at: Timestamp) -> String {
    let local = local_time(at);
    format!("{:04}-{:02}-{:02}", local.year, local.month, local.day)
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
        let when = format_age(hit.timestamp, now());
        output.line(&format!("{} · {} · {when}", hit.session_id, hit.role));
        output.line(&format!("    {}", hermes_text::single_line(&hit.snippet)));
    }
    Ok(())
}

fn export(
    store: &Store,
    file: &str,
    filter: SessionFilter,
    session: Option<&str>,
    output: &Console,
) -> Result<()> {
    let ids = if let Some(text) = session {
        let Some(id) = store.resolve_prefix(text).wait()? else {
            output.line(&format!("Session '{text}' not found."));
            return Ok(());
        };
        vec![id]
    } else {
        store.exportable_sessions(filter).wait()?
    };
    if file == "-" {
        for id in &ids {
            if let Some(session) = store.export_session(id).wait()? {
                output.line(&serde_json::to_string(&session)?);
            }
        }
        return Ok(());
    }
    let target = Path::new(file);
    let count = write_export(store, &ids, target).with_context(|| format!("cannot export to {file}"))?;
    let noun = if count == 1 { "session" } else { "sessions" };
    output.line(&format!("Exported {count} {noun} to {file}"));
    Ok(())
}

/// Writes to a temporary file and renames it, so that a partial export never replaces a complete one.
fn write_export(store: &Store, ids: &[SessionId], target: &Path) -> Result<usize> {
    if write::is_special(target)? {
        let file = fs::OpenOptions::new().write(true).open(target)?;
        return write_sessions(store, ids, file).map(|(count, _)| count);
    }
    let target = &write::follow_links(target)?;
    let beside = PathBuf::from(format!("{}.tmp-{}", target.display(), hermes_types::random_hex(8)));
    let write = || -> Result<usize> {
        let (count, file) = write_sessions(store, ids, private_file(&beside)?)?;
        file.sync_all()?;
        fs::rename(&beside, target)?;
        Ok(count)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

/// Writes one session per line and returns how many there were.
fn write_sessions(store: &Store, ids: &[SessionId], file: fs::File) -> Result<(usize, fs::File)> {
    let mut file = std::io::BufWriter::new(file);
    let mut count = 0;
    for id in ids {
        if let Some(session) = store.export_session(id).wait()? {
            serde_json::to_writer(&mut file, &session)?;
            file.write_all(b"\n")?;
            count += 1;
        }
    }
    Ok((count, file.into_inner()?))
}

fn private_file(path: &Path) -> std::io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
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

fn prune(
    store: &Store,
    days: u32,
    filter: SessionFilter,
    consent: Consent,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let cutoff = now().minus(Duration::from_hours(24 * u64::from(days)));
    let doomed = store.prunable_sessions(cutoff, filter.clone()).wait()?.len();
    if doomed == 0 {
        output.line(&format!("No ended sessions older than {days} days."));
        return Ok(());
    }
    if !consent.obtain(&format!("Delete {doomed} ended sessions older than {days} days?"), output) {
        return Ok(());
    }
    let pruned = store.prune_sessions(cutoff, filter).wait()?;
    for id in &pruned {
        remove_logs(context, id);
    }
    output.line(&format!("Pruned {} sessions.", pruned.len()));
    Ok(())
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
    #[expect(clippy::cast_precision_loss, reason = "a file size for people")]
    let megabytes = stats.file_bytes as f64 / (1024.0 * 1024.0);
    output.line(&format!("Database size: {megabytes:.1} MB"));
    Ok(())
}
