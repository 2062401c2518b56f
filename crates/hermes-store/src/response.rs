//! `response_store.db`: API responses that a later request may build on.
//!
//! It is a separate file in a format other programs know. It is small and rarely used, so it has one connection,
//! on a thread that ends with its owner. Invariant: at most [`MAX_RESPONSES`] responses; the least recently used
//! one is removed first.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use hermes_types::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::connection;
use crate::error::{Error, Result};
use crate::pending_result::PendingResult;

/// The number of responses that are kept.
pub(crate) const MAX_RESPONSES: usize = 100;

/// A response to store.
#[derive(Debug, Clone)]
pub struct StoredResponse {
    pub id: String,
    /// The response as JSON, in the format other programs know.
    pub data: String,
    /// The conversation whose newest response this becomes.
    pub conversation: Option<ResponseConversation>,
    pub at: Timestamp,
}

/// A conversation that a client named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseConversation {
    pub name: String,
    /// The session of its newest response.
    pub session: SessionId,
    pub instructions: Option<String>,
}

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// A handle on the response store; clones share the thread.
#[derive(Debug, Clone)]
pub struct ResponseStore {
    queue: Sender<Job>,
}

impl ResponseStore {
    pub fn open(path: &Path) -> Result<Self> {
        let (connection, _) = connection::open_for_writing(path)?;
        connection
            .execute_batch(
                "CREATE TABLE IF NOT EXISTS responses (response_id TEXT PRIMARY KEY, data TEXT NOT NULL, accessed_at REAL NOT NULL);
                 CREATE TABLE IF NOT EXISTS conversations (name TEXT PRIMARY KEY, response_id TEXT NOT NULL);
                 CREATE TABLE IF NOT EXISTS hx_conversation_sessions
                    (name TEXT PRIMARY KEY, session_id TEXT NOT NULL, instructions TEXT);",
            )
            .map_err(|error| Error::from_sqlite(path, &error))?;
        let (queue, jobs) = channel::<Job>();
        thread::Builder::new()
            .name("store-responses".to_owned())
            .stack_size(512 * 1024)
            .spawn(move || {
                while let Ok(job) = jobs.recv() {
                    job(&connection);
                }
            })
            .map_err(|error| Error::Other { path: path.to_owned(), detail: error.to_string() })?;
        Ok(Self { queue })
    }

    /// Stores a response and makes it the newest of its conversation, in one step.
    pub fn save(&self, kept: StoredResponse) -> PendingResult<()> {
        self.run(move |connection| {
            let StoredResponse { id, data, conversation, at } = &kept;
            let step = connection.unchecked_transaction()?;
            step.execute(
                "INSERT INTO responses (response_id, data, accessed_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (response_id) DO UPDATE SET data = excluded.data, accessed_at = excluded.accessed_at",
                params![id, data, at.seconds()],
            )?;
            if let Some(ResponseConversation { name, session, instructions }) = conversation {
                step.execute(
                    "INSERT INTO conversations (name, response_id) VALUES (?1, ?2)
                     ON CONFLICT (name) DO UPDATE SET response_id = excluded.response_id",
                    [name, id],
                )?;
                step.execute(
                    "INSERT INTO hx_conversation_sessions (name, session_id, instructions) VALUES (?1, ?2, ?3)
                     ON CONFLICT (name) DO UPDATE SET session_id = excluded.session_id,
                        instructions = excluded.instructions",
                    params![name, session.as_str(), instructions],
                )?;
            }
            step.execute(
                "DELETE FROM responses WHERE response_id IN
                    (SELECT response_id FROM responses ORDER BY accessed_at DESC, rowid DESC LIMIT -1 OFFSET ?1)",
                [i64::try_from(MAX_RESPONSES).unwrap_or(i64::MAX)],
            )?;
            step.commit()
        })
    }

    /// Returns a response and records the access.
    pub fn find(&self, id: &str, at: Timestamp) -> PendingResult<Option<String>> {
        let id = id.to_owned();
        self.run(move |connection| {
            connection.execute(
                "UPDATE responses SET accessed_at = ?2 WHERE response_id = ?1",
                params![id, at.seconds()],
            )?;
            connection
                .query_row("SELECT data FROM responses WHERE response_id = ?1", [&id], |row| row.get(0))
                .optional()
        })
    }

    /// Returns the newest response of a named conversation.
    pub fn newest_in_conversation(&self, name: &str) -> PendingResult<Option<String>> {
        let name = name.to_owned();
        self.run(move |connection| {
            connection
                .query_row("SELECT response_id FROM conversations WHERE name = ?1", [&name], |row| row.get(0))
                .optional()
        })
    }

    /// Returns the current session of a conversation. It is kept longer than the conversation's responses.
    pub fn conversation(&self, name: &str) -> PendingResult<Option<ResponseConversation>> {
        let name = name.to_owned();
        self.run(move |connection| {
            connection
                .query_row(
                    "SELECT session_id, instructions FROM hx_conversation_sessions WHERE name = ?1",
                    [&name],
                    |row| {
                        Ok(ResponseConversation {
                            name: name.clone(),
                            session: SessionId::new(row.get::<_, String>(0)?),
                            instructions: row.get(1)?,
                        })
                    },
                )
                .optional()
        })
    }

    /// Removes a response; returns whether it existed.
    pub fn remove(&self, id: &str) -> PendingResult<bool> {
        let id = id.to_owned();
        self.run(move |connection| {
            Ok(connection.execute("DELETE FROM responses WHERE response_id = ?1", [&id])? > 0)
        })
    }

    fn run<T, F>(&self, work: F) -> PendingResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, pending) = PendingResult::new();
        let job: Job = Box::new(move |connection| {
            let done =
                work(connection).map_err(|error| Error::from_sqlite(Path::new("response_store.db"), &error));
            let _ = reply.send(done);
        });
        // A thread that has ended drops the job and with it the reply, so the caller gets `Closed`.
        let _ = self.queue.send(job);
        pending
    }
}
