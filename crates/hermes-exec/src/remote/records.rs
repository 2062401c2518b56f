//! A small file that records what belongs to which task. Other releases and other processes write it too.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hermes_types::random_hex;
use serde_json::{Map, Value};

/// The content of a record file.
#[derive(Debug)]
pub(crate) enum RecordFile {
    Parsed(Map<String, Value>),
    /// The file holds something else.
    Unreadable(serde_json::Error),
}

/// Reads the file; a missing file has no records.
pub(crate) fn read(file: &Path) -> io::Result<RecordFile> {
    match std::fs::read(file) {
        Ok(bytes) => {
            Ok(serde_json::from_slice(&bytes).map_or_else(RecordFile::Unreadable, RecordFile::Parsed))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RecordFile::Parsed(Map::new())),
        Err(error) => Err(error),
    }
}

/// Replaces the whole file.
pub(crate) fn write(file: &Path, records: Map<String, Value>) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let beside = file.with_extension(format!("{}.new", random_hex(8)));
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    new.write_all(Value::Object(records).to_string().as_bytes())?;
    new.sync_all()?;
    std::fs::rename(&beside, file)
}

/// Locks the file for reading and replacing. The lock is on its folder, because the file itself is replaced
/// by another one.
pub(crate) fn lock(file: &Path) -> io::Result<File> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let held = File::open(folder)?;
    held.lock()?;
    Ok(held)
}
