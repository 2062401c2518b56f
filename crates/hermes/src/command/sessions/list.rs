//! Lists of sessions, and choosing one of them.

use anyhow::Result;
use hermes_store::{SessionFilter, SessionSummary, Store};
use hermes_text::{ellipsize, head};
use hermes_types::{SessionId, Timestamp};

use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;

/// Prints the latest sessions, as `/resume` shows them.
pub(crate) fn recent(store: &Store, output: &Console) -> Result<()> {
    const MOST: usize = 10;
    list(store, SessionFilter::default(), MOST, output)
}

/// Shows a numbered list and lets the user choose. Only prints the list where the user cannot be asked.
pub(super) fn browse(
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
    for (at, session) in sessions.iter().enumerate() {
        output.line(&format!("{:>3}. {}", at + 1, row(session, true).trim_end()));
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

pub(super) fn list(store: &Store, filter: SessionFilter, limit: usize, output: &Console) -> Result<()> {
    let filter_has_workspace = filter.workspace.is_some();
    let sessions = store.list_conversations(filter, limit).wait()?;
    if sessions.is_empty() {
        output.line("No sessions found.");
        return Ok(());
    }
    let titled = sessions.iter().any(|session| session.title.is_some());
    if filter_has_workspace {
        output.line(&format!("{:<32} {:<40} {:<13} ID", "Title", "Workspace", "Last Active"));
        for session in &sessions {
            output.line(&workspace_row(session));
        }
        return Ok(());
    }
    if titled {
        output.line(&format!("{:<32} {:<40} {:<13} ID", "Title", "Preview", "Last Active"));
    } else {
        output.line(&format!("{:<50} {:<13} {:<6} ID", "Preview", "Last Active", "Src"));
    }
    output.line(&"─".repeat(if titled { 110 } else { 95 }));
    for session in &sessions {
        output.line(row(session, titled).trim_end());
    }
    Ok(())
}

/// Formats a row with the end of the working folder, which tells projects apart.
fn workspace_row(session: &SessionSummary) -> String {
    let folder = session.folder.as_deref().unwrap_or_default();
    let skipped = folder.chars().count().saturating_sub(38);
    let end: String = folder.chars().skip(skipped).collect();
    let title = session.title.as_deref().unwrap_or(session.preview.as_str());
    let active = format_age(session.last_active);
    format!("{:<32} {end:<40} {active:<13} {}", ellipsize_within(title, 30), session.id)
}

fn row(session: &SessionSummary, titled: bool) -> String {
    let active = format_age(session.last_active);
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
    format_age(session.last_active)
}

pub(super) fn format_age(then: Timestamp) -> String {
    let now = now();
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

pub(crate) fn day(at: Timestamp) -> String {
    let local = local_time(at);
    format!("{:04}-{:02}-{:02}", local.year, local.month, local.day)
}
