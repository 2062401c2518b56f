//! Small databases of other parts of the program: named records, read and written by one process at a time.
//!
//! Holds no meaning of the records. Invariants: a write is one transaction, and is on disk when it returns; while a file is
//! open, no other process can open it, so that what a caller keeps in memory stays true.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::connection::{check_engine, open_exclusively};
use crate::error::{Error, Result};

/// An open file of records.
#[derive(Debug)]
pub struct NamedRecords {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// One change of a write. Records of one kind have unique names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordChange {
    Put { kind: &'static str, name: String, value: Vec<u8> },
    Remove { kind: &'static str, name: String },
}

impl NamedRecords {
    /// Opens the file, which is created if there is none. Fails with [`Error::Busy`] while another process has it open.
    pub fn open(path: &Path) -> Result<Self> {
        check_engine(path)?;
        let connection = open_exclusively(path)?;
        let file = Self { path: path.to_owned(), connection: Mutex::new(connection) };
        file.run(|connection| {
            // The first write takes the lock, which is kept from then on.
            connection.execute_batch(
                "BEGIN IMMEDIATE;
                 CREATE TABLE IF NOT EXISTS records (
                     kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, name)
                 ) WITHOUT ROWID;
                 COMMIT;",
            )
        })?;
        Ok(file)
    }

    /// Returns a record.
    pub fn get(&self, kind: &str, name: &str) -> Result<Option<Vec<u8>>> {
        self.run(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT value FROM records WHERE kind = ?1 AND name = ?2")?;
            statement.query_row(params![kind, name], |row| row.get(0)).optional()
        })
    }

    /// Returns up to `limit` records of a kind whose names begin with a text and come after another one, in the order of
    /// their names.
    pub fn list(
        &self,
        kind: &str,
        begin: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT name, value FROM records
                 WHERE kind = ?1 AND name >= ?2 AND substr(name, 1, length(?2)) = ?2 AND (?3 IS NULL OR name > ?3)
                 ORDER BY name LIMIT ?4",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement
                .query_map(params![kind, begin, after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
    }

    /// Returns the number of records of a kind.
    pub fn count(&self, kind: &str) -> Result<usize> {
        let count: i64 = self.run(|connection| {
            connection.query_row("SELECT COUNT(*) FROM records WHERE kind = ?1", [kind], |row| row.get(0))
        })?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Writes all of the changes or none, in their order.
    pub fn write(&self, changes: &[RecordChange]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.run(|connection| {
            let transaction = connection.transaction()?;
            for change in changes {
                match change {
                    RecordChange::Put { kind, name, value } => transaction
                        .prepare_cached(
                            "INSERT INTO records (kind, name, value) VALUES (?1, ?2, ?3)
                             ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value",
                        )?
                        .execute(params![kind, name, value])?,
                    RecordChange::Remove { kind, name } => transaction
                        .prepare_cached("DELETE FROM records WHERE kind = ?1 AND name = ?2")?
                        .execute(params![kind, name])?,
                };
            }
            transaction.commit()
        })
    }

    fn run<T>(&self, action: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T> {
        let mut connection: MutexGuard<'_, Connection> =
            self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        action(&mut connection).map_err(|error| Error::from_sqlite(&self.path, &error))
    }
}
