//! The ports of memories beyond the memory files: what is recalled before a turn and kept after it, and the numbers
//! that say how alike two texts are.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::BoxFuture;
use crate::id::SessionId;
use crate::message::Message;
use crate::port::Tool;

/// Where something was said.
#[derive(Debug, Clone, Copy)]
pub struct MemoryPlace<'a> {
    pub session: &'a SessionId,
    /// The folder the conversation works in.
    pub folder: &'a Path,
}

/// A turn that ended with an answer.
#[derive(Debug, Clone, Copy)]
pub struct FinishedTurn<'a> {
    /// What the person said.
    pub user: &'a str,
    pub assistant: &'a str,
}

/// A change of the memory files by the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWrite {
    /// `add`, `replace` or `remove`.
    pub action: String,
    /// `memory` or `user`.
    pub target: String,
    pub content: String,
    /// The part of an entry that was replaced or removed.
    pub old_text: String,
}

impl MemoryWrite {
    /// Reads the changes from the arguments of a call.
    pub fn from_arguments(arguments: &Map<String, Value>) -> Vec<Self> {
        let target = text(arguments, "target");
        let target = if target.is_empty() { "memory".to_owned() } else { target };
        let read = |change: &Map<String, Value>| Self {
            action: text(change, "action"),
            target: target.clone(),
            content: text(change, "content"),
            old_text: text(change, "old_text"),
        };
        let several = arguments.get("operations").and_then(Value::as_array);
        let writes: Vec<Self> = match several {
            Some(changes) => changes.iter().filter_map(Value::as_object).map(read).collect(),
            None => vec![read(arguments)],
        };
        writes.into_iter().filter(|write| ["add", "replace", "remove"].contains(&&*write.action)).collect()
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> String {
    fields.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
}

/// Why a conversation continues in another state than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySessionChange<'a> {
    /// The older messages were summarised; the conversation continues in a new session.
    Compressed { from: &'a SessionId, to: &'a SessionId },
    /// The last exchange was taken back.
    Rewound(&'a SessionId),
}

/// A memory beyond the memory files of the home. At most one is active.
///
/// Its failures never fail a turn. What is not awaited must not block; what is awaited has a time limit of its own.
pub trait ExternalMemory: Send + Sync {
    fn name(&self) -> &str;

    /// Returns a fixed text for the prompt.
    fn prompt_block(&self) -> Option<String> {
        None
    }

    /// Returns the tools the memory offers while it is active.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// Returns what the memory holds about the user's text of a new turn.
    fn recall<'a>(&'a self, place: MemoryPlace<'a>, words: &'a str) -> BoxFuture<'a, Option<String>>;

    /// Stores a turn that completed.
    fn store_turn(&self, place: MemoryPlace<'_>, turn: FinishedTurn<'_>);

    /// Reads messages that are about to be summarised; the returned text is added to the input of the summary.
    fn before_compression<'a>(
        &'a self,
        place: MemoryPlace<'a>,
        messages: &'a [Message],
    ) -> BoxFuture<'a, Option<String>> {
        let _ = (place, messages);
        Box::pin(std::future::ready(None))
    }

    /// Reports that the agent changed the memory files.
    fn memory_changed(&self, place: MemoryPlace<'_>, write: &MemoryWrite) {
        let _ = (place, write);
    }

    /// Reports that the conversation continues in another state.
    fn session_changed(&self, change: MemorySessionChange<'_>) {
        let _ = change;
    }

    /// Reports that a conversation ended, with what was said in it.
    fn session_ended(&self, place: MemoryPlace<'_>, messages: &[Message]) {
        let _ = (place, messages);
    }

    /// Reports what a subagent was told and answered.
    fn delegated(&self, place: MemoryPlace<'_>, task: &str, answer: &str) {
        let _ = (place, task, answer);
    }

    /// Returns what the user should be told about the memory, once.
    fn take_notice(&self) -> Option<String> {
        None
    }
}

/// The reason why texts have no numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingError(pub String);

impl std::fmt::Display for EmbeddingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Turns texts into vectors, alike texts into vectors that point the same way.
pub trait TextEmbedder: Send + Sync {
    /// Names the model. Vectors of different models cannot be compared.
    fn model(&self) -> &str;

    /// Returns one vector for each text, in their order.
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbeddingError>>;
}
