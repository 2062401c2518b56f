//! Imports a transcript that another program stored beside the database.
//!
//! Each state of the file is processed once, so messages that were imported and then undone or shortened here do
//! not return. Invariant: an import loses nothing that is in the database.

use hermes_types::{Message, SessionId};
use rusqlite::params;

use crate::Store;
use crate::error::OperationResult;
use crate::message::{self, NewMessage, StoredMessage};
use crate::pending_result::PendingResult;
use crate::removal;
use crate::session::{self, NewSession};
use crate::writer::{Durability, OperationScope};

/// A transcript as read from its file.
#[derive(Debug, Clone)]
pub struct ExternalTranscript {
    pub session: NewSession,
    pub messages: Vec<NewMessage>,
    /// A fingerprint that distinguishes this state of the file from another.
    pub fingerprint: String,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptImport {
    /// The database has at least as many messages.
    UpToDate,
    /// This number of messages was missing here and imported.
    Imported(usize),
}

impl Store {
    /// Tells whether this state of a session's file has been processed.
    pub fn has_seen_transcript(&self, session: &SessionId, mark: &str) -> PendingResult<bool> {
        let (key, mark) = (key_of(session), mark.to_owned());
        self.read(move |scope| {
            let mut statement =
                scope.connection.prepare_cached("SELECT 1 FROM hx_meta WHERE key = ?1 AND value = ?2")?;
            Ok(statement.exists([&key, &mark])?)
        })
    }

    /// Imports the messages the database lacks, if the file is the longer of the two, and records that the file
    /// was processed in either case.
    pub fn import_transcript(&self, kept: ExternalTranscript) -> PendingResult<TranscriptImport> {
        self.write(Durability::Process, move |scope| import_transcript(scope, &kept))
    }
}

fn key_of(session: &SessionId) -> String {
    format!("transcript:{session}")
}

fn import_transcript(
    scope: &OperationScope<'_>,
    kept: &ExternalTranscript,
) -> OperationResult<TranscriptImport> {
    let id = &kept.session.id;
    scope
        .connection
        .prepare_cached(
            "INSERT INTO hx_meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![key_of(id), kept.fingerprint])?;
    let here = message::load(scope, id)?;
    if kept.messages.len() <= here.len() {
        return Ok(TranscriptImport::UpToDate);
    }
    session::insert(scope, &kept.session)?;
    if here.iter().zip(&kept.messages).all(|(here, kept)| is_same_message(&here.message, &kept.message)) {
        for new in kept.messages.iter().skip(here.len()) {
            message::insert(scope, id, new)?;
        }
    } else {
        // The two have diverged: messages that only the database has were added after the file was last written.
        removal::remove_last_messages(scope, id, here.len())?;
        let only_here = here
            .iter()
            .filter(|row| !kept.messages.iter().any(|new| is_same_message(&row.message, &new.message)));
        for new in kept.messages.iter().cloned().chain(only_here.map(to_new_message)) {
            message::insert(scope, id, &new)?;
        }
    }
    Ok(TranscriptImport::Imported(kept.messages.len() - here.len()))
}

fn is_same_message(a: &Message, b: &Message) -> bool {
    a.role == b.role && a.content.text() == b.content.text() && a.tool_call_id == b.tool_call_id
}

fn to_new_message(row: &StoredMessage) -> NewMessage {
    NewMessage {
        message: row.message.clone(),
        at: row.at,
        provenance: Some(row.provenance),
        token_count: None,
    }
}
