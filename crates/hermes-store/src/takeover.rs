//! Taking over a transcript that another program kept beside the database.
//!
//! It is looked at once per state of its file: what was taken over, undone or shortened here since does not come back.
//! Invariant: nothing that is in the database is lost by it.

use hermes_types::{Message, SessionId};
use rusqlite::params;

use crate::Store;
use crate::error::Attempt;
use crate::message::{self, NewMessage, StoredMessage};
use crate::pending::Pending;
use crate::removal;
use crate::session::{self, NewSession};
use crate::writer::{Durability, Scope};

/// A transcript as its file tells it.
#[derive(Debug, Clone)]
pub struct KeptElsewhere {
    pub session: NewSession,
    pub messages: Vec<NewMessage>,
    /// What tells this state of the file from another.
    pub mark: String,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenOver {
    /// The database knows at least as much.
    Nothing,
    /// So many messages were missing here.
    Messages(usize),
}

impl Store {
    /// Whether this state of a session's file has been looked at.
    pub fn has_looked_at(&self, session: &SessionId, mark: &str) -> Pending<bool> {
        let (key, mark) = (key_of(session), mark.to_owned());
        self.read(move |scope| {
            let mut statement =
                scope.connection.prepare_cached("SELECT 1 FROM hx_meta WHERE key = ?1 AND value = ?2")?;
            Ok(statement.exists([&key, &mark])?)
        })
    }

    /// Takes in what the file has and the database lacks, if the file is the longer of the two; notes that it was looked
    /// at either way.
    pub fn take_over(&self, kept: KeptElsewhere) -> Pending<TakenOver> {
        self.write(Durability::Process, move |scope| take_over(scope, &kept))
    }
}

fn key_of(session: &SessionId) -> String {
    format!("transcript:{session}")
}

fn take_over(scope: &Scope<'_>, kept: &KeptElsewhere) -> Attempt<TakenOver> {
    let id = &kept.session.id;
    scope
        .connection
        .prepare_cached(
            "INSERT INTO hx_meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![key_of(id), kept.mark])?;
    let here = message::load(scope, id)?;
    if kept.messages.len() <= here.len() {
        return Ok(TakenOver::Nothing);
    }
    session::insert(scope, &kept.session)?;
    if here.iter().zip(&kept.messages).all(|(here, kept)| same(&here.message, &kept.message)) {
        for new in kept.messages.iter().skip(here.len()) {
            message::insert(scope, id, new)?;
        }
    } else {
        // They have parted: what only the database has was said after the file was last written.
        removal::take_back(scope, id, here.len())?;
        let only_here =
            here.iter().filter(|row| !kept.messages.iter().any(|new| same(&row.message, &new.message)));
        for new in kept.messages.iter().cloned().chain(only_here.map(again)) {
            message::insert(scope, id, &new)?;
        }
    }
    Ok(TakenOver::Messages(kept.messages.len() - here.len()))
}

fn same(a: &Message, b: &Message) -> bool {
    a.role == b.role && a.content.text() == b.content.text() && a.tool_call_id == b.tool_call_id
}

fn again(row: &StoredMessage) -> NewMessage {
    NewMessage {
        message: row.message.clone(),
        at: row.at,
        provenance: Some(row.provenance),
        token_count: None,
    }
}
