//! The session log other programs read: one JSON file per session, written when a turn has ended.
//!
//! The database is the truth; this is a copy. Invariant: a file that holds more messages than we have is not replaced.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hermes_types::{CivilTime, Message, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agent::{Agent, Logs};
use crate::conversation::Conversation;

#[derive(Serialize)]
struct Log<'a> {
    session_id: &'a str,
    model: &'a str,
    base_url: &'a str,
    platform: &'a str,
    session_start: String,
    last_updated: String,
    system_prompt: &'a str,
    tools: Vec<serde_json::Value>,
    message_count: usize,
    messages: &'a [Message],
}

#[derive(Deserialize)]
struct Existing {
    #[serde(default)]
    messages: Vec<Box<RawValue>>,
}

/// Logs that are written beside the turns: a turn only says which session changed, and many turns of one session are one
/// file. What is not written when the process dies is written with the session's next turn.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "it holds agents, and they hold ports")]
pub struct LaterLogs {
    changed: Mutex<HashMap<SessionId, Agent>>,
}

impl LaterLogs {
    fn note(&self, agent: &Agent, session: &SessionId) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.insert(session.clone(), agent.clone());
    }

    /// Writes at most so many. Says whether any are left.
    pub async fn write(&self, folder: &Path, most: usize) -> bool {
        let (taken, left) = {
            let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
            let some: Vec<SessionId> = changed.keys().take(most).cloned().collect();
            let taken: Vec<(SessionId, Agent)> =
                some.into_iter().filter_map(|id| changed.remove(&id).map(|agent| (id, agent))).collect();
            (taken, !changed.is_empty())
        };
        for (session, agent) in taken {
            if let Err(error) = agent.write_stored_log(&session, folder).await {
                tracing::warn!(%error, %session, "the session log was not written");
            }
        }
        left
    }
}

impl Agent {
    pub(crate) fn write_log(&self, conversation: &Conversation) {
        match &self.folders.logs {
            Logs::None => {}
            Logs::Later(later) => later.note(self, &conversation.session),
            Logs::Now(folder) => self.write_one(
                folder,
                &conversation.session,
                conversation.system.as_deref().unwrap_or_default(),
                conversation.started_at,
                &conversation.messages,
            ),
        }
    }

    /// The log of a session as the database has it.
    async fn write_stored_log(&self, session: &SessionId, folder: &Path) -> Result<(), hermes_store::Error> {
        let Some(row) = self.store.session(session).await? else { return Ok(()) };
        let stored = self.store.transcript(session).await?;
        let messages: Vec<Message> = stored.into_iter().map(|row| row.message).collect();
        self.write_one(folder, session, row.system_prompt.as_deref().unwrap_or_default(), row.started_at, &messages);
        Ok(())
    }

    fn write_one(
        &self,
        folder: &Path,
        session: &SessionId,
        system_prompt: &str,
        started_at: Timestamp,
        messages: &[Message],
    ) {
        let path = folder.join(format!("session_{session}.json"));
        if holds_more(&path, messages.len()) {
            return;
        }
        let tools = self
            .tools
            .iter()
            .map(|tool| serde_json::json!({"type": "function", "function": tool.spec()}))
            .collect();
        let log = Log {
            session_id: session.as_str(),
            model: &self.model_name,
            base_url: &self.base_url,
            platform: &self.prompt.platform,
            session_start: date(self, started_at),
            last_updated: date(self, self.clock.now()),
            system_prompt,
            tools,
            message_count: messages.len(),
            messages,
        };
        let written = serde_json::to_vec_pretty(&log)
            .map_err(|error| error.to_string())
            .and_then(|bytes| write(&path, &bytes));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), error, "the session log was not written");
        }
    }
}

fn date(agent: &Agent, at: hermes_types::Timestamp) -> String {
    let date: CivilTime = (agent.calendar)(at);
    date.to_string()
}

/// A cheap look: a log with fewer bytes than messages cannot hold more of them.
fn holds_more(path: &Path, messages: usize) -> bool {
    let Ok(bytes) = fs::read(path) else { return false };
    serde_json::from_slice::<Existing>(&bytes).is_ok_and(|log| log.messages.len() > messages)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| error.to_string())?;
    }
    hermes_config::write::replace(path, bytes).map_err(|error| error.to_string())
}
