//! The schema of the file, and the upgrade of older files.
//!
//! Invariant: the version is never lowered, nothing is dropped or renamed, and a file that already has everything
//! is opened without taking the write lock.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::{Error, OperationError, OperationResult};
use crate::index::{self, IndexMaintenance};

/// The version of files created here. Other programs raise it; this crate only adds columns up to it.
pub(crate) const VERSION: i64 = 6;

/// The newest version whose additions are known here.
const NEWEST_KNOWN: i64 = 22;

const BASE_SCHEMA: &str = include_str!("../schema/base.sql");
const INDICES: &str = include_str!("../schema/indices.sql");
const OWN_SCHEMA: &str = include_str!("../schema/own.sql");

/// The version of `own.sql`; raised when that file changes, so that existing files get the additions.
const OWN_VERSION: &str = "8";

/// The columns that were added later to this program's own tables.
const OWN_COLUMNS: &[(&str, &[(&str, &str)])] = &[("hx_inbox", &[("turn_id", "TEXT")])];

/// The columns that later versions of the baseline added, with the declarations other programs use.
const SESSION_COLUMNS: &[(&str, &str)] = &[
    ("title", "TEXT"),
    ("cache_read_tokens", "INTEGER DEFAULT 0"),
    ("cache_write_tokens", "INTEGER DEFAULT 0"),
    ("reasoning_tokens", "INTEGER DEFAULT 0"),
    ("billing_provider", "TEXT"),
    ("billing_base_url", "TEXT"),
    ("billing_mode", "TEXT"),
    ("estimated_cost_usd", "REAL"),
    ("actual_cost_usd", "REAL"),
    ("cost_status", "TEXT"),
    ("cost_source", "TEXT"),
    ("pricing_version", "TEXT"),
];
const MESSAGE_COLUMNS: &[(&str, &str)] = &[
    ("finish_reason", "TEXT"),
    ("reasoning", "TEXT"),
    ("reasoning_details", "TEXT"),
    ("codex_reasoning_items", "TEXT"),
];

/// The columns without which a file is not a Hermes database.
const REQUIRED: &[(&str, &[&str])] = &[
    ("sessions", &["id", "source", "started_at"]),
    ("messages", &["id", "session_id", "role", "content", "timestamp"]),
];

/// The optional columns this file has.
#[derive(Debug, Clone, Default)]
pub(crate) struct OptionalColumns {
    pub(crate) sessions: HashSet<String>,
    pub(crate) messages: HashSet<String>,
    /// True when the file has this program's own tables.
    pub(crate) has_own_tables: bool,
    pub(crate) index_maintenance: IndexMaintenance,
    /// SQLite's counter of schema changes, which shows when another program upgrades the file while it is open.
    cookie: i64,
}

impl OptionalColumns {
    pub(crate) fn read(connection: &Connection) -> OperationResult<Self> {
        Ok(Self {
            sessions: columns_of(connection, "sessions")?,
            messages: columns_of(connection, "messages")?,
            has_own_tables: table_exists(connection, "hx_session_notes")?,
            index_maintenance: index::index_maintenance(connection)?,
            cookie: schema_cookie(connection)?,
        })
    }

    /// Reads the columns again if the schema has changed; cheap when it has not.
    pub(crate) fn refresh(&mut self, connection: &Connection) -> OperationResult<SchemaRefresh> {
        if schema_cookie(connection)? == self.cookie {
            return Ok(SchemaRefresh::Unchanged);
        }
        *self = Self::read(connection)?;
        Ok(SchemaRefresh::Changed)
    }

    pub(crate) fn has_message(&self, column: &str) -> bool {
        self.messages.contains(column)
    }

    pub(crate) fn has_session(&self, column: &str) -> bool {
        self.sessions.contains(column)
    }
}

/// Tells whether the schema had changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaRefresh {
    Changed,
    Unchanged,
}

/// A notice for the user about the file that is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreNotice {
    /// A newer program created this file. It is used as it is, without changes to its schema.
    NewerVersion { version: i64 },
    /// The search index was missing or damaged and is being rebuilt while everything else works.
    IndexRebuilding,
}

impl std::fmt::Display for StoreNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NewerVersion { version } => write!(
                f,
                "state.db has schema version {version}, newer than the {NEWEST_KNOWN} known here; it is used without being changed"
            ),
            Self::IndexRebuilding => {
                f.write_str("the search index is being rebuilt; search works meanwhile, but slower")
            }
        }
    }
}

/// Creates or upgrades the schema of a new or older file, in one transaction.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> OperationResult<Vec<StoreNotice>> {
    let found = version_of(connection)?;
    let mut notices = Vec::new();
    if let Some(version) = found
        && version > NEWEST_KNOWN
    {
        notices.push(StoreNotice::NewerVersion { version });
    }
    if !is_current(connection, found)? {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have done it while this one waited for the lock; every step below is idempotent.
        upgrade(&transaction, path)?;
        transaction.commit()?;
    }
    if index::is_rebuilding(connection)? {
        notices.push(StoreNotice::IndexRebuilding);
    }
    Ok(notices)
}

fn is_current(connection: &Connection, version: Option<i64>) -> OperationResult<bool> {
    if version.is_none_or(|version| version < VERSION)
        || own_version(connection)?.as_deref() != Some(OWN_VERSION)
    {
        return Ok(false);
    }
    let columns = OptionalColumns::read(connection)?;
    let complete = SESSION_COLUMNS.iter().all(|(name, _)| columns.has_session(name))
        && MESSAGE_COLUMNS.iter().all(|(name, _)| columns.has_message(name));
    Ok(complete && index::exists(connection)?)
}

fn upgrade(connection: &Connection, path: &Path) -> OperationResult<()> {
    refuse_foreign_tables(connection, path)?;
    let version = version_of(connection)?;
    if version.is_none_or(|version| version <= VERSION) {
        connection.execute_batch(BASE_SCHEMA)?;
        add_missing(connection, "sessions", SESSION_COLUMNS)?;
        add_missing(connection, "messages", MESSAGE_COLUMNS)?;
        connection.execute_batch(INDICES)?;
        match version {
            None => {
                connection.execute("INSERT INTO schema_version (version) VALUES (?1)", [VERSION])?;
            }
            Some(older) if older < VERSION => {
                connection.execute("UPDATE schema_version SET version = ?1", [VERSION])?;
            }
            Some(_) => {}
        }
    }
    connection.execute_batch(OWN_SCHEMA)?;
    crate::conversation::list_bound_sessions(connection)?;
    for (table, columns) in OWN_COLUMNS {
        add_missing(connection, table, columns)?;
    }
    connection.execute(
        "INSERT INTO hx_meta (key, value) VALUES ('own_version', ?1)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [OWN_VERSION],
    )?;
    if !index::exists(connection)? {
        index::recreate(connection)?;
    }
    Ok(())
}

/// Refuses a database whose `sessions` table has another structure: it belongs to another program and must not be
/// changed.
fn refuse_foreign_tables(connection: &Connection, path: &Path) -> OperationResult<()> {
    for (table, required) in REQUIRED {
        let columns = columns_of(connection, table)?;
        if columns.is_empty() {
            continue;
        }
        let missing: Vec<_> = required.iter().filter(|name| !columns.contains(**name)).copied().collect();
        if !missing.is_empty() {
            return Err(OperationError::Refused(Error::Unusable {
                path: path.to_owned(),
                detail: format!(
                    "the table `{table}` lacks the columns {}; this is not a Hermes database. Nothing was changed; move the file away to start a new one",
                    missing.join(", ")
                ),
            }));
        }
    }
    Ok(())
}

fn add_missing(connection: &Connection, table: &str, declared: &[(&str, &str)]) -> OperationResult<()> {
    let present = columns_of(connection, table)?;
    for (name, declaration) in declared.iter().filter(|(name, _)| !present.contains(*name)) {
        connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {name} {declaration}"))?;
    }
    Ok(())
}

pub(crate) fn version_of(connection: &Connection) -> OperationResult<Option<i64>> {
    if !table_exists(connection, "schema_version")? {
        return Ok(None);
    }
    Ok(connection.query_row("SELECT MAX(version) FROM schema_version", [], |row| row.get(0))?)
}

fn own_version(connection: &Connection) -> OperationResult<Option<String>> {
    if !table_exists(connection, "hx_meta")? {
        return Ok(None);
    }
    let value =
        connection.query_row("SELECT value FROM hx_meta WHERE key = 'own_version'", [], |row| row.get(0));
    Ok(value.optional()?)
}

pub(crate) fn table_exists(connection: &Connection, name: &str) -> OperationResult<bool> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1")?;
    Ok(statement.exists([name])?)
}

pub(crate) fn columns_of(connection: &Connection, table: &str) -> OperationResult<HashSet<String>> {
    let mut statement = connection.prepare_cached("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

fn schema_cookie(connection: &Connection) -> OperationResult<i64> {
    Ok(connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))?)
}
