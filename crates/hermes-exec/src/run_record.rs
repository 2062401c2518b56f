//! A file that lists the running commands of this process, for the next start.
//!
//! The watchdog process (`watchdog.rs`) ends running commands when Hermes is killed. Where the watchdog is
//! killed too, only the next start can end them, and it reads this file. There is one file per process, named
//! after the process, with one line per running command that holds its mark and, once known, its pid. A line
//! is written before the command is started. Nothing is synced: a machine that goes down ends the commands
//! anyway.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Signal, kill_process};

use crate::cgroup::Cgroup;
use crate::mark::ProcessMark;
use crate::owner;
use crate::procfs::{is_in_group, own_cgroup, parse_pid};
use crate::watchdog;

/// The length of a line (mark, space, pid, line end). All lines have the same length, so that one can be
/// overwritten with another.
const LINE: usize = 32;
const GROUP: &str = "group ";
/// The suffix of the names of record files.
const ENDING: &str = "-commands";
/// Limits how often the search for newly forked processes is repeated.
const MOST_ROUNDS: usize = 20;
const LONGEST_RECORD: u64 = 1024 * 1024;

static RECORD: Mutex<RunRecord> =
    Mutex::new(RunRecord { folder: None, file: None, first_line: 0, lines: Vec::new(), used: None });

struct RunRecord {
    /// The folder of the record files; with `None`, nothing is recorded.
    folder: Option<PathBuf>,
    /// The record file, created with the first command.
    file: Option<File>,
    /// The offset at which the lines begin.
    first_line: u64,
    lines: Vec<Option<ProcessMark>>,
    used: Option<HashMap<u64, usize>>,
}

/// Records the commands of this process in `folder` from now on. Commands must not be able to write there.
pub fn record_commands_in(folder: &Path) {
    let mut record = record();
    if record.file.is_none() {
        record.folder = Some(folder.to_owned());
    }
}

/// Ends the commands of processes that were killed together with their watchdog; returns how many processes
/// were ended. Blocks.
pub fn end_orphaned_commands(folder: &Path) -> usize {
    let mut ended = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let label =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(ENDING));
        if !label.is_some_and(owner::is_gone) {
            continue;
        }
        ended += Orphans::read(&path).map_or(0, |orphans| orphans.end());
        if let Err(error) = fs::remove_file(&path) {
            tracing::debug!(%error, path = %path.display(), "a record of commands could not be removed");
        }
    }
    ended
}

/// Records a command that is about to be started.
pub(crate) fn add(mark: ProcessMark) {
    record().put(mark, 0);
}

/// Records the pid of a command.
pub(crate) fn set_pid(mark: ProcessMark, pid: u32) {
    record().put(mark, pid);
}

/// Removes a command that has ended, or may outlive Hermes.
pub(crate) fn remove(mark: ProcessMark) {
    record().clear(mark);
}

fn record() -> MutexGuard<'static, RunRecord> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunRecord {
    fn put(&mut self, mark: ProcessMark, pid: u32) {
        if self.file.is_none() && !self.create() {
            return;
        }
        let known = self.used.get_or_insert_default().get(&mark.number()).copied();
        let line = known.unwrap_or_else(|| {
            let free = self.lines.iter().position(Option::is_none).unwrap_or(self.lines.len());
            if free == self.lines.len() {
                self.lines.push(None);
            }
            free
        });
        if let Some(place) = self.lines.get_mut(line) {
            *place = Some(mark);
        }
        self.used.get_or_insert_default().insert(mark.number(), line);
        self.write(line, mark.number(), pid);
    }

    fn clear(&mut self, mark: ProcessMark) {
        let Some(line) = self.used.get_or_insert_default().remove(&mark.number()) else { return };
        if let Some(place) = self.lines.get_mut(line) {
            *place = None;
        }
        self.write(line, 0, 0);
    }

    fn write(&self, line: usize, mark: u64, pid: u32) {
        let Some(file) = &self.file else { return };
        let text = format!("{mark:020} {pid:010}\n");
        debug_assert_eq!(text.len(), LINE);
        if let Err(error) = file.write_all_at(text.as_bytes(), self.first_line + (line * LINE) as u64) {
            tracing::debug!(%error, "a command could not be recorded for the next start");
        }
    }

    fn create(&mut self) -> bool {
        let Some(folder) = self.folder.clone() else { return false };
        let made = self.create_in(&folder);
        if let Err(error) = &made {
            tracing::warn!(%error, folder = %folder.display(), "commands cannot be recorded for the next start");
            self.folder = None;
        }
        made.is_ok()
    }

    fn create_in(&mut self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let label = owner::ourselves();
        // The watchdog removes the file after this process has ended; where it cannot, the next start needs
        // the file.
        watchdog::remove_after_us(&folder.join(&label));
        let path = folder.join(format!("{label}{ENDING}"));
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let head = format!("{GROUP}{}\n", own_cgroup().unwrap_or_default());
        file.write_all_at(head.as_bytes(), 0)?;
        self.first_line = head.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}

/// The commands that a vanished process was running.
#[derive(Debug, PartialEq, Eq)]
struct Orphans {
    /// The control group of that process; processes that were moved to an unrelated group are controlled by
    /// another manager.
    group: String,
    commands: Vec<(ProcessMark, u32)>,
    /// The pid of the process that started them.
    parent: String,
}

impl Orphans {
    fn read(path: &Path) -> Option<Self> {
        use std::io::Read as _;
        let mut text = String::new();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        file.take(LONGEST_RECORD).read_to_string(&mut text).ok()?;
        let parent = path.file_name()?.to_str()?.split('.').nth(1)?.to_owned();
        Self::parse(&text, parent)
    }

    fn parse(text: &str, parent: String) -> Option<Self> {
        let (head, rest) = text.split_once('\n')?;
        let group = head.strip_prefix(GROUP)?.to_owned();
        let command = |line: &str| {
            let (mark, pid) = line.split_once(' ')?;
            Some((ProcessMark::from_number(mark.parse().ok()?)?, pid.parse().ok()?))
        };
        Some(Self { group, commands: rest.lines().filter_map(command).collect(), parent })
    }

    fn end(&self) -> usize {
        let marks: Vec<ProcessMark> = self.commands.iter().map(|(mark, _)| *mark).collect();
        let mut ended = 0;
        if !marks.is_empty() {
            for _ in 0..MOST_ROUNDS {
                let found = ProcessMark::carriers_of(&marks, |pid| is_in_group(pid, &self.group));
                if found.is_empty() {
                    break;
                }
                for pid in found {
                    ended += usize::from(kill_process(pid, Signal::KILL).is_ok());
                }
            }
        }
        for pid in self.commands.iter().filter_map(|(_, pid)| parse_pid(&pid.to_string())) {
            if let Some(cell) = Cgroup::left_by(&self.parent, pid) {
                cell.kill();
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mark = ProcessMark::new();
        let text = format!("group /a b\n{:020} {:010}\n{:020} {:010}\nhalf a l", mark.number(), 12, 0, 0);
        let orphans = Orphans::parse(&text, "7".to_owned()).unwrap();
        assert_eq!((orphans.group.as_str(), orphans.commands), ("/a b", vec![(mark, 12)]));
        for other in ["", "x\n", "group"] {
            assert_eq!(Orphans::parse(other, String::new()), None, "{other}");
        }
    }
}
