//! A small file that says what belongs to which task. Other releases and other processes write it too.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hermes_types::random_hex;
use serde_json::{Map, Value};

/// What a file says.
#[derive(Debug)]
pub(crate) enum RecordFile {
    Parsed(Map<String, Value>),
    /// It holds something else.
    Unreadable(serde_json::Error),
}

/// A file that is not there says nothing.
pub(crate) fn read(file: &Path) -> io::Result<RecordFile> {
    match std::fs::read(file) {
        Ok(bytes) => {
            Ok(serde_json::from_slice(&bytes).map_or_else(RecordFile::Unreadable, RecordFile::Parsed))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RecordFile::Parsed(Map::new())),
        Err(error) => Err(error),
    }
}

/// Replaces it as a whole.
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

/// Held while a file is read and replaced. It is its folder that is locked, because the file itself is another one afterwards.
pub(crate) fn lock(file: &Path) -> io::Result<File> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let held = File::open(folder)?;
    held.lock()?;
    Ok(held)
}
