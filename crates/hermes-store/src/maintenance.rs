//! Integrity checks of the file, and copies of it while it is in use.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use hermes_types::random_hex;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::Store;
use crate::connection;
use crate::error::{Error, OperationResult, Result};
use crate::index;
use crate::pending_result::PendingResult;

/// The number of pages copied at a time; between two portions other threads can use the disk.
const BACKUP_PAGES: i32 = 512;

/// The number of pages of the search index merged at a time.
const MERGE_PAGES: i64 = 2000;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegrityReport {
    /// The problems SQLite reports; empty when the file is sound.
    pub problems: Vec<String>,
    /// The number of rows that refer to a row that does not exist.
    pub dangling_rows: u64,
    pub index: IndexHealth,
    pub version: Option<i64>,
}

/// The state of the search index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexHealth {
    Sound,
    /// The index is being rebuilt: `done` of `of` messages are indexed.
    Rebuilding {
        done: i64,
        of: i64,
    },
    Damaged(String),
    Missing,
}

impl IntegrityReport {
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && self.dangling_rows == 0 && self.index == IndexHealth::Sound
    }
}

impl Store {
    /// Checks the whole file. It only reads; other work continues meanwhile.
    pub fn check(&self) -> PendingResult<IntegrityReport> {
        let path = self.path().to_owned();
        let is_immutable = self.is_read_only();
        self.read(move |_| {
            // The check uses its own connection: one that has searched before keeps parts of the index in memory,
            // and SQLite's check then finds them inconsistent with what others have written since.
            let fresh = if is_immutable {
                connection::open_immutable(&path)?
            } else {
                connection::open_for_reading(&path)?
            };
            check(&fresh)
        })
    }

    /// Replaces the search index if it is damaged or missing; it is then rebuilt in the background.
    pub fn rebuild_index(&self) {
        self.replace_index();
    }

    /// Copies the database, as of this moment, into a new file that appears only when it is complete.
    ///
    /// Blocks only the calling thread while it copies.
    pub fn back_up(&self, target: &Path) -> Result<()> {
        let source = connection::open_for_reading(self.path())?;
        // An open read transaction fixes the state: writers continue, and the copy need not start over for them.
        let fail = |error: rusqlite::Error| Error::from_sqlite(self.path(), &error);
        source.execute_batch("BEGIN").map_err(fail)?;
        source.query_row("SELECT COUNT(*) FROM sqlite_master", [], |_| Ok(())).map_err(fail)?;
        copy_to_new_file(&source, target)
    }
}

/// What a compaction changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionReport {
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// Merges the search index and gives unused pages back. No other process may be writing: the last step holds the file
/// for as long as it takes to write it anew. Stopped at any point, it leaves the file as it was.
pub fn compact(path: &Path) -> Result<CompactionReport> {
    let size = || fs::metadata(path).map_or(0, |data| data.len());
    let bytes_before = size();
    let (connection, _) = connection::open_for_writing(path)?;
    let fail = |error: rusqlite::Error| Error::from_sqlite(path, &error);
    if index::exists(&connection).map_err(|fault| fault.into_error(path))? {
        merge_index(&connection).map_err(fail)?;
    }
    connection.execute_batch("VACUUM").map_err(fail)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(fail)?;
    Ok(CompactionReport { bytes_before, bytes_after: size() })
}

/// Merges the segments of the search index in steps, each its own transaction.
fn merge_index(connection: &Connection) -> rusqlite::Result<()> {
    // The negative number begins a merge of all segments; positive ones continue it. A step that changes fewer than two
    // rows had nothing left to do.
    let mut pages = -MERGE_PAGES;
    loop {
        let before = connection.total_changes();
        connection.execute("INSERT INTO messages_fts(messages_fts, rank) VALUES ('merge', ?1)", [pages])?;
        if connection.total_changes() - before < 2 {
            return Ok(());
        }
        pages = MERGE_PAGES;
    }
}

/// Writes a temporary file beside the target, syncs it, and renames it to the target.
pub(crate) fn copy_to_new_file(source: &Connection, target: &Path) -> Result<()> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}", random_hex(8)));
    let beside = target.with_file_name(name);
    let copied = copy(source, &beside).and_then(|()| {
        let finish = || {
            File::open(&beside)?.sync_all()?;
            fs::rename(&beside, target)?;
            let folder =
                target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()
        };
        finish().map_err(|error: std::io::Error| Error::from_io(target, &error))
    });
    if copied.is_err() {
        let _ = fs::remove_file(&beside);
    }
    copied
}

fn copy(source: &Connection, target: &Path) -> Result<()> {
    let fail = |error: rusqlite::Error| Error::from_sqlite(target, &error);
    let mut destination = connection::create_plain(target)?;
    {
        let backup = Backup::new(source, &mut destination).map_err(fail)?;
        loop {
            match backup.step(BACKUP_PAGES).map_err(fail)? {
                StepResult::Done => break,
                StepResult::More => {}
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
    // A copy is one file: there is no log beside it that could be left behind when it is moved.
    destination.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).map_err(fail)?;
    destination.close().map_err(|(_, error)| fail(error))
}

pub(crate) fn check(connection: &Connection) -> OperationResult<IntegrityReport> {
    let mut statement = connection.prepare("PRAGMA integrity_check(100)")?;
    let lines: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let (index_lines, problems): (Vec<_>, Vec<_>) =
        lines.into_iter().filter(|line| line != "ok").partition(|line| line.contains("messages_fts"));
    let dangling = connection.prepare("PRAGMA foreign_key_check")?.query_map([], |_| Ok(()))?.count() as u64;
    let index = match (index::rebuild_state(connection)?, index_lines.first()) {
        (Some(rebuild), _) => IndexHealth::Rebuilding { done: rebuild.cursor, of: rebuild.target },
        (None, Some(line)) => IndexHealth::Damaged(line.clone()),
        (None, None) if !index::exists(connection)? => IndexHealth::Missing,
        (None, None) => match probe_index(connection) {
            Ok(()) => IndexHealth::Sound,
            Err(error) => IndexHealth::Damaged(error.to_string()),
        },
    };
    Ok(IntegrityReport {
        problems,
        dangling_rows: dangling,
        index,
        version: crate::schema::version_of(connection)?,
    })
}

fn probe_index(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare("SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'a*' LIMIT 1")?.exists([])?;
    Ok(())
}
