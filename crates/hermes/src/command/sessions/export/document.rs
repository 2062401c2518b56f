//! A session as a document for readers: who said what, and which tools were called.

use hermes_store::{Session, StoredMessage};
use hermes_text::{ellipsize, single_line};
use hermes_types::{Role, Timestamp};

use super::SecretHandling;
use crate::context::local_time;

/// The longest title made from a message.
const MAX_TITLE: usize = 100;

/// A session with its readable parts. Texts are masked already.
pub(super) struct SessionDocument {
    pub(super) title: String,
    /// Facts about the session, as name and value.
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) parts: Vec<DocumentPart>,
}

/// A part of a document.
pub(super) enum DocumentPart {
    /// A text in Markdown by the user or the agent.
    Text {
        author: &'static str,
        at: String,
        text: String,
    },
    ToolCall {
        name: String,
        arguments: String,
    },
    ToolResult {
        name: String,
        text: String,
    },
}

impl SessionDocument {
    pub(super) fn new(session: Session, messages: &[StoredMessage], secrets: SecretHandling) -> Self {
        let mut facts = vec![("session", session.id.as_str().to_owned()), ("source", session.source)];
        facts.extend(session.model.map(|model| ("model", model)));
        facts.push(("started", time(session.started_at)));
        facts.extend(session.ended_at.map(|at| ("ended", time(at))));
        facts.push(("messages", session.message_count.to_string()));
        facts.push(("tokens", session.usage.total().to_string()));
        let first = messages.iter().find(|message| message.message.role == Role::User);
        let first = first.map(|message| single_line(&message.message.content.text()).trim().to_owned());
        let title = session.title.or(first).filter(|title| !title.is_empty());
        let title = title.unwrap_or_else(|| session.id.as_str().to_owned());
        let title = ellipsize(&secrets.text(&title), MAX_TITLE).into_owned();
        let parts = messages.iter().flat_map(|message| parts_of(message, secrets)).collect();
        Self { title, facts, parts }
    }
}

fn parts_of(stored: &StoredMessage, secrets: SecretHandling) -> Vec<DocumentPart> {
    let message = &stored.message;
    let text = secrets.text(&message.content.text());
    let author = match message.role {
        Role::User => "You",
        Role::Assistant => "Hermes",
        Role::Tool => {
            let name = message.tool_name.clone().unwrap_or_else(|| "tool".to_owned());
            return vec![DocumentPart::ToolResult { name, text }];
        }
        Role::System => return Vec::new(),
    };
    let mut parts = Vec::new();
    if !text.trim().is_empty() {
        parts.push(DocumentPart::Text { author, at: time(stored.at), text });
    }
    for call in &message.tool_calls {
        let arguments = secrets.text(call.arguments.as_str());
        parts.push(DocumentPart::ToolCall { name: call.name.clone(), arguments });
    }
    parts
}

fn time(at: Timestamp) -> String {
    local_time(at).to_string().replace('T', " ")
}
