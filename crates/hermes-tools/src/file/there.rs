//! The files of the place a task's commands run in, elsewhere.
//!
//! Asked by that place's own commands. Names and sizes are held to the same rules as here; what only this machine has
//! (snapshots, checking programs) does not reach there.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hermes_exec::{FileError, Look, Reachable, RemoteFiles, shell_quote};
use hermes_types::{Cancel, Outcome};
use tokio::runtime::Handle;

use super::disk::{Disk, Kind, Locality, Seen};
use super::guard::clean;
use super::state::Stamp;
use super::{Files, Refusal};
use crate::search_files::{self, Found, Query};
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
        let found = self.ask(async |files, cancel| files.survey(&text(path), cancel).await)?;
        let (kind, size) = match found.look {
            Look::Missing => (Kind::Missing, 0),
            Look::File { size } => (Kind::File, size),
            Look::Folder => (Kind::Folder, 0),
            Look::Other => (Kind::Other, 0),
        };
        let modified = found.modified.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let stamp = modified
            .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since))
            .map(|modified| Stamp { modified, len: size });
        Ok(Seen { real: PathBuf::from(found.real), kind, size, stamp })
    }

    fn exists(&self, path: &Path) -> bool {
        let script = format!("p={}; [ -e \"$p\" ] || [ -L \"$p\" ]", shell_quote(&text(path)));
        self.output_of(&script, 1).is_ok_and(|(_, code)| code == 0)
    }

    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.ask(async |files, cancel| files.read(&text(path), 0, most, cancel).await)
    }

    fn replace(&self, path: &Path, content: &str) -> io::Result<()> {
        self.ask(async |files, cancel| files.write(&text(path), content.as_bytes(), cancel).await)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(async |files, cancel| files.remove(&text(path), cancel).await)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
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

    fn search(&self, query: &Query, _: &Cancel) -> Result<Found, Outcome> {
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
        FileError::Cut | FileError::Failed(_) | FileError::Environment(_) => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
