//! The dataset: one JSON object per line.
//!
//! Only the places and the hashes of the prompts are kept in memory; a row is read again when its turn comes. Invariant: rows are
//! numbered over the lines that can be used, from 0.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use hermes_text::JsonTree;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// The SHA-256 of a prompt without the blanks around it.
pub(crate) type PromptHash = [u8; 32];

/// Hashes a prompt, without the blanks around it.
pub(crate) fn prompt_hash(prompt: &str) -> PromptHash {
    Sha256::digest(prompt.trim()).into()
}

/// A prompt, with where its commands run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatasetRow {
    pub prompt: String,
    /// The container image in which commands run.
    pub image: Option<String>,
    /// The working folder in that container.
    pub cwd: Option<String>,
    /// The text by which the row is recognized: the prompt, or the first thing a user said where that is empty.
    pub identity: String,
}

impl DatasetRow {
    /// Reads a line. The error says what is wrong with it.
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        let value = JsonTree::parse(line).map_err(|_| "it is not JSON")?;
        let text = |name: &str| value.get(name).and_then(JsonTree::as_str).filter(|text| !text.is_empty());
        let prompt = value.get("prompt").and_then(JsonTree::as_str).ok_or("it has no `prompt`")?;
        let image = text("image").or_else(|| text("docker_image")).map(str::to_owned);
        let cwd = text("cwd").filter(|_| image.is_some()).map(str::to_owned);
        let identity = if prompt.is_empty() { first_user_text(&value) } else { None };
        let identity = identity.unwrap_or(prompt).to_owned();
        Ok(Self { prompt: prompt.to_owned(), image, cwd, identity })
    }

    /// Returns the row as a line of a dataset.
    pub fn to_json(&self) -> JsonTree {
        let mut members = vec![("prompt".to_owned(), JsonTree::text(self.prompt.as_str()))];
        let more = [("image", &self.image), ("cwd", &self.cwd)];
        members.extend(more.into_iter().filter_map(|(name, value)| {
            value.as_ref().map(|value| (name.to_owned(), JsonTree::text(value.as_str())))
        }));
        JsonTree::Object(members)
    }
}

fn first_user_text(row: &JsonTree) -> Option<&str> {
    let either = |turn, names: [&str; 2]| {
        names.into_iter().find_map(|name| JsonTree::get(turn, name).and_then(JsonTree::as_str))
    };
    let turns = row.get("conversations").and_then(JsonTree::as_array)?;
    let first = turns.iter().find(|turn| matches!(either(turn, ["role", "from"]), Some("user" | "human")))?;
    either(first, ["content", "value"])
}

/// Where a row is, and what its prompt is recognized by.
#[derive(Debug, Clone, Copy)]
pub struct DatasetEntry {
    offset: u64,
    length: u32,
    pub(crate) hash: PromptHash,
}

/// A line that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetProblem {
    /// The number of the line, from 1.
    pub line: usize,
    pub reason: &'static str,
}

/// An open dataset.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    file: File,
    entries: Vec<DatasetEntry>,
    pub problems: Vec<DatasetProblem>,
}

impl Dataset {
    /// Reads a file once, at most `max_samples` rows of it. Fails where no line can be used.
    pub fn open(path: &Path, max_samples: Option<usize>) -> Result<Self, Error> {
        let most = max_samples.unwrap_or(usize::MAX);
        let file = File::open(path).map_err(Error::file(path))?;
        let mut reader = BufReader::new(&file);
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        let (mut offset, mut number) = (0_u64, 0);
        let mut line = Vec::new();
        while entries.len() < most {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(Error::file(path))?;
            if length == 0 {
                break;
            }
            number += 1;
            let at = offset;
            offset += length as u64;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let row = std::str::from_utf8(&line).map_err(|_| "it is not UTF-8").and_then(DatasetRow::parse);
            let length = u32::try_from(length).map_err(|_| "it is longer than 4 GB");
            match (row, length) {
                (Ok(row), Ok(length)) => {
                    entries.push(DatasetEntry { offset: at, length, hash: prompt_hash(&row.identity) });
                }
                (Err(reason), _) | (_, Err(reason)) => problems.push(DatasetProblem { line: number, reason }),
            }
        }
        if entries.is_empty() {
            let path = path.display();
            return Err(Error::Unusable(match problems.first() {
                Some(DatasetProblem { line, reason }) => {
                    format!("{path} has no line that can be used; line {line}: {reason}")
                }
                None => format!("{path} has no line that can be used"),
            }));
        }
        entries.shrink_to_fit();
        Ok(Self { path: path.to_owned(), file, entries, problems })
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn entries(&self) -> &[DatasetEntry] {
        &self.entries
    }

    /// Reads a row. Fails where the file has changed since it was opened.
    pub fn row(&self, index: usize) -> Result<DatasetRow, String> {
        let path = self.path.display();
        let entry = self.entries.get(index).ok_or_else(|| format!("{path} has no row {index}"))?;
        let mut line = vec![0; entry.length as usize];
        self.file.read_exact_at(&mut line, entry.offset).map_err(|error| format!("{path}: {error}"))?;
        let row = std::str::from_utf8(&line).map_err(|_| "it is not UTF-8").and_then(DatasetRow::parse);
        match row {
            Ok(row) if prompt_hash(&row.identity) == entry.hash => Ok(row),
            _ => Err(format!("{path} was changed while it was in use")),
        }
    }
}
