//! The files of the place a task's commands run in, elsewhere.
//!
//! Asked by that place's own commands. Names and sizes are held to the same rules as here; what only this machine has
//! (snapshots, checking programs) does not reach there.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hermes_exec::{FileError, Look, Reachable, RemoteFiles, Survey, shell_quote};
use hermes_types::{Cancel, Outcome};
use tokio::runtime::Handle;

use super::disk::{Disk, Kind, Locality, Seen};
use super::guard::clean;
use super::state::Stamp;
use super::{Files, Refusal};
use crate::search_files::{self, Query};
use crate::terminal::rooms::Stay;

/// What is fetched over a connection as a whole.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// A place elsewhere as one task sees it. Must be used on a thread that is not the runtime's.
pub(crate) struct FarDisk {
    pub(super) files: Files,
    pub(super) stay: Stay,
    pub(super) runtime: Handle,
    pub(super) cancel: Cancel,
    /// Where the task is.
    pub(super) folder: String,
    pub(super) home: String,
    pub(super) reachable: Reachable,
    /// What was found during this call, by path: each question is a round trip over what may be a slow link.
    pub(super) known: Mutex<HashMap<PathBuf, FoundThere>>,
}

/// A path as it was found, with what the file holds where that is known. Nothing is written over a file that has changed since.
#[derive(Debug, Clone)]
pub(super) struct FoundThere {
    seen: Seen,
    content: Option<Vec<u8>>,
}

impl FarDisk {
    fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(RemoteFiles<'_>, &Cancel) -> Result<T, FileError>,
    ) -> io::Result<T> {
        self.runtime.block_on(ask(self.stay.files(), &self.cancel)).map_err(failure)
    }

    /// What a script says there, up to `most` bytes, and its exit code.
    pub(crate) fn output_of(&self, script: &str, most: usize) -> io::Result<(Vec<u8>, i32)> {
        self.ask(async |files, cancel| files.output_of(script, most, cancel).await)
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, FoundThere>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, path: &Path, survey: Survey) -> Seen {
        let (kind, size) = match survey.look {
            Look::Missing => (Kind::Missing, 0),
            Look::File { size } => (Kind::File, size),
            Look::Folder => (Kind::Folder, 0),
            Look::Other => (Kind::Other, 0),
        };
        let modified = survey.modified.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let stamp = modified
            .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since))
            .map(|modified| Stamp { modified, len: size });
        let seen = Seen { real: PathBuf::from(survey.real), kind, size, stamp };
        let found = FoundThere { seen: seen.clone(), content: survey.content };
        let mut known = self.known();
        known.insert(seen.real.clone(), found.clone());
        known.insert(path.to_owned(), found);
        seen
    }
}

impl Disk for FarDisk {
    fn resolve(&self, given: &str) -> PathBuf {
        let given = given.trim();
        let joined = match given.strip_prefix('~') {
            Some("") => PathBuf::from(&self.home),
            Some(rest) if rest.starts_with('/') => Path::new(&self.home).join(rest.trim_start_matches('/')),
            _ => Path::new(&self.folder).join(given),
        };
        clean(&joined)
    }

    fn look(&self, path: &Path) -> io::Result<Seen> {
        if let Some(found) = self.known().get(path) {
            return Ok(found.seen.clone());
        }
        let found = self.ask(async |files, cancel| files.survey(&text(path), cancel).await)?;
        Ok(self.keep(path, found))
    }

    fn exists(&self, path: &Path) -> bool {
        if self.known().get(path).is_some_and(|found| found.seen.kind != Kind::Missing) {
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
        self.ask(async |files, cancel| files.read(&text(path), 0, most, cancel).await)
    }

    fn replace(&self, path: &Path, content: &str) -> io::Result<()> {
        let before = self.known().get(path).and_then(|found| found.content.clone());
        self.known().clear();
        let written = self.ask(async |files, cancel| {
            files.replace(&text(path), before.as_deref(), content.as_bytes(), cancel).await
        })?;
        self.keep(path, written);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.known().clear();
        self.ask(async |files, cancel| files.remove(&text(path), cancel).await)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.known().clear();
        self.ask(async |files, cancel| files.rename(&text(from), &text(to), cancel).await)
    }

    fn names(&self, folder: &Path, most: usize) -> Vec<String> {
        self.ask(async |files, cancel| files.names(&text(folder), most, cancel).await).unwrap_or_default()
    }

    fn refuse(&self, path: &Path, seen: &Seen) -> Option<Refusal> {
        let guard = &self.files.guard;
        guard.refuse_name(path).or_else(|| guard.refuse_name(&seen.real))
    }

    /// A container has a home of its own to do with as it likes; that of another machine is the user's.
    fn refuse_write(&self, given: &str, path: &Path, seen: &Seen) -> Option<String> {
        let guard = &self.files.guard;
        let mut homes = vec![guard.user_home().to_owned()];
        if self.reachable == Reachable::OwnThings {
            homes.push(PathBuf::from(&self.home));
        }
        let roots = &self.files.options.write_roots;
        let refuse = |path: &Path| guard.refuse_write(given, path, &homes, roots);
        refuse(path).or_else(|| refuse(&seen.real))
    }

    fn search(&self, query: &Query, _: &Cancel) -> Result<search_files::Found, Outcome> {
        search_files::search_there(query, self)
    }

    fn most_bytes(&self) -> u64 {
        MOST_BYTES
    }

    fn locality(&self) -> Locality {
        Locality::There
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn failure(error: FileError) -> io::Error {
    let kind = match &error {
        FileError::Missing => ErrorKind::NotFound,
        FileError::Folder => ErrorKind::IsADirectory,
        FileError::Denied => ErrorKind::PermissionDenied,
        FileError::Stopped => ErrorKind::Interrupted,
        FileError::Cut
        | FileError::Changed
        | FileError::NotKept
        | FileError::Failed(_)
        | FileError::Environment(_) => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
