//! Transcripts of other programs in `sessions/<id>.jsonl`: read where they are longer than the database's, never
//! written.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use hermes_store::{ExternalTranscript, NewMessage, NewSession};
use hermes_types::{Message, Role, SessionId, Timestamp};
use serde_json::Value;

use super::entry::{SessionEntry, parse_civil};

/// Returns a text that changes with the file; `None` when there is no file.
pub(super) fn file_version(file: &Path) -> Option<String> {
    let found = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    let changed = found.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(format!("{}:{}", found.len(), changed.as_nanos()))
}

/// Reads a transcript, one object per line, and skips lines that cannot be read. `offset`: seconds the user's
/// local time is ahead of UTC.
pub(super) fn read(
    file: &Path,
    entry: &SessionEntry,
    mark: String,
    offset: f64,
) -> Option<ExternalTranscript> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "a transcript cannot be read; it is left alone");
            return None;
        }
    };
    let began = parse_timestamp(&Value::String(entry.created_at.clone()), offset).unwrap_or(Timestamp(0.0));
    let platform = entry.platform.clone().unwrap_or_else(|| "gateway".to_owned());
    let mut session = NewSession::new(SessionId::new(entry.session_id.clone()), platform, began);
    session.user_id = entry.origin.as_ref().and_then(|origin| origin.user_id.clone());
    let (mut messages, mut last) = (Vec::new(), began);
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<Value>(line) {
            Ok(value) if value.get("role").and_then(Value::as_str) == Some("session_meta") => {
                session.model = value.get("model").and_then(Value::as_str).map(str::to_owned);
            }
            Ok(value) => {
                last = value.get("timestamp").and_then(|at| parse_timestamp(at, offset)).unwrap_or(last);
                match message(line) {
                    Ok(message) if message.role == Role::System => {}
                    Ok(message) => messages.push(NewMessage::new(message, last)),
                    Err(error) => warn_skipped_line(file, number, &error),
                }
            }
            Err(error) => warn_skipped_line(file, number, &error),
        }
    }
    Some(ExternalTranscript { session, messages, fingerprint: mark })
}

fn message(line: &str) -> Result<Message, serde_json::Error> {
    let mut message: Message = serde_json::from_str(line)?;
    message.extra.take("timestamp");
    Ok(message)
}

fn warn_skipped_line(file: &Path, number: usize, error: &serde_json::Error) {
    tracing::warn!(file = %file.display(), line = number + 1, %error, "a line of a transcript cannot be read; it is left out");
}

/// Parses seconds, or the user's local time in ISO form.
fn parse_timestamp(value: &Value, offset: f64) -> Option<Timestamp> {
    let civil = || parse_civil(value.as_str()?).map(|civil| civil.as_utc().seconds() - offset);
    value.as_f64().or_else(civil).map(Timestamp)
}
