//! The files of the remote environment that a task's commands run in.
//!
//! They are accessed by running commands in that environment. The same rules apply to names and sizes as on
//! this machine; snapshots and linters, which only this machine has, do not cover these files.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hermes_exec::{HostExposure, RemoteFileError, RemoteFiles, RemotePathInfo, RemotePathKind, shell_quote};
use hermes_types::{Cancel, ToolOutcome};
use tokio::runtime::Handle;

use super::file_system::{FileLocation, FileSystem, PathInfo, PathKind};
use super::guard::clean;
use super::state::FileStamp;
use super::{FileTools, ReadRefusal};
use crate::search_files::{self, Query};
use crate::terminal::environment_pool::PoolGuard;

/// The maximum size of a file that is fetched as a whole.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The file system of a remote environment for one task. It must be used on a thread outside the runtime.
pub(crate) struct RemoteFs {
    pub(super) files: FileTools,
    pub(super) guard: PoolGuard,
    pub(super) runtime: Handle,
    pub(super) cancel: Cancel,
    /// The task's current folder.
    pub(super) folder: String,
    pub(super) home: String,
    pub(super) host_exposure: HostExposure,
    /// The paths inspected during this call, because each lookup is a round trip over a possibly slow
    /// connection.
    pub(super) known: Mutex<HashMap<PathBuf, FoundThere>>,
}

/// An inspected path, with the content of the file if known. A file that has changed since is not overwritten.
#[derive(Debug, Clone)]
pub(super) struct FoundThere {
    seen: PathInfo,
    content: Option<Vec<u8>>,
}

impl RemoteFs {
    fn block_on<T>(
        &self,
        ask: impl AsyncFnOnce(RemoteFiles<'_>, &Cancel) -> Result<T, RemoteFileError>,
    ) -> io::Result<T> {
        self.runtime.block_on(ask(self.guard.files(), &self.cancel)).map_err(failure)
    }

    /// Runs a script in the environment and returns up to `most` bytes of its output and its exit code.
    pub(crate) fn output_of(&self, script: &str, most: usize) -> io::Result<(Vec<u8>, i32)> {
        self.block_on(async |files, cancel| files.output_of(script, most, cancel).await)
    }

    pub(crate) fn files(&self) -> &FileTools {
        &self.files
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, FoundThere>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, path: &Path, survey: RemotePathInfo) -> PathInfo {
        let (kind, size) = match survey.kind {
            RemotePathKind::Missing => (PathKind::Missing, 0),
            RemotePathKind::File { size } => (PathKind::File, size),
            RemotePathKind::Folder => (PathKind::Folder, 0),
            RemotePathKind::Other => (PathKind::Other, 0),
        };
        let modified = survey.modified.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let stamp = modified
            .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since))
            .map(|modified| FileStamp { modified, len: size });
        let seen = PathInfo { real: PathBuf::from(survey.real), kind, size, stamp };
        let found = FoundThere { seen: seen.clone(), content: survey.content };
        let mut known = self.known();
        known.insert(seen.real.clone(), found.clone());
        known.insert(path.to_owned(), found);
        seen
    }
}

impl FileSystem for RemoteFs {
    fn resolve(&self, given: &str) -> PathBuf {
        let given = given.trim();
        let joined = match given.strip_prefix('~') {
            Some("") => PathBuf::from(&self.home),
            Some(rest) if rest.starts_with('/') => Path::new(&self.home).join(rest.trim_start_matches('/')),
            _ => Path::new(&self.folder).join(given),
        };
        clean(&joined)
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        if let Some(found) = self.known().get(path) {
            return Ok(found.seen.clone());
        }
        let found = self.block_on(async |files, cancel| files.path_info(&text(path), cancel).await)?;
        Ok(self.keep(path, found))
    }

    fn exists(&self, path: &Path) -> bool {
        if self.known().get(path).is_some_and(|found| found.seen.kind != PathKind::Missing) {
            return true;
        }
        let script = format!("p={}; [ -e \"$p\" ] || [ -L \"$p\" ]", shell_quote(&text(path)));
        self.output_of(&script, 1).is_ok_and(|(_, code)| code == 0)
    }

    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if let Some(content) = self.known().get(path).and_then(|found| found.content.as_ref()) {
            return Ok(content.get(..most).unwrap_or(content).to_vec());
        }
        self.block_on(async |files, cancel| files.read(&text(path), 0, most, cancel).await)
    }

    fn replace(&self, path: &Path, content: &str) -> io::Result<()> {
        let before = self.known().get(path).and_then(|found| found.content.clone());
        self.known().clear();
        let written = self.block_on(async |files, cancel| {
            files.replace(&text(path), before.as_deref(), content.as_bytes(), cancel).await
        })?;
        self.keep(path, written);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.known().clear();
        self.block_on(async |files, cancel| files.remove(&text(path), cancel).await)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.known().clear();
        self.block_on(async |files, cancel| files.rename(&text(from), &text(to), cancel).await)
    }

    fn names(&self, folder: &Path, most: usize) -> Vec<String> {
        self.block_on(async |files, cancel| files.names(&text(folder), most, cancel).await)
            .unwrap_or_default()
    }

    fn read_refusal(&self, path: &Path, seen: &PathInfo) -> Option<ReadRefusal> {
        let guard = &self.files.guard;
        guard.name_refusal(path).or_else(|| guard.name_refusal(&seen.real))
    }

    /// Protects the home of a remote machine, which is the user's. The home inside a container needs no
    /// protection.
    fn write_refusal(&self, given: &str, path: &Path, seen: &PathInfo) -> Option<String> {
        let guard = &self.files.guard;
        let mut homes = vec![guard.user_home().to_owned()];
        if self.host_exposure == HostExposure::UserFiles {
            homes.push(PathBuf::from(&self.home));
        }
        let roots = &self.files.options.write_roots;
        let refuse = |path: &Path| guard.write_refusal(given, path, &homes, roots);
        refuse(path).or_else(|| refuse(&seen.real))
    }

    fn search(&self, query: &Query, _: &Cancel) -> Result<search_files::FileSearchResult, ToolOutcome> {
        search_files::search_remote(query, self)
    }

    fn most_bytes(&self) -> u64 {
        MOST_BYTES
    }

    fn location(&self) -> FileLocation {
        FileLocation::Remote
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn failure(error: RemoteFileError) -> io::Error {
    let kind = match &error {
        RemoteFileError::Missing => ErrorKind::NotFound,
        RemoteFileError::Folder => ErrorKind::IsADirectory,
        RemoteFileError::Denied => ErrorKind::PermissionDenied,
        RemoteFileError::Stopped => ErrorKind::Interrupted,
        RemoteFileError::Cut
        | RemoteFileError::Changed
        | RemoteFileError::NotKept
        | RemoteFileError::Failed(_)
        | RemoteFileError::Environment(_) => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
