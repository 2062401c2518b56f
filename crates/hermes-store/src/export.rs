//! The export of a session with all its data, in the format other programs read: one JSON object per session.

use hermes_types::SessionId;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value};

use crate::Store;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::OperationScope;

impl Store {
    /// Returns all columns of a session plus `messages` with all of theirs; `tool_calls` are parsed. `None` if it
    /// does not exist.
    pub fn export_session(&self, id: &SessionId) -> PendingResult<Option<Map<String, Value>>> {
        let id = id.clone();
        self.read(move |scope| export(scope, &id))
    }
}

fn export(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<Option<Map<String, Value>>> {
    let names = ordered_columns(scope, "sessions")?;
    let mut statement =
        scope.connection.prepare_cached(&format!("SELECT {} FROM sessions WHERE id = ?1", quoted(&names)))?;
    let mut rows = statement.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut session = object(row, &names)?;

    let names = ordered_columns(scope, "messages")?;
    let mut statement = scope.connection.prepare_cached(&format!(
        "SELECT {} FROM messages WHERE session_id = ?1 ORDER BY id",
        quoted(&names)
    ))?;
    let mut rows = statement.query([id.as_str()])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let mut message = object(row, &names)?;
        if let Some(calls) = message.get_mut("tool_calls")
            && let Some(parsed) = calls.as_str().and_then(|json| serde_json::from_str(json).ok())
        {
            *calls = parsed;
        }
        messages.push(Value::Object(message));
    }
    session.insert("messages".to_owned(), Value::Array(messages));
    Ok(Some(session))
}

/// Returns the columns this file has, in the order they were declared.
fn ordered_columns(scope: &OperationScope<'_>, table: &str) -> OperationResult<Vec<String>> {
    let mut statement =
        scope.connection.prepare_cached("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    quoted.join(", ")
}

fn object(row: &Row<'_>, names: &[String]) -> OperationResult<Map<String, Value>> {
    let mut map = Map::new();
    for (at, name) in names.iter().enumerate() {
        let value = match row.get_ref(at)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::from(number),
            ValueRef::Real(number) => Value::from(number),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Value::from(String::from_utf8_lossy(bytes)),
        };
        map.insert(name.clone(), value);
    }
    Ok(map)
}
