//! Opens the file. This is the only module in the workspace that does, and it decides how the file is accessed.
//!
//! Invariant: a connection that leaves this module has foreign keys on, waits at most a second for a lock by
//! itself, and never follows the file into a state it cannot write back safely.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};

/// The oldest SQLite version that is safe: older ones can corrupt a database when a write-ahead log is reset at
/// the wrong moment.
const OLDEST_SAFE_SQLITE: i32 = 3_051_003;

pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// The journal mode of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalMode {
    WriteAheadLog,
    /// A rollback journal, because the file system has no shared memory; readers and the writer wait for each
    /// other.
    Rollback,
}

/// Refuses to run with an SQLite version that is known to lose data.
pub(crate) fn check_engine(path: &Path) -> Result<()> {
    if rusqlite::version_number() >= OLDEST_SAFE_SQLITE {
        return Ok(());
    }
    Err(Error::Unusable {
        path: path.to_owned(),
        detail: format!(
            "this build carries SQLite {}, which can corrupt databases; build with 3.51.3 or newer",
            rusqlite::version()
        ),
    })
}

/// Opens the connection for all writes.
pub(crate) fn open_for_writing(path: &Path) -> Result<(Connection, JournalMode)> {
    prepare_file(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open(path, flags)?;
    let fail = |error: rusqlite::Error| Error::from_sqlite(path, &error);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    let journal = choose_journal(&connection, path)?;
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 67108864;
             PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4000;",
        )
        .map_err(fail)?;
    Ok((connection, journal))
}

/// Opens a connection that no other process shares: it keeps the lock it takes first, and every commit is synced.
pub(crate) fn open_exclusively(path: &Path) -> Result<Connection> {
    prepare_file(path)?;
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let fail = |error: rusqlite::Error| Error::from_sqlite(path, &error);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    connection
        .execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA journal_size_limit = 1048576; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -256;",
        )
        .map_err(fail)?;
    Ok(connection)
}

/// Opens a connection that only reads. It sees the last committed state and never delays the writer.
pub(crate) fn open_for_reading(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open(path, flags)?;
    let fail = |error: rusqlite::Error| Error::from_sqlite(path, &error);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -500; PRAGMA temp_store = MEMORY;")
        .map_err(fail)?;
    Ok(connection)
}

/// Opens a connection that only writes the log back. It uses almost no memory.
pub(crate) fn open_for_checkpoints(path: &Path) -> Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -64;")
        .map_err(|error| Error::from_sqlite(path, &error))?;
    Ok(connection)
}

/// Opens a connection to a file in a location that cannot be written. Reads are correct only while no other
/// program writes there either.
pub(crate) fn open_immutable(path: &Path) -> Result<Connection> {
    let escaped: String = path.to_string_lossy().chars().fold(String::new(), |mut uri, c| {
        match c {
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            '%' => uri.push_str("%25"),
            c => uri.push(c),
        }
        uri
    });
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    open(Path::new(&format!("file:{escaped}?immutable=1")), flags)
}

/// Creates a file only its owner can access, without this crate's settings: the target of a copy.
pub(crate) fn create_plain(path: &Path) -> Result<Connection> {
    prepare_file(path)?;
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

#[expect(clippy::disallowed_methods, reason = "this crate is the one that opens SQLite")]
pub(crate) fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let fail = |error: rusqlite::Error| Error::from_sqlite(path, &error);
    let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    // Without this, SQLite plans a statement again for every new bound value, which costs more than running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(fail)?;
    Ok(connection)
}

/// Creates the file with access for its owner alone, before SQLite can create it with access for everyone. The log
/// files get the same mode.
fn prepare_file(path: &Path) -> Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            tighten_mode(path);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            Err(Error::DiskFull { path: path.to_owned() })
        }
        Err(error) => Err(Error::ReadOnly { path: path.to_owned(), detail: error.to_string() }),
    }
}

/// Restricts the mode of the file, because other programs create it readable for everyone. A failure is not an
/// error.
fn tighten_mode(path: &Path) {
    let Ok(meta) = fs::metadata(path) else { return };
    if meta.permissions().mode() & 0o077 != 0
        && let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(0o600))
    {
        tracing::debug!(path = %path.display(), %error, "could not restrict the database to its owner");
    }
}

fn choose_journal(connection: &Connection, path: &Path) -> Result<JournalMode> {
    let asked = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
    match asked {
        Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(JournalMode::WriteAheadLog),
        // Only a change of the mode needs the lock; a file that is in use already has a mode.
        Err(error) if matches!(Error::from_sqlite(path, &error), Error::Busy { .. }) => {
            let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
            if mode.is_ok_and(|mode| mode.eq_ignore_ascii_case("wal")) {
                return Ok(JournalMode::WriteAheadLog);
            }
        }
        Err(error) => {
            let error = Error::from_sqlite(path, &error);
            if matches!(error, Error::Damaged { .. } | Error::DiskFull { .. } | Error::ReadOnly { .. }) {
                return Err(error);
            }
        }
        Ok(_) => {}
    }
    let fallback = connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
    fallback.map_err(|error| Error::from_sqlite(path, &error))?;
    tracing::warn!(
        path = %path.display(),
        "this file system does not support a write-ahead log; using a rollback journal, which is slower"
    );
    Ok(JournalMode::Rollback)
}
