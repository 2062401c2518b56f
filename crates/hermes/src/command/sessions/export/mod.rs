//! `hermes sessions export`: writes sessions as JSON lines, or one document for each.
//!
//! Invariant: a file appears when it is complete, and replaces one that exists only if that was asked for. A session is
//! deleted only after its file was read back.

mod document;
mod html;
mod markdown;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hermes_config::write;
use hermes_guard::{Redaction, redact};
use hermes_research::{SessionTrajectory, iso_time};
use hermes_schedule::Zone;
use hermes_store::{ArchivedSessions, RemovalOutcome, SessionCriteria, Store};
use hermes_types::{Message, Role, SessionId};
use serde_json::{Map, Value, json};

use super::filters;
use super::list::day;
use crate::cli::{ExportArguments, ExportFormat, ExportLineage, ExportedPart};
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;
use document::SessionDocument;

/// Says whether secrets are masked in what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretHandling {
    Mask,
    Keep,
}

impl SecretHandling {
    /// JSON lines are a copy; documents are for reading and passing on.
    fn of(arguments: &ExportArguments) -> Self {
        let is_copy = is_lines(arguments.format);
        if arguments.redact || !(is_copy || arguments.no_redact) { Self::Mask } else { Self::Keep }
    }

    fn text(self, text: &str) -> String {
        match self {
            Self::Mask => redact(text, Redaction::default()).into_owned(),
            Self::Keep => text.to_owned(),
        }
    }

    fn value(self, value: Value) -> Value {
        match (self, value) {
            (Self::Keep, value) => value,
            (Self::Mask, Value::String(text)) => Value::String(self.text(&text)),
            (Self::Mask, Value::Array(items)) => items.into_iter().map(|item| self.value(item)).collect(),
            (Self::Mask, Value::Object(map)) => {
                map.into_iter().map(|(name, value)| (name, self.value(value))).collect()
            }
            (Self::Mask, other) => other,
        }
    }
}

/// Exports the sessions, and returns those that were deleted afterwards.
pub(super) fn run(
    store: &Store,
    arguments: &ExportArguments,
    zone: Zone,
    context: &ProgramContext,
    output: &Console,
) -> Result<Vec<SessionId>> {
    if arguments.only.is_some() && arguments.format != ExportFormat::Jsonl {
        bail!("--only writes JSON lines; leave --format out");
    }
    let ids = if let Some(text) = &arguments.session_id {
        let Some(id) = store.resolve_prefix(text).wait()? else {
            output.line(&format!("Session '{text}' not found."));
            return Ok(Vec::new());
        };
        vec![id]
    } else {
        let criteria = filters::criteria(&arguments.filters, zone)?;
        store.find_sessions(SessionCriteria { archived: ArchivedSessions::Include, ..criteria }).wait()?
    };
    let export = Export { store, arguments, secrets: SecretHandling::of(arguments), context, output };
    let units = export.units(&ids)?;
    if arguments.dry_run {
        for unit in &units {
            let row = store.session(&unit.newest).wait()?;
            let (began, title) =
                row.map_or_else(Default::default, |row| (day(row.started_at), row.title.unwrap_or_default()));
            output.line(format!("{}  {began}  {title}", unit.newest).trim_end());
        }
        output.line(&format!("Would export {}; nothing was written.", super::counted(units.len())));
        return Ok(Vec::new());
    }
    match arguments.format {
        format if is_lines(format) => export.write_lines(&units)?,
        format => export.write_documents(&units, format)?,
    }
    if arguments.delete_after_verified { export.delete(&units) } else { Ok(Vec::new()) }
}

/// What becomes one line or one document: a session, or a conversation over all its sessions.
struct ExportUnit {
    newest: SessionId,
    /// The sessions, oldest first.
    sessions: Vec<SessionId>,
}

struct Export<'a> {
    store: &'a Store,
    arguments: &'a ExportArguments,
    secrets: SecretHandling,
    context: &'a ProgramContext,
    output: &'a Console,
}

impl Export<'_> {
    fn units(&self, ids: &[SessionId]) -> Result<Vec<ExportUnit>> {
        if self.arguments.lineage == ExportLineage::Single {
            let single = |id: &SessionId| ExportUnit { newest: id.clone(), sessions: vec![id.clone()] };
            return Ok(ids.iter().map(single).collect());
        }
        let mut seen = HashSet::new();
        let mut units = Vec::new();
        for id in ids {
            let newest = self.store.continuation(id).wait()?.newest;
            if seen.insert(newest.as_str().to_owned()) {
                let sessions = self.store.conversation_sessions(&newest).wait()?;
                units.push(ExportUnit { newest, sessions });
            }
        }
        Ok(units)
    }

    fn write_lines(&self, units: &[ExportUnit]) -> Result<()> {
        let Some(target) = self.file_target() else {
            for unit in units {
                for line in self.lines_of(unit)? {
                    self.output.line(&line);
                }
            }
            return Ok(());
        };
        let count = self.write_line_file(units, target);
        let count = count.with_context(|| format!("cannot export to {}", target.display()))?;
        self.output.line(&format!("Exported {} to {}", super::counted(count), target.display()));
        Ok(())
    }

    /// Returns the file or folder to write to; `None` for standard output.
    fn file_target(&self) -> Option<&Path> {
        self.arguments.target.as_deref().filter(|target| *target != Path::new("-"))
    }

    /// Writes a temporary file and renames it, so that a partial export never replaces a complete one.
    fn write_line_file(&self, units: &[ExportUnit], target: &Path) -> Result<usize> {
        if write::is_special(target)? {
            let file = fs::OpenOptions::new().write(true).open(target)?;
            return self.write_all_lines(units, file).map(|(count, _)| count);
        }
        let target = &write::follow_links(target)?;
        let beside = PathBuf::from(format!("{}.tmp-{}", target.display(), hermes_types::random_hex(8)));
        let write = || -> Result<usize> {
            let (count, file) = self.write_all_lines(units, private_file(&beside)?)?;
            file.sync_all()?;
            fs::rename(&beside, target)?;
            Ok(count)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    }

    /// Writes the lines, and returns the number of sessions they come from.
    fn write_all_lines(&self, units: &[ExportUnit], file: fs::File) -> Result<(usize, fs::File)> {
        let mut file = std::io::BufWriter::new(file);
        let mut count = 0;
        for unit in units {
            let lines = self.lines_of(unit)?;
            count += usize::from(!lines.is_empty());
            for line in lines {
                file.write_all(line.as_bytes())?;
                file.write_all(b"\n")?;
            }
        }
        Ok((count, file.into_inner()?))
    }

    fn lines_of(&self, unit: &ExportUnit) -> Result<Vec<String>> {
        if self.arguments.only == Some(ExportedPart::UserPrompts) {
            return self.prompts_of(unit);
        }
        if self.arguments.format == ExportFormat::Sharegpt {
            return self.trajectory_of(unit);
        }
        let Some(mut session) = self.store.export_session(&unit.newest).wait()? else {
            return Ok(Vec::new());
        };
        if self.arguments.lineage == ExportLineage::Logical {
            let mut segments = Vec::new();
            for id in &unit.sessions {
                segments.extend(self.store.export_session(id).wait()?.map(Value::Object));
            }
            session.insert("segments".to_owned(), Value::Array(segments));
        }
        Ok(vec![serde_json::to_string(&self.secrets.value(Value::Object(session)))?])
    }

    /// Returns what the user wrote, one line for each message.
    fn prompts_of(&self, unit: &ExportUnit) -> Result<Vec<String>> {
        let messages = self.messages_of(unit)?;
        let prompts = messages.iter().filter(|message| message.message.role == Role::User);
        let line = |message: &hermes_store::StoredMessage| {
            let text = self.secrets.text(&message.message.content.text());
            json!({
                "session_id": unit.newest.as_str(),
                "timestamp": message.at.seconds(),
                "role": "user",
                "text": text,
            })
        };
        prompts.map(|message| Ok(serde_json::to_string(&line(message))?)).collect()
    }

    /// Returns the conversation as a trajectory. Its list of tools is empty: which tools a conversation had is not stored.
    fn trajectory_of(&self, unit: &ExportUnit) -> Result<Vec<String>> {
        let Some(row) = self.store.session(&unit.newest).wait()? else { return Ok(Vec::new()) };
        let rows = self.messages_of(unit)?;
        let ended = rows.last().map_or(row.started_at, |row| row.at);
        let messages: Vec<Message> = rows.into_iter().map(|row| row.message).collect();
        let completed = messages.last().is_some_and(|last| hermes_agent::final_text(last).is_some());
        let model = row.model.as_deref().unwrap_or_default();
        let time = iso_time(local_time(ended), ended);
        let made = SessionTrajectory::new(&messages, &[], model, time, completed);
        Ok(made
            .map(|made| made.with_texts(|text| self.secrets.text(text)).to_json().to_string())
            .into_iter()
            .collect())
    }

    fn messages_of(&self, unit: &ExportUnit) -> Result<Vec<hermes_store::StoredMessage>> {
        Ok(match self.arguments.lineage {
            ExportLineage::Single => self.store.transcript(&unit.newest).wait()?,
            ExportLineage::Logical => self.store.full_conversation(&unit.newest).wait()?,
        })
    }

    fn write_documents(&self, units: &[ExportUnit], format: ExportFormat) -> Result<()> {
        if self.arguments.target.as_deref() == Some(Path::new("-")) {
            for unit in units {
                if let Some(text) = self.rendered(unit, format)? {
                    self.output.text(&text);
                }
            }
            return Ok(());
        }
        let folder = match self.file_target() {
            Some(folder) => folder.to_owned(),
            None => self.context.home.folder("session-exports")?,
        };
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut entries = Vec::new();
        for unit in units {
            let Some(text) = self.rendered(unit, format)? else { continue };
            let path = self.document_path(&folder, unit);
            if path.exists() && !self.arguments.force {
                bail!(
                    "{} exists; --force replaces it. {} written before it are complete",
                    path.display(),
                    super::counted(entries.len())
                );
            }
            write::replace(&path, text.as_bytes())?;
            entries.push(self.manifest_entry(unit, &path, &text)?);
        }
        append_manifest(&folder, &entries)?;
        self.output.line(&format!("Exported {} to {}", super::counted(entries.len()), folder.display()));
        Ok(())
    }

    fn rendered(&self, unit: &ExportUnit, format: ExportFormat) -> Result<Option<String>> {
        let Some(session) = self.store.session(&unit.newest).wait()? else { return Ok(None) };
        let document = SessionDocument::new(session, &self.messages_of(unit)?, self.secrets);
        Ok(Some(if format == ExportFormat::Html {
            html::render(&document)
        } else {
            markdown::render(&document)
        }))
    }

    fn document_path(&self, folder: &Path, unit: &ExportUnit) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
        let name: String = unit.newest.as_str().chars().map(plain).collect();
        let ending = match self.arguments.format {
            ExportFormat::Jsonl | ExportFormat::Sharegpt => "jsonl",
            ExportFormat::Md => "md",
            ExportFormat::Qmd => "qmd",
            ExportFormat::Html => "html",
        };
        folder.join(format!("{name}.{ending}"))
    }

    fn manifest_entry(&self, unit: &ExportUnit, path: &Path, text: &str) -> Result<Value> {
        let row = self.store.session(&unit.newest).wait()?;
        let mut entry = Map::new();
        entry.insert("session_id".to_owned(), json!(unit.newest.as_str()));
        entry.insert("title".to_owned(), json!(row.as_ref().and_then(|row| row.title.clone())));
        entry.insert("message_count".to_owned(), json!(row.map_or(0, |row| row.message_count)));
        entry.insert("path".to_owned(), json!(path.file_name().map(|name| name.to_string_lossy())));
        entry.insert("bytes".to_owned(), json!(text.len()));
        entry.insert("exported_at".to_owned(), json!(local_time(now()).to_string()));
        Ok(Value::Object(entry))
    }

    /// Deletes exported sessions whose files contain what the database contains now.
    fn delete(&self, units: &[ExportUnit]) -> Result<Vec<SessionId>> {
        let mut deleted = Vec::new();
        for unit in units {
            let (path, expected) = match self.arguments.format {
                format if is_lines(format) => {
                    let lines = joined(&self.lines_of(unit)?);
                    (self.file_target().map(Path::to_owned), Some(lines))
                }
                format => {
                    let folder = match (self.arguments.target.as_deref(), self.file_target()) {
                        (None, _) => Some(self.context.home.folder("session-exports")?),
                        (_, target) => target.map(Path::to_owned),
                    };
                    (folder.map(|folder| self.document_path(&folder, unit)), self.rendered(unit, format)?)
                }
            };
            let Some(path) = path else {
                bail!("what went to standard output cannot be verified; nothing was deleted")
            };
            let written = fs::read_to_string(&path)?;
            if self.arguments.only.is_some() || Some(written) != expected {
                bail!("{} does not contain the whole session; nothing was deleted", path.display());
            }
            for id in &unit.sessions {
                if self.store.delete_session(id).wait()? == RemovalOutcome::Yes {
                    self.output.line(&format!("Deleted session '{id}'."));
                    deleted.push(id.clone());
                }
            }
        }
        Ok(deleted)
    }
}

/// Tells whether a format is one line per session.
fn is_lines(format: ExportFormat) -> bool {
    matches!(format, ExportFormat::Jsonl | ExportFormat::Sharegpt)
}

/// Joins lines, each with its end.
fn joined(lines: &[impl std::fmt::Display]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{line}");
        text
    })
}

fn private_file(path: &Path) -> std::io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Adds lines to the list of what a folder contains.
fn append_manifest(folder: &Path, entries: &[Value]) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let lines = joined(entries);
    let path = folder.join("manifest.jsonl");
    let mut file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
    file.write_all(lines.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
