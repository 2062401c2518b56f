//! The full-text index: its layouts, the detection of damage, and its gradual rebuild.
//!
//! Invariant: the index never keeps a message from being stored. When it is damaged, the transaction that detects
//! it drops and recreates it, new messages are indexed at once, and old ones are added in short transactions
//! between other writes. A row that the rebuild has not reached is never removed from the index, because removing
//! a row that is not in it would damage it again; the conditional triggers below ensure that.

use rusqlite::{Connection, ErrorCode, OptionalExtension, ffi, params};
use serde::{Deserialize, Serialize};

use crate::error::{OperationError, OperationResult};
use crate::schema;

/// The index table that every version has.
const TABLE: &str = "messages_fts";

/// Limits the rows and bytes of one rebuild step, so that a waiting write is never delayed for long.
const STEP_ROWS: i64 = 400;
const STEP_BYTES: usize = 512 * 1024;

const META_KEY: &str = "search.rebuild";

/// The way the index stores its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Version 6: the text stays in `messages`.
    External,
    /// Later versions: the index keeps its own copy of content, tool name and tool calls.
    Inline,
}

/// The position of a rebuild: rows up to `cursor` are indexed, rows after `target` were never missing.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RebuildPosition {
    pub(crate) cursor: i64,
    pub(crate) target: i64,
}

/// Tells whether a rebuild has more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RebuildProgress {
    More,
    Done,
}

/// An index table as declared in the file.
struct Table {
    name: String,
    layout: Layout,
    sql: String,
}

pub(crate) fn exists(connection: &Connection) -> OperationResult<bool> {
    schema::table_exists(connection, TABLE)
}

pub(crate) fn rebuild_state(connection: &Connection) -> OperationResult<Option<RebuildPosition>> {
    if !schema::table_exists(connection, "hx_meta")? {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached("SELECT value FROM hx_meta WHERE key = ?1")?;
    let value: Option<String> = statement.query_row([META_KEY], |row| row.get(0)).optional()?;
    Ok(value.and_then(|json| serde_json::from_str(&json).ok()))
}

pub(crate) fn is_rebuilding(connection: &Connection) -> OperationResult<bool> {
    Ok(rebuild_state(connection)?.is_some())
}

/// Tells whether a failure can come from the index rather than from the tables it serves.
pub(crate) fn may_be_damage(fault: &OperationError) -> bool {
    let OperationError::Sqlite(error) = fault else { return false };
    match error.sqlite_error() {
        Some(inner) if inner.extended_code == ffi::SQLITE_CORRUPT_VTAB => true,
        Some(inner) if inner.code == ErrorCode::DatabaseCorrupt => true,
        _ => {
            let text = error.to_string();
            // A constraint of a real table is named in the message; only the index fails with this bare text, when
            // it flushes at commit into segments whose state it has lost.
            text == "constraint failed"
                || text.contains(TABLE)
                || text.contains("vtable constructor failed")
                || text.contains("fts5")
        }
    }
}

/// Drops every index and recreates it empty, and records the rebuild. Runs inside a write transaction.
pub(crate) fn recreate(connection: &Connection) -> OperationResult<()> {
    let mut tables = existing(connection)?;
    if tables.is_empty() {
        let sql =
            format!("CREATE VIRTUAL TABLE {TABLE} USING fts5(content, content=messages, content_rowid=id)");
        tables.push(Table { name: TABLE.to_owned(), layout: Layout::External, sql });
    }
    for table in &tables {
        drop_table(connection, &table.name)?;
        connection.execute_batch(&table.sql)?;
        // Merging eight segments at a time instead of four rewrites each entry less often while many messages are
        // added.
        let name = &table.name;
        connection.execute_batch(&format!("INSERT INTO {name}({name}, rank) VALUES ('automerge', 8)"))?;
        create_triggers(connection, table, Triggers::WhileRebuilding)?;
    }
    let target: i64 =
        connection.query_row("SELECT COALESCE(MAX(id), 0) FROM messages", [], |row| row.get(0))?;
    save(connection, RebuildPosition { cursor: 0, target })?;
    if target == 0 {
        finish(connection)?;
    } else {
        tracing::warn!(
            messages = target,
            "the search index was missing or damaged; rebuilding it in the background"
        );
    }
    Ok(())
}

/// Adds the next few rows. Runs inside a write transaction of its own.
pub(crate) fn step(connection: &Connection) -> OperationResult<RebuildProgress> {
    let Some(mut rebuild) = rebuild_state(connection)? else {
        return Ok(RebuildProgress::Done);
    };
    let tables = existing(connection)?;
    let mut rows = connection.prepare_cached(
        "SELECT id, length(content) + COALESCE(length(tool_calls), 0) FROM messages
         WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3",
    )?;
    let mut upto = rebuild.target;
    let mut bytes = 0_usize;
    let mut taken = 0_i64;
    let mut found = rows.query([rebuild.cursor, rebuild.target, STEP_ROWS])?;
    while let Some(row) = found.next()? {
        upto = row.get(0)?;
        taken += 1;
        bytes += usize::try_from(row.get::<_, Option<i64>>(1)?.unwrap_or(0)).unwrap_or(0);
        if bytes >= STEP_BYTES {
            break;
        }
    }
    drop(found);
    let ended = taken < STEP_ROWS && bytes < STEP_BYTES;
    for table in &tables {
        fill(connection, table, rebuild.cursor, upto)?;
    }
    rebuild.cursor = if ended { rebuild.target } else { upto };
    if rebuild.cursor >= rebuild.target {
        finish(connection)?;
        return Ok(RebuildProgress::Done);
    }
    save(connection, rebuild)?;
    Ok(RebuildProgress::More)
}

fn fill(connection: &Connection, table: &Table, after: i64, upto: i64) -> OperationResult<()> {
    let name = &table.name;
    let sql = match table.layout {
        Layout::External => format!(
            "INSERT INTO {name}(rowid, content) SELECT id, content FROM messages WHERE id > ?1 AND id <= ?2"
        ),
        Layout::Inline => format!(
            "INSERT OR REPLACE INTO {name}(rowid, content) SELECT id, {} FROM messages WHERE id > ?1 AND id <= ?2",
            inline_text("")
        ),
    };
    connection.prepare_cached(&sql)?.execute([after, upto])?;
    Ok(())
}

fn finish(connection: &Connection) -> OperationResult<()> {
    for table in existing(connection)? {
        drop_triggers(connection, &table.name)?;
        create_triggers(connection, &table, Triggers::Plain)?;
    }
    connection.execute("DELETE FROM hx_meta WHERE key = ?1", [META_KEY])?;
    tracing::debug!("the search index is complete");
    Ok(())
}

fn save(connection: &Connection, rebuild: RebuildPosition) -> OperationResult<()> {
    let json = format!("{{\"cursor\":{},\"target\":{}}}", rebuild.cursor, rebuild.target);
    connection.execute(
        "INSERT INTO hx_meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [META_KEY, &json],
    )?;
    Ok(())
}

/// Decides whether removals and changes must first check how far the rebuild has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Triggers {
    Plain,
    WhileRebuilding,
}

fn create_triggers(connection: &Connection, table: &Table, kind: Triggers) -> OperationResult<()> {
    for sql in trigger_sql(&table.name, table.layout, kind) {
        connection.execute_batch(&sql)?;
    }
    Ok(())
}

fn trigger_sql(name: &str, layout: Layout, kind: Triggers) -> [String; 3] {
    let reached = match (layout, kind) {
        (Layout::External, Triggers::WhileRebuilding) => format!(
            " WHEN NOT EXISTS (SELECT 1 FROM hx_meta WHERE key = '{META_KEY}'
                AND old.id > json_extract(value, '$.cursor') AND old.id <= json_extract(value, '$.target'))"
        ),
        // An inline index may be told to remove a row it does not hold, so no condition is needed.
        _ => String::new(),
    };
    let (add, remove) = match layout {
        Layout::External => (
            format!("INSERT INTO {name}(rowid, content) VALUES (new.id, new.content);"),
            format!("INSERT INTO {name}({name}, rowid, content) VALUES ('delete', old.id, old.content);"),
        ),
        Layout::Inline => (
            format!("INSERT INTO {name}(rowid, content) VALUES (new.id, {});", inline_text("new.")),
            format!("DELETE FROM {name} WHERE rowid = old.id;"),
        ),
    };
    [
        format!("CREATE TRIGGER {name}_insert AFTER INSERT ON messages BEGIN\n    {add}\nEND"),
        format!("CREATE TRIGGER {name}_delete AFTER DELETE ON messages{reached} BEGIN\n    {remove}\nEND"),
        format!(
            "CREATE TRIGGER {name}_update AFTER UPDATE ON messages{reached} BEGIN\n    {remove}\n    {add}\nEND"
        ),
    ]
}

/// The mechanism that updates the index for messages this process writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum IndexMaintenance {
    /// The file's triggers: always correct, but each message is flushed to the index separately.
    #[default]
    Triggers,
    /// The statements in this crate that add and remove messages. A whole transaction is then flushed at once,
    /// which is several times faster. Only for a file whose triggers do exactly what those statements do.
    Statements,
}

pub(crate) fn index_maintenance(connection: &Connection) -> OperationResult<IndexMaintenance> {
    let mut statement = connection.prepare("SELECT sql FROM sqlite_master WHERE type = 'trigger'")?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut found: Vec<String> = found.iter().map(|sql| normalize_sql(sql)).collect();
    let mut known = trigger_sql(TABLE, Layout::External, Triggers::Plain).map(|sql| normalize_sql(&sql));
    found.sort();
    known.sort();
    let external = matches!(existing(connection)?.as_slice(), [table] if table.layout == Layout::External);
    Ok(if external && found == known { IndexMaintenance::Statements } else { IndexMaintenance::Triggers })
}

/// Adds a message that was just stored.
pub(crate) fn add(connection: &Connection, id: i64, content: &str) -> OperationResult<()> {
    connection
        .prepare_cached("INSERT INTO messages_fts(rowid, content) VALUES (?1, ?2)")?
        .execute(params![id, content])?;
    Ok(())
}

/// Removes the messages of a session that is about to be deleted.
pub(crate) fn remove_session(connection: &Connection, session: &str) -> OperationResult<()> {
    remove_from(connection, session, 0)
}

/// Removes those of a session's messages that are about to be deleted: this one and all later.
pub(crate) fn remove_from(connection: &Connection, session: &str, first: i64) -> OperationResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO messages_fts(messages_fts, rowid, content)
             SELECT 'delete', id, content FROM messages WHERE session_id = ?1 AND id >= ?2",
        )?
        .execute(params![session, first])?;
    Ok(())
}

/// Removes a message whose content is about to change.
pub(crate) fn remove(connection: &Connection, id: i64) -> OperationResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO messages_fts(messages_fts, rowid, content) SELECT 'delete', id, content FROM messages WHERE id = ?1",
        )?
        .execute([id])?;
    Ok(())
}

/// Returns a declaration without the parts that do not change its meaning.
fn normalize_sql(sql: &str) -> String {
    let lower = sql.to_ascii_lowercase().replace("if not exists", "");
    lower.chars().filter(|c| !c.is_whitespace() && !matches!(c, '"' | '`' | ';')).collect()
}

fn inline_text(row: &str) -> String {
    format!(
        "COALESCE({row}content, '') || ' ' || COALESCE({row}tool_name, '') || ' ' || COALESCE({row}tool_calls, '')"
    )
}

fn existing(connection: &Connection) -> OperationResult<Vec<Table>> {
    let mut statement = connection.prepare(
        "SELECT name, sql FROM sqlite_master
         WHERE type = 'table' AND name IN ('messages_fts', 'messages_fts_trigram') AND sql LIKE '%fts5%'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let mut tables = Vec::new();
    for row in rows {
        let (name, sql) = row?;
        let is_external = normalize_sql(&sql).replace('\'', "").contains("content=messages");
        let layout = if is_external { Layout::External } else { Layout::Inline };
        tables.push(Table { name, layout, sql });
    }
    Ok(tables)
}

fn drop_triggers(connection: &Connection, table: &str) -> OperationResult<()> {
    for event in ["insert", "delete", "update"] {
        connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {table}_{event}"))?;
    }
    Ok(())
}

fn drop_table(connection: &Connection, name: &str) -> OperationResult<()> {
    drop_triggers(connection, name)?;
    if !schema::table_exists(connection, name)? {
        return Ok(());
    }
    let dropped =
        connection.execute_batch(&format!("SAVEPOINT drop_index; DROP TABLE {name}; RELEASE drop_index"));
    if dropped.is_ok() {
        return Ok(());
    }
    connection.execute_batch("ROLLBACK TO drop_index; RELEASE drop_index")?;
    forget_table(connection, name)
}

/// Removes an index that is too damaged to be dropped: once the catalogue no longer lists it, the tables behind it
/// are ordinary ones and can be dropped. A table that is itself damaged is only removed from the catalogue; its
/// pages stay unused until a repair.
fn forget_table(connection: &Connection, name: &str) -> OperationResult<()> {
    forget_entry(connection, name)?;
    for suffix in ["data", "idx", "content", "docsize", "config"] {
        let table = format!("{name}_{suffix}");
        let dropped = connection
            .execute_batch(&format!("SAVEPOINT drop_part; DROP TABLE IF EXISTS {table}; RELEASE drop_part"));
        if dropped.is_err() {
            connection.execute_batch("ROLLBACK TO drop_part; RELEASE drop_part")?;
            forget_entry(connection, &table)?;
        }
    }
    Ok(())
}

fn forget_entry(connection: &Connection, name: &str) -> OperationResult<()> {
    connection.execute_batch("PRAGMA writable_schema = ON")?;
    let forgotten = connection.execute("DELETE FROM sqlite_master WHERE tbl_name = ?1", [name]);
    // RESET makes this connection read the catalogue again; other connections notice by the changed cookie.
    let cookie: i64 = connection.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
    connection
        .execute_batch(&format!("PRAGMA schema_version = {}; PRAGMA writable_schema = RESET", cookie + 1))?;
    forgotten?;
    Ok(())
}
