//! The file that records the image from which a task's next sandbox starts.
//!
//! A file that cannot be read is moved aside and never overwritten: an image is all that is left of a
//! sandbox.

use std::io;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::remote::records::{self, RecordFile};

#[derive(Debug)]
pub(super) struct ModalSnapshots(pub(super) PathBuf);

impl ModalSnapshots {
    /// Returns the image of this task, if there is one.
    pub(super) fn image_of(&self, task: &str) -> Option<String> {
        match records::read(&self.0) {
            Ok(RecordFile::Parsed(known)) => known.get(task).and_then(Value::as_str).map(str::to_owned),
            Ok(RecordFile::Unreadable(error)) => self.report_unreadable(&error),
            Err(error) => self.report_unreadable(&error),
        }
    }

    pub(super) fn save(&self, task: &str, image: &str) -> io::Result<()> {
        let _alone = records::lock(&self.0)?;
        let mut known = match records::read(&self.0)? {
            RecordFile::Parsed(known) => known,
            RecordFile::Unreadable(_) => {
                std::fs::rename(&self.0, self.0.with_extension("json.unreadable"))?;
                Map::new()
            }
        };
        known.insert(task.to_owned(), Value::String(image.to_owned()));
        records::write(&self.0, known)
    }

    fn report_unreadable(&self, error: &dyn std::error::Error) -> Option<String> {
        tracing::warn!(%error, file = %self.0.display(), "the list of snapshots cannot be read");
        None
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_kept_is_private_and_what_cannot_be_read_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("home/modal_snapshots.json");
        let snapshots = ModalSnapshots(file.clone());
        assert_eq!(snapshots.image_of("a"), None);
        snapshots.save("a", "im-1").unwrap();
        snapshots.save("b", "im-2").unwrap();
        snapshots.save("a", "im-3").unwrap();
        assert_eq!(
            (snapshots.image_of("a").as_deref(), snapshots.image_of("b").as_deref()),
            (Some("im-3"), Some("im-2"))
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), r#"{"a":"im-3","b":"im-2"}"#);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(snapshots.image_of("a"), None);
        snapshots.save("a", "im-4").unwrap();
        assert_eq!(snapshots.image_of("a").as_deref(), Some("im-4"));
        let aside = std::fs::read_to_string(file.with_extension("json.unreadable")).unwrap();
        assert_eq!(aside, "nonsense");
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 2);
    }
}
