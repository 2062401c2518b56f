//! The batch files of a run: appended to line by line, and read to find out what is done.
//!
//! Invariant: a line is one write. What a killed process left of a line is ended first, so that the next record stands on a line of
//! its own.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::record::RecordIdentity;
use crate::error::Error;

/// Writes the records of a run.
#[derive(Debug)]
pub(super) struct RecordFiles {
    folder: PathBuf,
    /// The batches whose files were written to since they were synced.
    changed: Mutex<BTreeSet<usize>>,
}

impl RecordFiles {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), changed: Mutex::default() }
    }

    fn path(&self, batch: usize) -> PathBuf {
        self.folder.join(format!("batch_{batch}.jsonl"))
    }

    /// Adds a line to the file of a batch.
    pub(super) fn append(&self, batch: usize, line: &str) -> Result<(), Error> {
        let path = self.path(batch);
        // Also keeps two conversations of one batch from writing at once.
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(&path)?;
            let mut text = String::with_capacity(line.len() + 2);
            if ends_within_a_line(&mut file)? {
                text.push('\n');
            }
            text.push_str(line);
            text.push('\n');
            file.write_all(text.as_bytes())
        };
        write().map_err(Error::file(&path))?;
        changed.insert(batch);
        Ok(())
    }

    /// Makes what was written survive a power failure.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        for batch in changed {
            let path = self.path(batch);
            File::open(&path).and_then(|file| file.sync_data()).map_err(Error::file(&path))?;
        }
        Ok(())
    }
}

fn ends_within_a_line(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Returns the batch files of a folder, ordered by their names as text.
pub(crate) fn batch_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file(folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(Error::file(folder))?.file_name().to_string_lossy().into_owned();
        if name.starts_with("batch_") && Path::new(&name).extension().is_some_and(|ending| ending == "jsonl")
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Calls `take` with each line of a file. A line that is not UTF-8 is passed on as `None`.
pub(crate) fn each_line(
    path: &Path,
    mut take: impl FnMut(Option<&str>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = BufReader::with_capacity(128 * 1024, File::open(path).map_err(Error::file(path))?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(Error::file(path))? == 0 {
            return Ok(());
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if !text.trim_ascii().is_empty() {
            take(std::str::from_utf8(text).ok())?;
        }
    }
}

/// Calls `take` with what each record of a run belongs to.
pub(super) fn each_record(folder: &Path, mut take: impl FnMut(RecordIdentity)) -> Result<(), Error> {
    for path in batch_files(folder)? {
        each_line(&path, |line| {
            if let Some(record) = line.and_then(RecordIdentity::read) {
                take(record);
            }
            Ok(())
        })?;
    }
    Ok(())
}
