//! The transcript: messages are stored as they happen and returned in that order.

use hermes_types::{
    CallId, ContentPart, FinishReason, JsonFields, Message, MessageContent, MessageId, Provenance, RawJson,
    Role,
};
use hermes_types::{SessionId, Timestamp, ToolCall};
use rusqlite::{CachedStatement, Row, ToSql, ffi, params};

use crate::column;
use crate::error::OperationResult;
use crate::index::{self, IndexMaintenance};
use crate::pending_result::PendingResult;
use crate::session::{self, NewSession};
use crate::writer::{Durability, OperationScope};
use crate::{Error, Store};

/// Marks content that is a list of parts rather than plain text.
const PARTS_PREFIX: &str = "\0json:";

/// Fields for which newer files have columns. In a [`Message`] they are among the unknown fields.
const OPTIONAL_TEXT: [&str; 3] = ["reasoning_content", "api_content", "platform_message_id"];
const OPTIONAL_JSON: [&str; 1] = ["codex_message_items"];

/// A message to be added to the transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    pub message: Message,
    pub at: Timestamp,
    /// The origin, when the role does not imply it: web text in a tool result, a skill in a user message.
    pub provenance: Option<Provenance>,
    pub token_count: Option<u64>,
}

impl NewMessage {
    pub fn new(message: Message, at: Timestamp) -> Self {
        Self { message, at, provenance: None, token_count: None }
    }
}

/// A message as stored in the transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    pub id: MessageId,
    pub message: Message,
    pub at: Timestamp,
    pub provenance: Provenance,
}

impl Store {
    /// Appends one message. The result is sent after the commit.
    pub fn append(&self, session: &SessionId, message: NewMessage) -> PendingResult<MessageId> {
        let session = session.clone();
        self.write(Durability::Process, move |scope| insert(scope, &session, &message))
    }

    /// Appends several messages, all or none.
    pub fn append_all(
        &self,
        session: &SessionId,
        messages: Vec<NewMessage>,
    ) -> PendingResult<Vec<MessageId>> {
        let session = session.clone();
        self.write(Durability::Process, move |scope| {
            messages.iter().map(|message| insert(scope, &session, message)).collect()
        })
    }

    /// Appends to a session whose row may not exist yet: a lock that prevented its creation at start-up must not
    /// lose the conversation.
    pub fn append_creating(
        &self,
        session: NewSession,
        messages: Vec<NewMessage>,
    ) -> PendingResult<Vec<MessageId>> {
        self.write(Durability::Process, move |scope| {
            session::insert(scope, &session)?;
            messages.iter().map(|message| insert(scope, &session.id, message)).collect()
        })
    }

    /// Returns the live messages of all sessions after one, in the order in which they were stored.
    pub fn messages_after(
        &self,
        after: MessageId,
        limit: usize,
    ) -> PendingResult<Vec<(SessionId, StoredMessage)>> {
        self.read(move |scope| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let selection = MessageSelection::of(scope);
            let mut statement = scope.connection.prepare_cached(&selection.sql("m.id > ?1", " LIMIT ?2"))?;
            let mut rows = statement.query(params![after.0, limit])?;
            let mut messages = Vec::new();
            while let Some(row) = rows.next()? {
                let session = SessionId::new(column::string(row, 13)?);
                messages.push((session, read_message(row, &selection.optional)?));
            }
            Ok(messages)
        })
    }

    /// Returns the id of the message that was stored last.
    pub fn newest_message(&self) -> PendingResult<MessageId> {
        self.read(|scope| {
            let mut statement =
                scope.connection.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM messages")?;
            Ok(MessageId(statement.query_row([], |row| row.get(0))?))
        })
    }

    /// Returns the live messages of a session, oldest first.
    pub fn transcript(&self, session: &SessionId) -> PendingResult<Vec<StoredMessage>> {
        let session = session.clone();
        self.read(move |scope| load(scope, &session))
    }
}

pub(crate) fn insert(
    scope: &OperationScope<'_>,
    session: &SessionId,
    new: &NewMessage,
) -> OperationResult<MessageId> {
    let message = &new.message;
    let content = encode_content(&message.content);
    let calls = (!message.tool_calls.is_empty()).then(|| json_text(&message.tool_calls));
    let mut extra = message.extra.clone();
    let optional = take_optional(scope, &mut extra);
    let mut statement = insert_statement(scope, &optional)?;
    let mut values: Vec<&dyn ToSql> = Vec::with_capacity(16);
    let (id, role) = (session.as_str(), message.role.as_str());
    let call_id = message.tool_call_id.as_ref().map(CallId::as_str);
    let (at, tokens) = (new.at.seconds(), new.token_count.map(column::to_signed));
    let finish = message.finish_reason.as_ref().map(FinishReason::as_str);
    let details = message.reasoning_details.as_ref().map(RawJson::as_str);
    let items = message.codex_reasoning_items.as_ref().map(RawJson::as_str);
    values.extend([
        &id as &dyn ToSql,
        &role,
        &content,
        &call_id,
        &calls,
        &message.tool_name,
        &at,
        &tokens,
        &finish,
    ]);
    values.extend([&message.reasoning as &dyn ToSql, &details, &items]);
    values.extend(optional.iter().map(|(_, text)| text as &dyn ToSql));
    match statement.execute(values.as_slice()) {
        Ok(_) => {}
        Err(error)
            if error.sqlite_error().is_some_and(|e| e.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY) =>
        {
            return Err(Error::NotFound(format!("Session not found: {session}")).into());
        }
        Err(error) => return Err(error.into()),
    }
    let id = scope.connection.last_insert_rowid();
    if scope.columns.index_maintenance == IndexMaintenance::Statements {
        index::add(scope.connection, id, &content)?;
    }
    if new.provenance.is_some_and(|origin| origin != implied_provenance(message.role)) || !extra.is_empty() {
        let extra = (!extra.is_empty()).then(|| json_text(&extra));
        scope
            .connection
            .prepare_cached(
                "INSERT INTO hx_message_notes (message_id, provenance, extra) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![id, new.provenance.map(Provenance::as_str), extra])?;
    }
    scope
        .connection
        .prepare_cached(
            "UPDATE sessions SET message_count = COALESCE(message_count, 0) + 1,
                tool_call_count = COALESCE(tool_call_count, 0) + ?2 WHERE id = ?1",
        )?
        .execute(params![session.as_str(), column::to_signed(message.tool_calls.len() as u64)])?;
    Ok(MessageId(id))
}

/// Removes and returns those unknown fields for which this file has columns.
fn take_optional(scope: &OperationScope<'_>, extra: &mut JsonFields) -> Vec<(&'static str, String)> {
    if extra.is_empty() {
        return Vec::new();
    }
    let mut taken = Vec::new();
    for name in OPTIONAL_TEXT.into_iter().chain(OPTIONAL_JSON) {
        if scope.columns.has_message(name)
            && let Some(raw) = extra.take(name)
        {
            let text = if OPTIONAL_TEXT.contains(&name) { raw.read::<String>().ok() } else { None };
            taken.push((name, text.unwrap_or_else(|| raw.as_str().to_owned())));
        }
    }
    taken
}

/// Builds the insert statement. It always sets `active` where that column exists, because some files lack its
/// default.
fn insert_statement<'a>(
    scope: &OperationScope<'a>,
    optional: &[(&str, String)],
) -> OperationResult<CachedStatement<'a>> {
    let (active, one) = if scope.columns.has_message("active") { (", active", ", 1") } else { ("", "") };
    let names = optional.iter().fold(String::new(), |list, (name, _)| list + ", " + name);
    let marks = ", ?".repeat(optional.len());
    let sql = format!(
        "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
            finish_reason, reasoning, reasoning_details, codex_reasoning_items{names}{active})
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?{marks}{one})"
    );
    Ok(scope.connection.prepare_cached(&sql)?)
}

pub(crate) fn load(scope: &OperationScope<'_>, session: &SessionId) -> OperationResult<Vec<StoredMessage>> {
    let selection = MessageSelection::of(scope);
    let mut statement = scope.connection.prepare_cached(&selection.sql("m.session_id = ?1", ""))?;
    let mut rows = statement.query([session.as_str()])?;
    let mut transcript = Vec::new();
    while let Some(row) = rows.next()? {
        transcript.push(read_message(row, &selection.optional)?);
    }
    Ok(transcript)
}

/// The columns of messages that this file has.
struct MessageSelection {
    optional: Vec<&'static str>,
    /// Leaves out messages that were taken back.
    live: &'static str,
}

impl MessageSelection {
    fn of(scope: &OperationScope<'_>) -> Self {
        let known = OPTIONAL_TEXT.into_iter().chain(OPTIONAL_JSON);
        Self {
            optional: known.filter(|name| scope.columns.has_message(name)).collect(),
            live: if scope.columns.has_message("active") { " AND COALESCE(m.active, 1) = 1" } else { "" },
        }
    }

    /// Returns the query for the messages that meet a condition. The order is by id, not by time: a clock that stepped
    /// back must not reorder a conversation.
    fn sql(&self, condition: &str, end: &str) -> String {
        let optional = self.optional.iter().fold(String::new(), |list, name| list + ", m." + name);
        let live = self.live;
        format!(
            "SELECT m.id, m.role, m.content, m.tool_call_id, m.tool_calls, m.tool_name, m.timestamp, m.finish_reason,
                    m.reasoning, m.reasoning_details, m.codex_reasoning_items, n.provenance, n.extra, m.session_id{optional}
             FROM messages m LEFT JOIN hx_message_notes n ON n.message_id = m.id
             WHERE {condition}{live} ORDER BY m.id{end}"
        )
    }
}

fn read_message(row: &Row<'_>, optional: &[&str]) -> OperationResult<StoredMessage> {
    let role = Role::parse(&column::string(row, 1)?).unwrap_or(Role::User);
    let mut extra: JsonFields =
        column::text(row, 12)?.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    for (offset, name) in optional.iter().enumerate() {
        let Some(text) = column::text(row, 14 + offset)? else {
            continue;
        };
        let as_text = || RawJson::from_value(&serde_json::Value::String(text.clone()));
        let raw = if OPTIONAL_JSON.contains(name) {
            RawJson::parse(text.clone()).unwrap_or_else(|_| as_text())
        } else {
            as_text()
        };
        extra.set(name, raw);
    }
    let mut message = match role {
        Role::System => Message::system(""),
        Role::User | Role::Tool => Message::user(""),
        Role::Assistant => Message::assistant(""),
    };
    message.role = role;
    message.content = decode_content(column::string(row, 2)?);
    message.tool_call_id = column::text(row, 3)?.map(CallId::new);
    message.tool_calls = column::text(row, 4)?.map(|json| read_calls(&json)).unwrap_or_default();
    message.tool_name = column::text(row, 5)?;
    message.finish_reason = column::text(row, 7)?.map(|text| FinishReason::parse(&text));
    message.reasoning = column::text(row, 8)?;
    message.reasoning_details = read_raw(column::text(row, 9)?);
    message.codex_reasoning_items = read_raw(column::text(row, 10)?);
    message.extra = extra;
    let provenance = column::text(row, 11)?.and_then(|text| Provenance::parse(&text));
    Ok(StoredMessage {
        id: MessageId(row.get(0)?),
        message,
        at: Timestamp(column::real(row, 6)?.unwrap_or_default()),
        provenance: provenance.unwrap_or(implied_provenance(role)),
    })
}

fn implied_provenance(role: Role) -> Provenance {
    match role {
        Role::System => Provenance::System,
        Role::User => Provenance::Person,
        Role::Assistant => Provenance::Model,
        Role::Tool => Provenance::Tool,
    }
}

fn encode_content(content: &MessageContent) -> String {
    match content {
        MessageContent::Text(text) => text.clone(),
        MessageContent::Parts(parts) => format!("{PARTS_PREFIX}{}", json_text(parts)),
    }
}

pub(crate) fn decode_content(stored: String) -> MessageContent {
    match stored.strip_prefix(PARTS_PREFIX) {
        Some(json) => match serde_json::from_str::<Vec<ContentPart>>(json) {
            Ok(parts) => MessageContent::Parts(parts),
            Err(_) => MessageContent::Text(stored),
        },
        None => MessageContent::Text(stored),
    }
}

/// Parses stored tool calls. Damaged ones are left out, so that the message they belong to is not lost.
fn read_calls(json: &str) -> Vec<ToolCall> {
    serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::warn!(%error, "stored tool calls cannot be read");
        Vec::new()
    })
}

fn read_raw(text: Option<String>) -> Option<RawJson> {
    text.filter(|text| !text.is_empty())
        .and_then(|text| RawJson::parse(text).ok())
        .filter(|raw| !raw.is_null())
}

fn json_text<T: serde::Serialize>(value: &T) -> String {
    // The types of this workspace have string keys and no fields that fail to serialise, so this cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}
