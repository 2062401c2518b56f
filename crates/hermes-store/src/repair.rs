//! Copies what can be read from a damaged file into a sound one.
//!
//! The damaged file is never changed: it is copied first, read row by row, and replaced only when the new file has
//! been checked. Messages whose session row is lost get a new one, so that every readable message is kept.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use hermes_types::random_hex;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use crate::connection;
use crate::error::{Error, OperationResult, Result};
use crate::{index, maintenance, schema};

/// The number of consecutive unreadable rows after which the rest of a table is skipped, unless its end is known.
const MAX_UNREADABLE_ROWS: i64 = 100_000;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The path of the copy of the damaged file.
    pub damaged_copy: PathBuf,
    pub sessions: u64,
    pub messages: u64,
    /// The number of places where rows could not be read.
    pub unreadable: u64,
    /// The number of sessions recreated for messages that had lost theirs.
    pub restored_sessions: u64,
}

/// The outcome of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairOutcome {
    /// The file was sound, and nothing was changed.
    Sound,
    Repaired(RepairReport),
}

/// Rebuilds the file from what can be read, unless it is sound. No process may have it open.
pub fn repair(path: &Path) -> Result<RepairOutcome> {
    connection::check_engine(path)?;
    if !path.exists() {
        return Err(Error::NotFound(format!("{}: there is no database here", path.display())));
    }
    if is_sound(path)? {
        return Ok(RepairOutcome::Sound);
    }
    rescue(path).map(RepairOutcome::Repaired)
}

/// Checks a copy: opening a file may roll its log forward, and the original must not change.
fn is_sound(path: &Path) -> Result<bool> {
    let looking = sibling(path, &format!("looking-{}", random_hex(8)));
    let copied = copy_all(path, &looking);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = copied.map(|()| {
        connection::open(&looking, flags).ok().and_then(|connection| maintenance::check(&connection).ok())
    });
    remove_all(&looking);
    let tables = |found: &maintenance::IntegrityReport| found.version.is_some();
    Ok(found?.is_some_and(|found| found.is_sound() && tables(&found)))
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for (from, to) in with_logs(from).into_iter().zip(with_logs(to)) {
        if from.exists() {
            fs::copy(&from, &to).map_err(|error| Error::from_io(&to, &error))?;
        }
    }
    Ok(())
}

fn remove_all(path: &Path) {
    for file in with_logs(path) {
        let _ = fs::remove_file(file);
    }
}

fn rescue(path: &Path) -> Result<RepairReport> {
    let kept = move_aside(path)?;
    let fresh = sibling(path, &format!("repaired-{}", random_hex(8)));
    let result = rebuild(path, &kept, &fresh);
    if result.is_err() {
        remove_all(&fresh);
    }
    result
}

/// Extends a truncated file to the length in its header: SQLite refuses a file that is shorter, and one whose
/// catalogue names pages that do not exist. The added pages are empty and are found damaged one by one. Where the
/// header names far more pages than there can have been, the header is corrected instead.
fn restore_length(path: &Path) -> std::io::Result<()> {
    /// The largest ratio of the length in the header to the actual length that is believed.
    const MAX_GROWTH_FACTOR: u64 = 64;
    const PAGE_SIZE_AT: usize = 16;
    const PAGE_COUNT_AT: usize = 28;
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    let mut header = [0_u8; 100];
    file.read_exact(&mut header)?;
    let read_u16 =
        |at: usize| -> Option<u16> { header.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes) };
    let read_u32 =
        |at: usize| -> Option<u32> { header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes) };
    let size = match read_u16(PAGE_SIZE_AT) {
        Some(1) => 65_536_u64,
        Some(size) if size >= 512 => u64::from(size),
        _ => return Ok(()),
    };
    let there = u32::try_from(file.metadata()?.len() / size).unwrap_or(u32::MAX);
    let Some(said) = read_u32(PAGE_COUNT_AT).filter(|said| *said > there && there > 0) else { return Ok(()) };
    if u64::from(said) <= u64::from(there) * MAX_GROWTH_FACTOR {
        file.set_len(u64::from(there) * size)?;
        return file.set_len(u64::from(said) * size);
    }
    file.seek(SeekFrom::Start(PAGE_COUNT_AT as u64))?;
    file.write_all(&there.to_be_bytes())
}

fn rebuild(path: &Path, kept: &Path, fresh: &Path) -> Result<RepairReport> {
    // The copy is read, not the original: opening a file may roll its log forward, and the original must not
    // change.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reading = sibling(path, &format!("reading-{}", random_hex(8)));
    copy_all(kept, &reading)?;
    if let Err(error) = restore_length(&reading) {
        tracing::debug!(%error, "the header of the damaged file could not be read");
    }
    let damaged = connection::open(&reading, flags)?;
    let (mut target, _) = connection::open_for_writing(fresh)?;
    let outcome =
        salvage(&damaged, &mut target, path).map_err(|fault| fault.into_error(path)).and_then(|counts| {
            let checked = maintenance::check(&target).map_err(|fault| fault.into_error(fresh))?;
            if checked.problems.is_empty() {
                return Ok(counts);
            }
            Err(Error::Damaged { path: fresh.to_owned(), detail: checked.problems.join("; ") })
        });
    drop(damaged);
    remove_all(&reading);
    let counts = outcome?;
    // Leaving the WAL mode merges the log into the file, so that one rename moves everything.
    target
        .query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .map_err(|error| Error::from_sqlite(fresh, &error))?;
    target.close().map_err(|(_, error)| Error::from_sqlite(fresh, &error))?;
    fs::File::open(fresh).and_then(|file| file.sync_all()).map_err(|error| Error::from_io(fresh, &error))?;
    fs::rename(fresh, path).map_err(|error| Error::from_io(path, &error))?;
    for log in with_logs(path).into_iter().skip(1) {
        let _ = fs::remove_file(log);
    }
    Ok(RepairReport { damaged_copy: kept.to_owned(), ..counts })
}

fn salvage(damaged: &Connection, target: &mut Connection, path: &Path) -> OperationResult<RepairReport> {
    let catalogue = read_catalogue(damaged)?;
    // Rows come in whatever order they can be read; references are corrected afterwards.
    target.execute_batch("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")?;
    let mut counts = RepairReport {
        damaged_copy: PathBuf::new(),
        sessions: 0,
        messages: 0,
        unreadable: 0,
        restored_sessions: 0,
    };
    for entry in catalogue.iter().filter(|entry| entry.is_plain_table()) {
        target.execute_batch(&entry.sql)?;
        let copied = copy_table(damaged, target, &entry.name, &mut counts.unreadable)?;
        match entry.name.as_str() {
            "sessions" => counts.sessions = copied,
            "messages" => counts.messages = copied,
            _ => {}
        }
    }
    target.execute_batch("COMMIT")?;
    schema::prepare(target, path)?;
    target.execute_batch("BEGIN IMMEDIATE")?;
    counts.restored_sessions = restore_sessions(target)?;
    for entry in catalogue.iter().filter(|entry| entry.is_index_table() || entry.kind != "table") {
        // Most of these exist by now, and a unique index may not fit the copied rows; neither stops the repair.
        if let Err(error) = target.execute_batch(&entry.sql) {
            tracing::debug!(name = entry.name, %error, "not recreated");
        }
    }
    index::recreate(target)?;
    while index::step(target)? == index::RebuildProgress::More {}
    target.execute_batch("COMMIT; PRAGMA foreign_keys = ON")?;
    Ok(counts)
}

/// An entry of the damaged file's catalogue.
struct CatalogEntry {
    kind: String,
    name: String,
    sql: String,
}

impl CatalogEntry {
    fn is_plain_table(&self) -> bool {
        self.kind == "table" && !self.name.starts_with("sqlite_") && !self.name.starts_with("messages_fts")
    }

    /// Tells whether this is the index's own table; the tables behind it are created with it.
    fn is_index_table(&self) -> bool {
        self.kind == "table" && matches!(self.name.as_str(), "messages_fts" | "messages_fts_trigram")
    }
}

fn read_catalogue(damaged: &Connection) -> OperationResult<Vec<CatalogEntry>> {
    let mut statement = damaged.prepare(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL
         ORDER BY CASE name WHEN 'sessions' THEN 0 WHEN 'messages' THEN 1 ELSE 2 END, rowid",
    )?;
    let rows = statement
        .query_map([], |row| Ok(CatalogEntry { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? }))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Copies every row that can be read, by row id.
fn copy_table(
    damaged: &Connection,
    target: &Connection,
    table: &str,
    unreadable: &mut u64,
) -> OperationResult<u64> {
    let names = declared_columns(target, table)?;
    let list = names.join(", ");
    let marks = vec!["?"; names.len()].join(", ");
    let mut insert = target.prepare(&format!("INSERT OR IGNORE INTO {table} ({list}) VALUES ({marks})"))?;
    let mut copied = 0;
    // Tables without row ids are small and belong to this program; they are read in one query.
    let keyed = damaged.prepare(&format!("SELECT rowid FROM {table} LIMIT 0")).is_ok();
    let select = if keyed {
        format!("SELECT rowid, {list} FROM {table} WHERE rowid > ?1 ORDER BY rowid")
    } else {
        format!("SELECT 0, {list} FROM {table} WHERE ?1 = ?1")
    };
    let end = if keyed { last_row_id(damaged, table) } else { None };
    let mut after = 0_i64;
    let mut blind = 0_i64;
    loop {
        let outcome = copy_from(damaged, &select, after, names.len(), &mut insert, |rowid| {
            after = rowid;
            blind = 0;
            copied += 1;
        })?;
        if outcome == RowScan::Finished || !keyed {
            *unreadable += u64::from(outcome == RowScan::Broken);
            break;
        }
        // The row after the last good one cannot be read, so it is skipped.
        *unreadable += u64::from(blind == 0);
        blind += 1;
        after += 1;
        if end.is_some_and(|end| after >= end) || (end.is_none() && blind > MAX_UNREADABLE_ROWS) {
            break;
        }
    }
    Ok(copied)
}

#[derive(PartialEq, Eq)]
enum RowScan {
    Finished,
    Broken,
}

/// Copies until the end or until a row cannot be read. Only failures of the target are errors.
fn copy_from(
    damaged: &Connection,
    select: &str,
    after: i64,
    width: usize,
    insert: &mut rusqlite::Statement<'_>,
    mut copied: impl FnMut(i64),
) -> OperationResult<RowScan> {
    let Ok(mut statement) = damaged.prepare_cached(select) else {
        return Ok(RowScan::Broken);
    };
    let Ok(mut rows) = statement.query([after]) else {
        return Ok(RowScan::Broken);
    };
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(RowScan::Finished),
            Err(_) => return Ok(RowScan::Broken),
        };
        let Ok(rowid) = row.get::<_, i64>(0) else {
            return Ok(RowScan::Broken);
        };
        let values: std::result::Result<Vec<Value>, _> =
            (1..=width).map(|at| row.get::<_, Value>(at)).collect();
        let Ok(values) = values else {
            return Ok(RowScan::Broken);
        };
        insert.execute(params_from_iter(values))?;
        copied(rowid);
    }
}

fn last_row_id(damaged: &Connection, table: &str) -> Option<i64> {
    let by_table = format!("SELECT MAX(rowid) FROM {table}");
    let by_counter = format!("SELECT seq FROM sqlite_sequence WHERE name = '{table}'");
    [by_table, by_counter]
        .iter()
        .filter_map(|sql| damaged.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).ok().flatten())
        .max()
}

fn declared_columns(connection: &Connection, table: &str) -> OperationResult<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT '\"' || name || '\"' FROM pragma_table_info(?1) ORDER BY cid")?;
    let rows = statement.query_map([table], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Corrects references: messages without a session get one, and references to missing parents are removed.
fn restore_sessions(target: &Connection) -> OperationResult<u64> {
    let restored = target.execute(
        "INSERT INTO sessions (id, source, started_at, message_count)
         SELECT session_id, 'recovered', MIN(timestamp), COUNT(*) FROM messages
         WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id",
        [],
    )?;
    target.execute_batch(
        "UPDATE sessions SET parent_session_id = NULL
            WHERE parent_session_id IS NOT NULL AND parent_session_id NOT IN (SELECT id FROM sessions);
         DELETE FROM hx_message_notes WHERE message_id NOT IN (SELECT id FROM messages);
         DELETE FROM hx_session_notes WHERE session_id NOT IN (SELECT id FROM sessions);
         DELETE FROM hx_goals WHERE session_id NOT IN (SELECT id FROM sessions);
         DELETE FROM hx_tool_calls WHERE turn_id NOT IN (SELECT id FROM hx_turns);",
    )?;
    Ok(restored as u64)
}

fn move_aside(path: &Path) -> Result<PathBuf> {
    let kept = (1..=u32::MAX)
        .map(|number| sibling(path, &format!("damaged-{number}")))
        .find(|kept| !kept.exists())
        .unwrap_or_else(|| sibling(path, "damaged"));
    copy_all(path, &kept)?;
    Ok(kept)
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{suffix}"));
    path.with_file_name(name)
}

/// Returns the paths of the file and its two log files.
fn with_logs(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}
