//! `jobs.json`: read leniently, written as a whole, changed under its own lock.
//!
//! Invariants: a read never replaces content it cannot parse; a write never does so without keeping a copy; an
//! entry that is not understood stays where it is.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::{Error as ConfigError, Home, write};
use serde_json::{Map, Value};

use crate::error::Result;
use crate::job::Job;

/// The longest wait for the lock. Writers hold it for milliseconds, so a longer wait means that one hangs.
const LOCK_TIMEOUT: LockTimeout =
    LockTimeout { timeout: Duration::from_secs(30), poll_interval: Duration::from_millis(5) };

/// The location of `jobs.json`.
#[derive(Debug, Clone)]
pub(crate) struct JobFile {
    home: Home,
}

/// The file's content.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobFileContent {
    pub(crate) jobs: Vec<JobFileEntry>,
    /// The keys beside the list of jobs.
    more: Map<String, Value>,
}

/// One entry of the list.
#[derive(Debug, Clone)]
pub(crate) enum JobFileEntry {
    Job(Box<Job>),
    /// An entry that this release does not understand and leaves unchanged.
    Other(Value),
}

impl JobFileContent {
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter_map(|entry| match entry {
            JobFileEntry::Job(job) => Some(&**job),
            JobFileEntry::Other(_) => None,
        })
    }

    pub(crate) fn jobs_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.iter_mut().filter_map(|entry| match entry {
            JobFileEntry::Job(job) => Some(&mut **job),
            JobFileEntry::Other(_) => None,
        })
    }
}

/// The result of reading the file.
enum JobFileReading {
    Content(JobFileContent),
    /// The file had raw control characters in its strings and was otherwise valid.
    Repaired(JobFileContent),
    Nothing,
    Unreadable,
    Failed(io::Error),
}

impl JobFile {
    pub(crate) fn new(home: Home) -> Self {
        Self { home }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    fn path(&self) -> PathBuf {
        self.home.cron_jobs()
    }

    /// Returns the content. An unreadable file counts as empty and is left unchanged.
    pub(crate) fn read(&self) -> JobFileContent {
        match self.inspect() {
            JobFileReading::Content(content) => content,
            JobFileReading::Repaired(content) => {
                if content.jobs().next().is_some()
                    && let Err(error) = self.change("", |_| Ok(((), SaveDecision::Yes)))
                {
                    tracing::warn!(%error, "jobs.json could not be put in order");
                }
                content
            }
            JobFileReading::Nothing => JobFileContent::default(),
            JobFileReading::Unreadable => {
                tracing::error!(file = %self.path().display(), "the list of jobs cannot be read; it is left as it is");
                JobFileContent::default()
            }
            JobFileReading::Failed(error) => {
                tracing::error!(file = %self.path().display(), %error, "the list of jobs cannot be read");
                JobFileContent::default()
            }
        }
    }

    /// Returns the reason why the file cannot be read, or `None` if it can.
    pub(crate) fn read_problem(&self) -> Option<String> {
        let path = self.path();
        match self.inspect() {
            JobFileReading::Unreadable => {
                Some(format!("{} is not valid JSON; it was left unchanged", path.display()))
            }
            JobFileReading::Failed(error) => Some(format!("{} cannot be read: {error}", path.display())),
            JobFileReading::Content(_) | JobFileReading::Repaired(_) | JobFileReading::Nothing => None,
        }
    }

    /// Changes the file under its lock. `now` is written as the time of the change.
    pub(crate) fn change<T>(
        &self,
        now: &str,
        change: impl FnOnce(&mut JobFileContent) -> Result<(T, SaveDecision)>,
    ) -> Result<T> {
        let folder = self.home.folder("cron")?;
        let _lock = FileLock::acquire(&folder.join(".jobs.lock"), LOCK_TIMEOUT)?;
        let mut content = match self.inspect() {
            JobFileReading::Content(content) | JobFileReading::Repaired(content) => content,
            JobFileReading::Nothing => JobFileContent::default(),
            JobFileReading::Unreadable => return Err(crate::Error::Unreadable { path: self.path() }),
            JobFileReading::Failed(error) => return Err(ConfigError::unreadable(&self.path(), error).into()),
        };
        let (answer, save) = change(&mut content)?;
        if save == SaveDecision::No {
            return Ok(answer);
        }
        if !now.is_empty() {
            content.more.insert("updated_at".to_owned(), Value::String(now.to_owned()));
        }
        write::replace(&self.path(), text(&content).as_bytes())?;
        Ok(answer)
    }

    fn inspect(&self) -> JobFileReading {
        let bytes = match fs::read(self.path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return JobFileReading::Nothing,
            Err(error) => return JobFileReading::Failed(error),
        };
        let Ok(text) = String::from_utf8(bytes) else { return JobFileReading::Unreadable };
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return JobFileReading::Nothing;
        }
        if let Some(content) = parse(text) {
            return JobFileReading::Content(content);
        }
        parse(&without_raw_controls(text)).map_or(JobFileReading::Unreadable, JobFileReading::Repaired)
    }
}

/// Tells whether the content changed and must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveDecision {
    Yes,
    No,
}

fn parse(text: &str) -> Option<JobFileContent> {
    let Ok(Value::Object(mut more)) = serde_json::from_str::<Value>(text) else { return None };
    let jobs = match more.shift_remove("jobs") {
        Some(Value::Array(jobs)) => jobs,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return None,
    };
    let entry = |value: Value| match serde_json::from_value::<Job>(value.clone()) {
        Ok(job) => JobFileEntry::Job(Box::new(job)),
        Err(error) => {
            tracing::warn!(%error, "an entry of jobs.json is not a job; it is left alone");
            JobFileEntry::Other(value)
        }
    };
    Some(JobFileContent { jobs: jobs.into_iter().map(entry).collect(), more })
}

fn text(content: &JobFileContent) -> String {
    let jobs = content.jobs.iter().map(|entry| match entry {
        JobFileEntry::Job(job) => serde_json::to_value(job).unwrap_or_default(),
        JobFileEntry::Other(value) => value.clone(),
    });
    let mut whole = Map::new();
    whole.insert("jobs".to_owned(), Value::Array(jobs.collect()));
    whole.extend(content.more.clone());
    serde_json::to_string_pretty(&Value::Object(whole)).unwrap_or_default()
}

/// Escapes control characters inside strings; outside strings they are whitespace.
fn without_raw_controls(text: &str) -> String {
    let mut fixed = String::with_capacity(text.len());
    let (mut inside, mut escaped) = (false, false);
    for c in text.chars() {
        if inside && c < ' ' {
            // Writing to a `String` cannot fail.
            let _ = write!(fixed, "\\u{:04x}", u32::from(c));
            escaped = false;
            continue;
        }
        if c == '"' && !escaped {
            inside = !inside;
        }
        escaped = inside && c == '\\' && !escaped;
        fixed.push(c);
    }
    fixed
}
