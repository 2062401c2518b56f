//! The files of this machine.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use hermes_types::{Cancel, Outcome};

use super::deny::real_path;
use super::disk::{Disk, Kind, Locality, Seen};
use super::state::Stamp;
use super::users::homes;
use super::{Files, Refusal, store};
use crate::search_files::{self, Found, Query};

/// A file larger than this is not read whole into memory.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// This machine as one task sees it.
pub(crate) struct HostDisk {
    pub(super) files: Files,
    /// Where the task is.
    pub(super) folder: PathBuf,
}

impl Disk for HostDisk {
    fn resolve(&self, given: &str) -> PathBuf {
        self.files.guard.resolve(&self.folder, given)
    }

    fn look(&self, path: &Path) -> io::Result<Seen> {
        let real = real_path(path);
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Seen { real, kind: Kind::Missing, size: 0, stamp: None });
            }
            Err(error) => return Err(error),
        };
        let kind = match () {
            () if meta.is_dir() => Kind::Folder,
            () if meta.is_file() => Kind::File,
            () => Kind::Other,
        };
        Ok(Seen { real, kind, size: meta.len(), stamp: Stamp::of(&meta) })
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        make_parents(path)?;
        store::replace(path, text)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        make_parents(to)?;
        fs::rename(from, to)
    }

    fn names(&self, folder: &Path, most: usize) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.truncate(most);
        names
    }

    fn refuse(&self, path: &Path, _: &Seen) -> Option<Refusal> {
        self.files.guard.refuse(path)
    }

    fn refuse_write(&self, given: &str, path: &Path, _: &Seen) -> Option<String> {
        // What is secret in this user's home is no less so in another's.
        let mut homes = homes();
        homes.push(self.files.guard.user_home().to_owned());
        let refused = self.files.guard.refuse_write(given, path, &homes, &self.files.options.write_roots);
        let kept = || {
            let reason = self.files.sandbox.as_ref()?.keeps(path)?;
            Some(format!("Write denied: '{given}': {reason}."))
        };
        refused.or_else(kept)
    }

    fn search(&self, query: &Query, cancel: &Cancel) -> Result<Found, Outcome> {
        search_files::search_here(query, &self.files, cancel)
    }

    fn most_bytes(&self) -> u64 {
        MOST_BYTES
    }

    fn locality(&self) -> Locality {
        Locality::Here
    }
}

fn make_parents(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}
