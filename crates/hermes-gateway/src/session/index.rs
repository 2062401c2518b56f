//! Maps each chat to its current session, in the database and, for other programs, in `sessions.json`.
//!
//! The database is authoritative: it is written with every turn. The file is rewritten as a whole, periodically
//! and at the end, and read at the start: entries that another program changed later are imported.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_agent::Calendar;
use hermes_config::{Home, write};
use hermes_store::{ChatBinding, Error, Store, TranscriptImport};
use hermes_types::{CivilTime, SessionId, Timestamp};
use serde_json::Value;

use super::entry::{SessionEntry, parse_civil};
use super::transcript;

/// The chats of this home.
#[expect(missing_debug_implementations, reason = "it holds a calendar")]
pub struct SessionIndex {
    store: Store,
    calendar: Calendar,
    file: PathBuf,
    changed: AtomicBool,
}

impl SessionIndex {
    pub fn new(home: &Home, store: Store, calendar: Calendar) -> Self {
        Self { store, calendar, file: home.sessions_index(), changed: AtomicBool::new(false) }
    }

    pub async fn find(&self, key: &str) -> Result<Option<SessionEntry>, Error> {
        let binding = self.store.binding(key).await?;
        Ok(binding.and_then(|binding| read_entry(&binding.entry, key)))
    }

    /// Returns every chat, the last used first.
    pub async fn all(&self) -> Result<Vec<SessionEntry>, Error> {
        let bindings = self.store.bindings().await?;
        Ok(bindings.iter().filter_map(|binding| read_entry(&binding.entry, &binding.key)).collect())
    }

    /// Stores an entry as used at `now`.
    pub async fn persist_used(&self, mut entry: SessionEntry, now: Timestamp) -> Result<(), Error> {
        entry.updated_at = (self.calendar)(now).to_string();
        self.bind(&entry, now).await
    }

    /// Stores an entry without marking the chat as used.
    pub async fn persist(&self, entry: &SessionEntry, now: Timestamp) -> Result<(), Error> {
        self.bind(entry, now).await
    }

    async fn bind(&self, entry: &SessionEntry, at: Timestamp) -> Result<(), Error> {
        let text = serde_json::to_string(entry).unwrap_or_default();
        let binding = ChatBinding {
            key: entry.session_key.clone(),
            session: entry.session_id.as_str().into(),
            entry: text,
            updated_at: at,
        };
        self.store.bind(binding).await?;
        self.changed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Imports what other programs wrote. Returns the number of chats in the file.
    pub async fn import(&self, now: Timestamp) -> Result<usize, Error> {
        let Ok(text) = fs::read_to_string(&self.file) else { return Ok(0) };
        let entries: BTreeMap<String, Value> = match serde_json::from_str(&text) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(file = %self.file.display(), %error, "the list of chats cannot be read; it is left as it is");
                return Ok(0);
            }
        };
        let offset = utc_offset_seconds(&self.calendar, now);
        let mut count = 0;
        for (key, value) in entries {
            let Ok(mut entry) = serde_json::from_value::<SessionEntry>(value) else {
                tracing::warn!(key, "a chat in sessions.json cannot be read; it is left out");
                continue;
            };
            entry.session_key = key;
            let at = parse_civil(&entry.updated_at).map_or(0.0, |civil| civil.as_utc().seconds() - offset);
            self.bind(&entry, Timestamp(at)).await?;
            count += 1;
        }
        self.changed.store(false, Ordering::Relaxed);
        Ok(count)
    }

    /// Imports transcripts of other programs for the current conversations, where they hold more than the
    /// database does.
    pub async fn import_transcripts(&self, now: Timestamp) -> Result<(), Error> {
        let offset = utc_offset_seconds(&self.calendar, now);
        for entry in self.all().await? {
            let Some(file) = self.transcript_file(&entry) else { continue };
            let Some(mark) = transcript::file_version(&file) else { continue };
            let session = SessionId::new(entry.session_id.clone());
            if self.store.has_seen_transcript(&session, &mark).await? {
                continue;
            }
            let Some(kept) = transcript::read(&file, &entry, mark, offset) else { continue };
            if let TranscriptImport::Imported(count) = self.store.import_transcript(kept).await? {
                tracing::info!(file = %file.display(), count, "messages were taken over from a transcript");
            }
        }
        Ok(())
    }

    /// Returns the file in which another program would have stored a chat's transcript.
    fn transcript_file(&self, entry: &SessionEntry) -> Option<PathBuf> {
        let id = entry.session_id.as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_name = !id.is_empty() && id.chars().all(plain);
        is_name.then(|| self.file.with_file_name(format!("{id}.jsonl")))
    }

    /// Writes the file if anything changed; returns whether it did.
    pub async fn export(&self) -> Result<bool, Error> {
        if !self.changed.swap(false, Ordering::Relaxed) {
            return Ok(false);
        }
        let entries: BTreeMap<String, SessionEntry> =
            self.all().await?.into_iter().map(|entry| (entry.session_key.clone(), entry)).collect();
        let text = serde_json::to_string_pretty(&entries).unwrap_or_default();
        if let Err(error) = write::replace(&self.file, text.as_bytes()) {
            self.changed.store(true, Ordering::Relaxed);
            tracing::warn!(%error, "the list of chats was not written; the database has it");
        }
        Ok(true)
    }
}

fn read_entry(text: &str, key: &str) -> Option<SessionEntry> {
    match serde_json::from_str(text) {
        Ok(entry) => Some(entry),
        Err(error) => {
            tracing::warn!(key, %error, "what is kept about this chat cannot be read");
            None
        }
    }
}

/// Returns the seconds the user's local time is ahead of UTC at `now`.
fn utc_offset_seconds(calendar: &Calendar, now: Timestamp) -> f64 {
    calendar(now).as_utc().seconds() - CivilTime::utc(now).as_utc().seconds()
}
