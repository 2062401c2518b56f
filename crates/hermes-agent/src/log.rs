//! The session log other programs read: one JSON file per session, written when a turn has ended.
//!
//! The database is authoritative; the log is a copy. Invariant: a file that holds more messages than the session
//! is not replaced.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_store::Store;
use hermes_types::{CivilTime, Message, SessionId, Timestamp, Tool};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agent::{Agent, Calendar};
use crate::conversation::Conversation;
use crate::settings::SessionLogMode;

#[derive(Serialize)]
struct SessionLogFile<'a> {
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
struct ExistingLog {
    #[serde(default)]
    messages: Vec<Box<RawValue>>,
}

/// The part of a log before the messages, the same for all sessions of one agent.
#[derive(Clone)]
struct LogHeader {
    model: String,
    base_url: String,
    platform: String,
    tools: Vec<Arc<dyn Tool>>,
}

impl LogHeader {
    fn from_agent(agent: &Agent) -> Self {
        Self {
            model: agent.models.name.clone(),
            base_url: agent.models.base_url.clone(),
            platform: agent.prompt.platform.clone(),
            tools: agent.tools.clone(),
        }
    }

    fn matches_agent(&self, agent: &Agent) -> bool {
        self.model == agent.models.name
            && self.base_url == agent.models.base_url
            && self.platform == agent.prompt.platform
            && self.tools.len() == agent.tools.len()
    }
}

/// Logs written outside the turns: a turn only records which session changed, and many turns of one session
/// become one write. A log that is lost when the process dies is written with the session's next turn.
#[expect(missing_debug_implementations, reason = "it holds tools")]
pub struct DeferredSessionLogs {
    store: Store,
    calendar: Calendar,
    changed: Mutex<ChangedSessions>,
}

#[derive(Default)]
struct ChangedSessions {
    sessions: HashMap<SessionId, Arc<LogHeader>>,
    last_header: Option<Arc<LogHeader>>,
}

impl DeferredSessionLogs {
    pub fn new(store: Store, calendar: Calendar) -> Self {
        Self { store, calendar, changed: Mutex::default() }
    }

    fn mark_changed(&self, agent: &Agent, session: &SessionId) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let heading = match changed.last_header.clone().filter(|last| last.matches_agent(agent)) {
            Some(heading) => heading,
            None => Arc::new(LogHeader::from_agent(agent)),
        };
        changed.last_header = Some(heading.clone());
        changed.sessions.insert(session.clone(), heading);
    }

    /// Writes at most `most` logs. Returns whether any are left.
    pub async fn write_pending(&self, folder: &Path, most: usize, now: Timestamp) -> bool {
        let (taken, left) = {
            let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
            let some: Vec<SessionId> = changed.sessions.keys().take(most).cloned().collect();
            let taken: Vec<(SessionId, Arc<LogHeader>)> = some
                .into_iter()
                .filter_map(|id| changed.sessions.remove(&id).map(|heading| (id, heading)))
                .collect();
            (taken, !changed.sessions.is_empty())
        };
        for (session, heading) in taken {
            if let Err(error) = self.write_one(&session, &heading, folder, now).await {
                tracing::warn!(%error, %session, "the session log was not written");
            }
        }
        left
    }

    /// Writes the log of a session from the database.
    async fn write_one(
        &self,
        session: &SessionId,
        heading: &LogHeader,
        folder: &Path,
        now: Timestamp,
    ) -> Result<(), hermes_store::Error> {
        let Some(row) = self.store.session(session).await? else { return Ok(()) };
        let stored = self.store.transcript(session).await?;
        let messages: Vec<Message> = stored.into_iter().map(|row| row.message).collect();
        let body = LogBody {
            session,
            system_prompt: row.system_prompt.as_deref().unwrap_or_default(),
            started: (self.calendar)(row.started_at),
            now: (self.calendar)(now),
            messages: &messages,
        };
        write_log(folder, heading, &body);
        Ok(())
    }
}

/// Writes the log of a conversation, or records that it is to be written.
pub(crate) fn write_after_turn(agent: &Agent, conversation: &Conversation) {
    match &agent.folders.logs {
        SessionLogMode::None => {}
        SessionLogMode::Deferred(later) => later.mark_changed(agent, &conversation.session),
        SessionLogMode::Immediate(folder) => {
            let body = LogBody {
                session: &conversation.session,
                system_prompt: conversation.system.as_deref().unwrap_or_default(),
                started: (agent.calendar)(conversation.started_at),
                now: (agent.calendar)(agent.clock.now()),
                messages: &conversation.messages,
            };
            write_log(folder, &LogHeader::from_agent(agent), &body);
        }
    }
}

/// The part of a log that describes its session.
struct LogBody<'a> {
    session: &'a SessionId,
    system_prompt: &'a str,
    started: CivilTime,
    now: CivilTime,
    messages: &'a [Message],
}

fn write_log(folder: &Path, heading: &LogHeader, body: &LogBody<'_>) {
    let path = folder.join(format!("session_{}.json", body.session));
    if holds_more(&path, body.messages.len()) {
        return;
    }
    let tools = heading
        .tools
        .iter()
        .map(|tool| serde_json::json!({"type": "function", "function": tool.spec()}))
        .collect();
    let log = SessionLogFile {
        session_id: body.session.as_str(),
        model: &heading.model,
        base_url: &heading.base_url,
        platform: &heading.platform,
        session_start: body.started.to_string(),
        last_updated: body.now.to_string(),
        system_prompt: body.system_prompt,
        tools,
        message_count: body.messages.len(),
        messages: body.messages,
    };
    let written = serde_json::to_vec_pretty(&log)
        .map_err(|error| error.to_string())
        .and_then(|bytes| write(&path, &bytes));
    if let Err(error) = written {
        tracing::warn!(path = %path.display(), error, "the session log was not written");
    }
}

/// Tells whether the log at `path` holds more than this many messages.
fn holds_more(path: &Path, messages: usize) -> bool {
    let Ok(bytes) = fs::read(path) else { return false };
    serde_json::from_slice::<ExistingLog>(&bytes).is_ok_and(|log| log.messages.len() > messages)
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
