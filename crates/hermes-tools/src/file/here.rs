//! The files of this machine.
//!
//! Each call looks its path up once, decides by where it really lies, and works relative to the folder it holds; on a thread
//! that the kernel keeps within the conversation's limits, where it can.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hermes_exec::{Access, FencedThread, WriteRule};
use hermes_types::{Cancel, Outcome};
use rustix::fs::{FileType, Stat};

use super::disk::{Disk, Kind, Locality, Seen};
use super::guard::is_of_a_process;
use super::held::{HeldName, LastLink};
use super::state::Stamp;
use super::users::homes;
use super::{Files, Refusal};
use crate::search_files::{self, Found, Query};

/// A file larger than this is not read whole into memory.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
const SETTING: &str = "`terminal.sandbox_writable` or the terminal, with the user's approval, would allow it";

/// This machine as one task sees it.
pub(crate) struct HostDisk {
    files: Files,
    /// Where the task is.
    folder: PathBuf,
    decisions: Decisions,
    thread: Option<FencedThread>,
}

/// What decides about a path whose links are followed.
#[derive(Clone)]
struct Decisions {
    files: Files,
    access: Option<Access>,
    /// What a person agreed to have written.
    agreed: Arc<HashSet<PathBuf>>,
}

impl HostDisk {
    /// `access` is what the task may read and write; without one only names decide.
    pub(super) fn new(files: Files, folder: PathBuf, access: Option<Access>) -> io::Result<Self> {
        let thread = access.as_ref().map(Access::thread).transpose()?;
        let decisions = Decisions { files: files.clone(), access, agreed: Arc::default() };
        Ok(Self { files, folder, decisions, thread })
    }

    fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Decisions) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        match &self.thread {
            Some(thread) => {
                let decisions = self.decisions.clone();
                thread.run(move || work(&decisions))?
            }
            None => work(&self.decisions),
        }
    }

    /// The same for work that writes in these folders.
    fn writing_in<T: Send + 'static>(
        &self,
        folders: &[&Path],
        work: impl FnOnce(&Decisions) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let Some(access) = &self.decisions.access else { return self.within(work) };
        let closed: Vec<&Path> =
            folders.iter().copied().filter(|folder| !access.lets_write_in(folder)).collect();
        if closed.is_empty() {
            return self.within(work);
        }
        // The rules can only open a folder as a whole; that this file in it may be written was decided by its name.
        let decisions = self.decisions.clone();
        access.thread_writing_in(&closed)?.run(move || work(&decisions))?
    }
}

impl Decisions {
    fn refuse_read(&self, real: &Path) -> Option<Refusal> {
        if is_of_a_process(real) {
            return Some(Refusal::Device(real.to_owned()));
        }
        if let Some(refusal) = self.files.guard.refuse_name(real) {
            return Some(refusal);
        }
        let reason = self.access.as_ref()?.refuse_read(real)?;
        Some(Refusal::Hidden { path: real.to_owned(), reason })
    }

    fn refuse_write(&self, given: &str, real: &Path) -> Option<String> {
        // What is secret in this user's home is no less so in another's.
        let mut homes = homes();
        homes.push(self.files.guard.user_home().to_owned());
        let refused = self.files.guard.refuse_write(given, real, &homes, &self.files.options.write_roots);
        if refused.is_some() {
            return refused;
        }
        match self.access.as_ref()?.write_rule(real) {
            WriteRule::Ask(reason) if !self.agreed.contains(real) => {
                Some(format!("Write denied: '{given}': {reason}; {SETTING}."))
            }
            WriteRule::Open | WriteRule::Ask(_) => None,
            WriteRule::Never(reason) => Some(format!("Write denied: '{given}': {reason}; {SETTING}.")),
        }
    }

    /// The last word, when the folder is held.
    fn may_write(&self, place: &HeldName) -> io::Result<()> {
        let real = place.real();
        match self.refuse_write(&real.to_string_lossy(), &real) {
            Some(reason) => Err(io::Error::new(ErrorKind::PermissionDenied, reason)),
            None => Ok(()),
        }
    }

    fn may_read(&self, place: &HeldName) -> io::Result<()> {
        match self.refuse_read(&place.real()) {
            None | Some(Refusal::Binary { .. }) => Ok(()),
            Some(refusal) => Err(io::Error::new(ErrorKind::PermissionDenied, refusal.to_string())),
        }
    }
}

impl Disk for HostDisk {
    fn resolve(&self, given: &str) -> PathBuf {
        self.files.guard.resolve(&self.folder, given)
    }

    fn look(&self, path: &Path) -> io::Result<Seen> {
        let place = match HeldName::find(path, LastLink::Follow) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Ok(Seen { real: path.to_owned(), kind: Kind::Missing, size: 0, stamp: None });
            }
            found => found?,
        };
        let real = place.real();
        let Some(found) = place.found() else {
            return Ok(Seen { real, kind: Kind::Missing, size: 0, stamp: None });
        };
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile => Kind::File,
            _ => Kind::Other,
        };
        let size = u64::try_from(found.st_size).unwrap_or_default();
        Ok(Seen { real, kind, size, stamp: stamp(found, size) })
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let path = path.to_owned();
        self.within(move |decisions| {
            let place = HeldName::find(&path, LastLink::Follow)?;
            decisions.may_read(&place)?;
            place.read(most)
        })
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut place = HeldName::find(path, LastLink::Follow)?;
        let (folder, text) = (place.folder().to_owned(), text.to_owned());
        self.writing_in(&[&folder], move |decisions| {
            decisions.may_write(&place)?;
            place.replace(&text)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let place = HeldName::find(path, LastLink::Keep)?;
        let folder = place.folder().to_owned();
        self.writing_in(&[&folder], move |decisions| {
            decisions.may_write(&place)?;
            place.remove()
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, mut to) = (HeldName::find(from, LastLink::Keep)?, HeldName::find(to, LastLink::Keep)?);
        let (source, target) = (from.folder().to_owned(), to.folder().to_owned());
        self.writing_in(&[&source, &target], move |decisions| {
            decisions.may_write(&from)?;
            decisions.may_write(&to)?;
            from.rename_to(&mut to)
        })
    }

    fn names(&self, folder: &Path, most: usize) -> Vec<String> {
        let hidden = |folder: &Path| {
            let real = HeldName::find(folder, LastLink::Follow).map(|place| place.real());
            self.decisions
                .access
                .as_ref()
                .is_some_and(|access| real.map_or(true, |real| access.refuse_read(&real).is_some()))
        };
        if hidden(folder) {
            return Vec::new();
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.truncate(most);
        names
    }

    fn refuse(&self, path: &Path, seen: &Seen) -> Option<Refusal> {
        self.files.guard.refuse(path).or_else(|| self.decisions.refuse_read(&seen.real))
    }

    fn refuse_write(&self, given: &str, _: &Path, seen: &Seen) -> Option<String> {
        self.decisions.refuse_write(given, &seen.real)
    }

    fn question(&self, given: &str) -> Option<(PathBuf, String)> {
        let access = self.decisions.access.as_ref()?;
        let real = HeldName::find(&self.resolve(given), LastLink::Follow).ok()?.real();
        match access.write_rule(&real) {
            WriteRule::Ask(reason) => {
                let agreed = Arc::new(HashSet::from([real.clone()]));
                let asked = Decisions { agreed, ..self.decisions.clone() };
                // What is refused anyway is not asked about.
                asked.refuse_write(given, &real).is_none().then_some((real, reason))
            }
            WriteRule::Open | WriteRule::Never(_) => None,
        }
    }

    fn agree(&mut self, real: PathBuf) {
        Arc::make_mut(&mut self.decisions.agreed).insert(real);
    }

    fn search(&self, query: &Query, cancel: &Cancel) -> Result<Found, Outcome> {
        let (query, cancel, files) = (query.clone(), cancel.clone(), self.files.clone());
        let access = self.decisions.access.clone();
        let work =
            move |_: &Decisions| Ok(search_files::search_here(&query, &files, access.as_ref(), &cancel));
        self.within(work).unwrap_or_else(|error| Err(Outcome::failed(format!("Search failed: {error}"))))
    }

    fn most_bytes(&self) -> u64 {
        MOST_BYTES
    }

    fn locality(&self) -> Locality {
        Locality::Here
    }
}

fn stamp(found: &Stat, len: u64) -> Option<Stamp> {
    let (seconds, nanos) = (u64::try_from(found.st_mtime).ok()?, u32::try_from(found.st_mtime_nsec).ok()?);
    let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))?;
    Some(Stamp { modified, len })
}
