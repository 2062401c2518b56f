//! The state of the file tools for each task: the pages it read, the stamps of its files, and the last writer
//! of each file.
//!
//! The state is bounded and drops the oldest entries first. It is removed when a task ends and is never stored
//! on disk.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hermes_types::{TaskId, ToolEvent};

const MOST_DEDUPE: usize = 1000;
const MOST_STAMPS: usize = 1000;
const MOST_HISTORY: usize = 500;
const MOST_REGIONS: usize = 100;
const MOST_WRITERS: usize = 1000;
/// Limits the number of tasks, because a task may never be reported as ended.
const MOST_TASKS: usize = 1000;

/// Identifies a version of a file by its modification time and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) modified: SystemTime,
    pub(crate) len: u64,
}

/// A page of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FilePage {
    pub(crate) path: PathBuf,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

/// A call that the model may repeat needlessly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RepeatableCall {
    Read(FilePage),
    /// All arguments that decide the result of a search, in one text.
    Search(String),
}

/// The state of a page before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageStatus {
    New,
    /// The page was shown before and the file has not changed since. The number counts the repeated requests.
    Unchanged(u32),
}

/// The state of all tasks. The file tools share it.
#[derive(Debug, Default)]
pub struct TaskFileState {
    tasks: Mutex<BoundedMap<TaskId, TaskFiles>>,
    /// The last writer of each file, and the stamp of the file after that write.
    writers: Mutex<BoundedMap<PathBuf, (TaskId, Option<FileStamp>)>>,
    locks: Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>,
}

#[derive(Debug, Default)]
struct TaskFiles {
    last: Option<(RepeatableCall, u32)>,
    shown: BoundedMap<FilePage, (FileStamp, u32)>,
    stamps: BoundedMap<PathBuf, FileStamp>,
    history: BoundedMap<PathBuf, Vec<(usize, usize)>>,
    /// The file on which the latest patches failed, and the number of failures in a row.
    failing: Option<(PathBuf, u32)>,
}

impl TaskFileState {
    fn task<T>(&self, task: &TaskId, look: impl FnOnce(&mut TaskFiles) -> T) -> T {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = tasks.get_mut(task) {
            return look(files);
        }
        let mut files = TaskFiles::default();
        let result = look(&mut files);
        tasks.insert(task.clone(), files, MOST_TASKS);
        result
    }

    /// Returns how often this same call was made in a row, this time included.
    pub(crate) fn count_repeats(&self, task: &TaskId, call: RepeatableCall) -> u32 {
        self.task(task, |files| {
            let count = match files.last.take() {
                Some((last, count)) if last == call => count.saturating_add(1),
                _ => 1,
            };
            files.last = Some((call, count));
            count
        })
    }

    /// Tells whether this page is still in the model's context and the file still has the stamp `now`. Counts
    /// the request.
    pub(crate) fn check_page(&self, task: &TaskId, page: &FilePage, now: Option<FileStamp>) -> PageStatus {
        let Some(now) = now else { return PageStatus::New };
        self.task(task, |files| match files.shown.get_mut(page) {
            Some((stamp, repeats)) if *stamp == now => {
                *repeats = repeats.saturating_add(1);
                PageStatus::Unchanged(*repeats)
            }
            _ => PageStatus::New,
        })
    }

    /// Records that a page was shown. `stamp` is the stamp of the file before it was read.
    pub(crate) fn record_read(&self, task: &TaskId, page: FilePage, stamp: Option<FileStamp>) {
        self.task(task, |files| {
            let region = (page.offset, page.limit);
            match files.history.get_mut(&page.path) {
                Some(regions) if regions.contains(&region) => {}
                Some(regions) => {
                    if regions.len() == MOST_REGIONS {
                        regions.remove(0);
                    }
                    regions.push(region);
                }
                None => files.history.insert(page.path.clone(), vec![region], MOST_HISTORY),
            }
            if let Some(stamp) = stamp {
                files.stamps.insert(page.path.clone(), stamp, MOST_STAMPS);
                files.shown.insert(page, (stamp, 0), MOST_DEDUPE);
            }
        });
    }

    /// Returns a warning for the model if the file, whose stamp is `now`, has changed since this task read it.
    pub(crate) fn staleness(&self, task: &TaskId, path: &Path, now: Option<FileStamp>) -> Option<String> {
        let known = self.task(task, |files| files.stamps.get(path).copied())?;
        if now == Some(known) {
            return None;
        }
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let sibling = writers.get_mut(path).filter(|(writer, left)| writer != task && *left == now);
        Some(match sibling {
            Some((writer, _)) => format!(
                "{} was changed by task {writer} after you read it; read it again before you go on",
                path.display()
            ),
            None => format!(
                "{} changed on disk since you read it; read it again before you go on",
                path.display()
            ),
        })
    }

    /// Records that this task wrote or removed the file, and discards the pages it has read of it.
    pub(crate) fn record_write(&self, task: &TaskId, path: &Path, stamp: Option<FileStamp>) {
        self.task(task, |files| {
            files.shown.retain(|page| page.path != path);
            match stamp {
                Some(stamp) => files.stamps.insert(path.to_owned(), stamp, MOST_STAMPS),
                None => files.stamps.retain(|other| other != path),
            }
            if files.failing.as_ref().is_some_and(|(failing, _)| failing == path) {
                files.failing = None;
            }
        });
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.insert(path.to_owned(), (task.clone(), stamp), MOST_WRITERS);
    }

    /// Records that a patch did not match. Returns how often in a row this happened on this file, this time
    /// included.
    pub(crate) fn record_patch_failure(&self, task: &TaskId, path: &Path) -> u32 {
        self.task(task, |files| {
            let count = match files.failing.take() {
                Some((failing, count)) if failing == path => count.saturating_add(1),
                _ => 1,
            };
            files.failing = Some((path.to_owned(), count));
            count
        })
    }

    /// Lists every file the task read with the pages it saw, oldest first, for the summary of a conversation.
    pub fn history(&self, task: &TaskId) -> Vec<(PathBuf, Vec<(usize, usize)>)> {
        self.task(task, |files| {
            let history = &files.history;
            history
                .order
                .iter()
                .filter_map(|path| Some((path.clone(), history.map.get(path)?.clone())))
                .collect()
        })
    }

    /// Runs `work` while no other task writes these files.
    pub(crate) fn with_write_lock<T>(&self, paths: &[PathBuf], work: impl FnOnce() -> T) -> T {
        let mut paths: Vec<&PathBuf> = paths.iter().collect();
        // Locks are taken in one order; otherwise two writers of two files could deadlock.
        paths.sort();
        paths.dedup();
        let locks: Vec<Arc<Mutex<()>>> = {
            let mut known = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            paths.iter().map(|path| known.entry((*path).clone()).or_default().clone()).collect()
        };
        let held: Vec<MutexGuard<'_, ()>> =
            locks.iter().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let result = work();
        drop(held);
        drop(locks);
        let mut known = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, lock| Arc::strong_count(lock) > 1);
        result
    }

    /// Updates the state for an event of the session.
    pub(crate) fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        match occasion {
            ToolEvent::CallStarting("read_file" | "search_files")
            | ToolEvent::Resumed(_)
            | ToolEvent::Delegated(_)
            | ToolEvent::OthersWordsRead(_)
            | ToolEvent::TurnCompleted => {}
            ToolEvent::CallStarting(_) => self.task(task, |files| {
                files.last = None;
                files.shown.for_each_mut(|(_, repeats)| *repeats = 0);
            }),
            // Compression removed the pages from the model's context, so it must be able to read them again.
            ToolEvent::Compressed => self.task(task, |files| {
                files.last = None;
                files.shown = BoundedMap::default();
            }),
            ToolEvent::Ended => {
                self.tasks.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other != task);
            }
        }
    }
}

/// A map that drops its oldest entries.
#[derive(Debug)]
struct BoundedMap<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for BoundedMap<K, V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Eq + Hash + Clone, V> BoundedMap<K, V> {
    fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.map.get(key)
    }

    fn get_mut<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.map.get_mut(key)
    }

    fn insert(&mut self, key: K, value: V, most: usize) {
        if self.map.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.map.len() > most {
            let Some(oldest) = self.order.pop_front() else { break };
            self.map.remove(&oldest);
        }
    }

    fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.map.retain(|key, _| keep(key));
        self.order.retain(keep);
    }

    fn for_each_mut(&mut self, change: impl FnMut(&mut V)) {
        self.map.values_mut().for_each(change);
    }
}
