//! Credential files of the Hermes home that commands in remote environments may use: tokens of tools the user
//! works with.
//!
//! Only files that the user or a skill names are passed on, and only from below the Hermes home. Containers
//! get them as mounts. Where nothing can be mounted they are uploaded to `~/.hermes` of the environment, and
//! again when they change.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hermes_types::{Cancel, Environment};

use crate::capture::OutputBounds;
use crate::remote::{RemoteFiles, ShellHost};

/// The largest size of a file that is accepted as a credential.
const MOST_BYTES: u64 = 1024 * 1024;

/// A file that a remote environment sees below `.hermes` in its home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialFile {
    pub host: PathBuf,
    /// The path below the Hermes home, checked not to leave it.
    pub relative: String,
}

/// The credential files of this run; clones share them.
#[derive(Debug, Clone)]
pub struct CredentialFiles {
    home: PathBuf,
    files: Arc<Mutex<Vec<CredentialFile>>>,
}

impl CredentialFiles {
    /// Returns an empty list for this Hermes home.
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), files: Arc::default() }
    }

    /// Adds a file by its path below the Hermes home. The error says why a file is refused.
    pub fn add(&self, relative: &str) -> Result<(), String> {
        let path = Path::new(relative.trim());
        let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if relative.trim().is_empty() || !plain || relative.contains([':', '\0', '\n']) {
            return Err(format!(
                "`{relative}` is not used as a credential file: give a path below the Hermes home, without `..`"
            ));
        }
        let host = self.home.join(path);
        let real = host.canonicalize().ok().filter(|real| real.is_file());
        let Some(real) = real else {
            return Err(format!("the credential file {} does not exist", host.display()));
        };
        if !self.home.canonicalize().is_ok_and(|home| real.starts_with(home)) {
            return Err(format!(
                "the credential file {} leads out of the Hermes home; it is not used",
                host.display()
            ));
        }
        let credential = CredentialFile { host: real, relative: path.to_string_lossy().into_owned() };
        let mut named = lock(&self.files);
        if !named.contains(&credential) {
            named.push(credential);
        }
        Ok(())
    }

    pub fn list(&self) -> Vec<CredentialFile> {
        lock(&self.files).clone()
    }
}

/// Records what was uploaded to an environment, so that only changed files are uploaded again.
#[derive(Debug)]
pub(crate) struct CredentialUploader {
    credentials: CredentialFiles,
    uploaded: tokio::sync::Mutex<HashMap<String, UploadedFile>>,
}

/// The state of a file when it was uploaded, and the generation of the environment it was uploaded to.
#[derive(Debug, PartialEq, Eq)]
struct UploadedFile {
    instance: Option<String>,
    modified: Option<SystemTime>,
    length: u64,
}

impl CredentialUploader {
    pub(crate) fn new(credentials: CredentialFiles) -> Self {
        Self { credentials, uploaded: tokio::sync::Mutex::default() }
    }

    /// Uploads what the environment behind `there` does not have yet.
    pub(crate) async fn upload(
        &self,
        there: &dyn Environment,
        site: &dyn ShellHost,
        bounds: OutputBounds,
        cancel: &Cancel,
    ) {
        let files = RemoteFiles::new(there, bounds);
        for credential in self.credentials.list() {
            let mut brought = self.uploaded.lock().await;
            let Some(mut now) = UploadedFile::of(&credential.host) else { continue };
            now.instance = site.instance_id().await;
            if brought.get(&credential.relative) == Some(&now) && now.instance.is_some() {
                continue;
            }
            let path = format!("~/.hermes/{}", credential.relative);
            let Ok(bytes) = std::fs::read(&credential.host) else { continue };
            match files.write_private(&path, &bytes, cancel).await {
                Ok(()) => {
                    now.instance = site.instance_id().await;
                    brought.insert(credential.relative, now);
                }
                Err(error) => {
                    tracing::warn!(%error, file = credential.relative, "a credential file could not be brought");
                    return;
                }
            }
        }
    }
}

impl UploadedFile {
    fn of(file: &Path) -> Option<Self> {
        let meta = std::fs::metadata(file).ok().filter(|meta| meta.len() <= MOST_BYTES)?;
        Some(Self { instance: None, modified: meta.modified().ok(), length: meta.len() })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_home_are_taken() {
        let top = tempfile::tempdir().unwrap();
        let home = top.path().join("home");
        std::fs::create_dir_all(home.join("google")).unwrap();
        std::fs::write(home.join("google/token.json"), "t").unwrap();
        std::fs::write(top.path().join("outside"), "o").unwrap();
        std::os::unix::fs::symlink(top.path().join("outside"), home.join("link")).unwrap();
        let credentials = CredentialFiles::new(&home);
        for refused in
            ["", "/etc/passwd", "../outside", "google/../../outside", "link", "missing", "google", "a:b"]
        {
            assert!(credentials.add(refused).is_err(), "{refused}");
        }
        credentials.add("google/token.json").unwrap();
        credentials.add("google/token.json").unwrap();
        let listed = credentials.list();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].relative, "google/token.json");
    }
}
