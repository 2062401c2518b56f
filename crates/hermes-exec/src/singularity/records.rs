//! The file that records which overlay belongs to which task. Other releases write it too.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::remote::records::{self, RecordFile};

/// Returns the task's overlay as recorded; `usual` is recorded if there is none.
pub(super) fn overlay_of(file: &Path, task: &str, usual: PathBuf) -> io::Result<PathBuf> {
    let _alone = records::lock(file)?;
    let mut known = match records::read(file)? {
        RecordFile::Parsed(known) => known,
        RecordFile::Unreadable(error) => {
            // The usual overlay follows from the task's name, so the file is not needed; it is left
            // unchanged.
            tracing::warn!(%error, file = %file.display(), "the list of overlays cannot be read; it is left alone");
            return Ok(usual);
        }
    };
    if let Some(folder) =
        known.get(task).and_then(Value::as_str).map(PathBuf::from).filter(|folder| folder.is_absolute())
    {
        return Ok(folder);
    }
    known.insert(task.to_owned(), Value::String(usual.to_string_lossy().into_owned()));
    records::write(file, known)?;
    Ok(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_holds_and_what_cannot_be_read_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("home/snapshots.json");
        let overlay = |task: &str, usual: &str| overlay_of(&file, task, PathBuf::from(usual)).unwrap();
        assert_eq!(overlay("a", "/o/a"), Path::new("/o/a"));
        assert_eq!(overlay("b", "/o/b"), Path::new("/o/b"));
        assert_eq!(overlay("a", "/other"), Path::new("/o/a"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), r#"{"a":"/o/a","b":"/o/b"}"#);
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(overlay("a", "/x"), Path::new("/x"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "nonsense");
    }
}
