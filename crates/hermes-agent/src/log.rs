//! The session log other programs read: one JSON file per session, written when a turn has ended.
//!
//! The database is the truth; this is a copy. Invariant: a file that holds more messages than we have is not replaced.

use std::fs;
use std::path::Path;

use hermes_types::{CivilTime, Message};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agent::Agent;
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

impl Agent {
    pub(crate) fn write_log(&self, conversation: &Conversation) {
        let Some(folder) = &self.folders.logs else { return };
        let path = folder.join(format!("session_{}.json", conversation.session));
        if holds_more(&path, conversation.messages.len()) {
            return;
        }
        let tools = self
            .tools
            .iter()
            .map(|tool| serde_json::json!({"type": "function", "function": tool.spec()}))
            .collect();
        let log = Log {
            session_id: conversation.session.as_str(),
            model: &self.model_name,
            base_url: &self.base_url,
            platform: &self.prompt.platform,
            session_start: date(self, conversation.started_at),
            last_updated: date(self, self.clock.now()),
            system_prompt: conversation.system.as_deref().unwrap_or_default(),
            tools,
            message_count: conversation.messages.len(),
            messages: &conversation.messages,
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
