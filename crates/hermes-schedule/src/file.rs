//! `jobs.json`: read leniently, written whole, changed under a lock of its own.
//!
//! Invariants: a read never replaces what it cannot read; a write never does so without keeping it; an entry that is not
//! understood stays where it is.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hermes_config::lock::{Lock, Patience};
use hermes_config::{Error as ConfigError, Home, write};
use serde_json::{Map, Value};

use crate::error::Result;
use crate::job::Job;

/// Writers hold the lock for milliseconds; one that hangs is not waited for longer than this.
const PATIENCE: Patience = Patience { limit: Duration::from_secs(30), poll: Duration::from_millis(5) };

/// Where the jobs are.
#[derive(Debug, Clone)]
pub(crate) struct JobFile {
    home: Home,
}

/// The file's content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) jobs: Vec<Entry>,
    /// Keys beside the list.
    more: Map<String, Value>,
}

/// One entry of the list.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Job(Box<Job>),
    /// Not understood here, and none of our business.
    Other(Value),
}

impl Content {
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter_map(|entry| match entry {
            Entry::Job(job) => Some(&**job),
            Entry::Other(_) => None,
        })
    }

    pub(crate) fn jobs_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.iter_mut().filter_map(|entry| match entry {
            Entry::Job(job) => Some(&mut **job),
            Entry::Other(_) => None,
        })
    }
}

/// What a look at the file found.
enum Found {
    Content(Content),
    /// Raw control characters stood in its texts; otherwise it was in order.
    Repaired(Content),
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

    /// What is there. What cannot be read counts as nothing and stays.
    pub(crate) fn read(&self) -> Content {
        match self.look() {
            Found::Content(content) => content,
            Found::Repaired(content) => {
                if content.jobs().next().is_some()
                    && let Err(error) = self.change("", |_| Ok(((), Save::Yes)))
                {
                    tracing::warn!(%error, "jobs.json could not be put in order");
                }
                content
            }
            Found::Nothing => Content::default(),
            Found::Unreadable => {
                tracing::error!(file = %self.path().display(), "the list of jobs cannot be read; it is left as it is");
                Content::default()
            }
            Found::Failed(error) => {
                tracing::error!(file = %self.path().display(), %error, "the list of jobs cannot be read");
                Content::default()
            }
        }
    }

    /// Why what is there cannot be read, if it cannot.
    pub(crate) fn trouble(&self) -> Option<String> {
        let path = self.path();
        match self.look() {
            Found::Unreadable => {
                Some(format!("{} is not the JSON it should be; it is left as it is", path.display()))
            }
            Found::Failed(error) => Some(format!("{} cannot be read: {error}", path.display())),
            Found::Content(_) | Found::Repaired(_) | Found::Nothing => None,
        }
    }

    /// Changes the file under its lock. `now` is what is written as the time of the change.
    pub(crate) fn change<T>(
        &self,
        now: &str,
        change: impl FnOnce(&mut Content) -> Result<(T, Save)>,
    ) -> Result<T> {
        let folder = self.home.folder("cron")?;
        let _lock = Lock::take(&folder.join(".jobs.lock"), PATIENCE)?;
        let mut content = match self.look() {
            Found::Content(content) | Found::Repaired(content) => content,
            Found::Nothing => Content::default(),
            Found::Unreadable => return Err(crate::Error::Unreadable { path: self.path() }),
            Found::Failed(error) => return Err(ConfigError::unreadable(&self.path(), error).into()),
        };
        let (answer, save) = change(&mut content)?;
        if save == Save::No {
            return Ok(answer);
        }
        if !now.is_empty() {
            content.more.insert("updated_at".to_owned(), Value::String(now.to_owned()));
        }
        write::replace(&self.path(), text(&content).as_bytes())?;
        Ok(answer)
    }

    fn look(&self) -> Found {
        let bytes = match fs::read(self.path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Failed(error),
        };
        let Ok(text) = String::from_utf8(bytes) else { return Found::Unreadable };
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Found::Nothing;
        }
        if let Some(content) = parse(text) {
            return Found::Content(content);
        }
        parse(&without_raw_controls(text)).map_or(Found::Unreadable, Found::Repaired)
    }
}

/// Whether something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Save {
    Yes,
    No,
}

fn parse(text: &str) -> Option<Content> {
    let Ok(Value::Object(mut more)) = serde_json::from_str::<Value>(text) else { return None };
    let jobs = match more.shift_remove("jobs") {
        Some(Value::Array(jobs)) => jobs,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return None,
    };
    let entry = |value: Value| match serde_json::from_value::<Job>(value.clone()) {
        Ok(job) => Entry::Job(Box::new(job)),
        Err(error) => {
            tracing::warn!(%error, "an entry of jobs.json is not a job; it is left alone");
            Entry::Other(value)
        }
    };
    Some(Content { jobs: jobs.into_iter().map(entry).collect(), more })
}

fn text(content: &Content) -> String {
    let jobs = content.jobs.iter().map(|entry| match entry {
        Entry::Job(job) => serde_json::to_value(job).unwrap_or_default(),
        Entry::Other(value) => value.clone(),
    });
    let mut whole = Map::new();
    whole.insert("jobs".to_owned(), Value::Array(jobs.collect()));
    whole.extend(content.more.clone());
    serde_json::to_string_pretty(&Value::Object(whole)).unwrap_or_default()
}

/// Escapes control characters inside of texts; outside of them they are blanks.
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
