//! Files that a page makes the browser save.
//!
//! The browser writes each under a random name; when it is complete, it gets a name that no other file has. Invariant: no
//! name that a page chose leads out of the folder, and no file grows beyond the limit.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::pages::DownloadReport;

/// The largest file that is saved.
pub(crate) const LARGEST: u64 = 200 * 1024 * 1024;
const LONGEST_NAME: usize = 100;

/// The downloads that are running, by the browser's id.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    /// Where files are saved; `None` where the browser runs on another machine.
    pub(crate) folder: Option<PathBuf>,
    running: HashMap<String, String>,
}

/// What to do after a progress event.
#[derive(Debug)]
pub(crate) enum DownloadStep {
    Continue,
    /// It is too large.
    Cancel,
    Ended(DownloadReport),
}

impl Downloads {
    pub(crate) fn begin(&mut self, id: &str, name: &str) {
        self.running.insert(id.to_owned(), safe_name(name));
    }

    pub(crate) fn owns(&self, id: &str) -> bool {
        self.running.contains_key(id)
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    pub(crate) fn progress(&mut self, id: &str, state: &str, received: u64, total: u64) -> DownloadStep {
        let is_too_large = received > LARGEST || total > LARGEST;
        match state {
            "inProgress" if is_too_large => DownloadStep::Cancel,
            "inProgress" => DownloadStep::Continue,
            _ => {
                let Some(name) = self.running.remove(id) else { return DownloadStep::Continue };
                let failed =
                    |reason: &str| DownloadReport::Failed { name: name.clone(), reason: reason.to_owned() };
                DownloadStep::Ended(match (&self.folder, state) {
                    (Some(folder), "completed") => match keep(folder, id, &name) {
                        Ok(path) => DownloadReport::Saved { path, bytes: received },
                        Err(error) => failed(&error.to_string()),
                    },
                    (None, _) => failed("the browser runs on another machine, where its files stay"),
                    _ if is_too_large => failed("it is larger than 200 MB"),
                    _ => failed("it was cancelled"),
                })
            }
        }
    }
}

/// Moves a complete file to a name of its own.
fn keep(folder: &Path, id: &str, name: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    if !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
    }
    let saved = folder.join(id);
    std::fs::set_permissions(&saved, std::fs::Permissions::from_mode(0o600))?;
    let short: String = hermes_types::random_hex(6);
    let path = folder.join(format!("download_{short}_{name}"));
    std::fs::rename(&saved, &path)?;
    Ok(path)
}

/// Returns a name without anything that means something in a path or in a shell.
fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept = last.chars().filter(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' '));
    let name: String = kept.take(LONGEST_NAME).collect();
    let name = name.trim().trim_start_matches('.').to_owned();
    if name.is_empty() { "file".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for (given, kept) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("..", "file"),
            ("C:\\x\\a b.txt", "a b.txt"),
            (".bashrc", "bashrc"),
            ("$(id)`x`;y", "idxy"),
            ("", "file"),
        ] {
            assert_eq!(safe_name(given), kept, "{given}");
        }
    }

    #[test]
    fn a_complete_file_gets_its_name_and_a_large_one_is_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let mut downloads = Downloads { folder: Some(folder.path().to_owned()), ..Downloads::default() };
        downloads.begin("guid-1", "a.txt");
        std::fs::write(folder.path().join("guid-1"), "x").unwrap();
        assert!(matches!(downloads.progress("guid-1", "inProgress", 1, 1), DownloadStep::Continue));
        let DownloadStep::Ended(DownloadReport::Saved { path, bytes: 1 }) =
            downloads.progress("guid-1", "completed", 1, 1)
        else {
            panic!("not saved")
        };
        assert!(path.to_string_lossy().ends_with("_a.txt"), "{path:?}");
        downloads.begin("guid-2", "b");
        assert!(matches!(downloads.progress("guid-2", "inProgress", LARGEST + 1, 0), DownloadStep::Cancel));
        assert!(matches!(
            downloads.progress("guid-2", "canceled", LARGEST + 1, 0),
            DownloadStep::Ended(DownloadReport::Failed { .. })
        ));
        assert!(!downloads.is_running());
    }
}
