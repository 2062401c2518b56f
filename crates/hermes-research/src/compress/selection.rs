//! Draws trajectories from several files: long ones only, so many of them, in the order in which they are drawn.
//!
//! Files are read twice and never kept in memory: once to find the lines, once to copy those that were drawn.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use hermes_text::JsonTree;

use super::run::TokenCounter;
use super::sample::SampleGenerator;
use crate::error::Error;
use crate::file::replace_file;

/// What is drawn, and where it goes.
#[derive(Debug, Clone)]
pub struct TrajectorySelection {
    pub datasets: Vec<PathBuf>,
    pub total: usize,
    pub min_tokens: u64,
    pub seed: u32,
    pub batch_size: usize,
    /// The folder of the batches.
    pub folder: PathBuf,
}

/// How many lines were found and drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SelectionReport {
    pub lines: usize,
    /// Lines without a conversation.
    pub unusable: usize,
    pub long_enough: usize,
    pub drawn: usize,
}

struct FoundLine {
    dataset: usize,
    at: u64,
    length: usize,
    tokens: u64,
}

impl TrajectorySelection {
    /// Draws, and writes the batches.
    pub fn write(&self, count: &TokenCounter) -> Result<SelectionReport, Error> {
        let mut report = SelectionReport::default();
        let mut found = Vec::new();
        for (number, path) in self.datasets.iter().enumerate() {
            self.search(number, path, count, &mut found, &mut report)?;
        }
        report.long_enough = found.len();
        if found.is_empty() {
            return Err(Error::Unusable(format!(
                "no trajectory has {} tokens or more; --min-tokens sets another limit",
                self.min_tokens
            )));
        }
        let drawn = SampleGenerator::new(self.seed).sample(found.len(), self.total);
        report.drawn = drawn.len();
        std::fs::create_dir_all(&self.folder).map_err(Error::file(&self.folder))?;
        let mut files = Vec::new();
        for path in &self.datasets {
            files.push((path, File::open(path).map_err(Error::file(path))?));
        }
        for (batch, indices) in drawn.chunks(self.batch_size.max(1)).enumerate() {
            let mut lines = Vec::new();
            for line in indices.iter().filter_map(|at| found.get(*at)) {
                let Some((path, file)) = files.get_mut(line.dataset) else { continue };
                let mut bytes = vec![0; line.length];
                let read = file.seek(SeekFrom::Start(line.at)).and_then(|_| file.read_exact(&mut bytes));
                read.map_err(Error::file(path))?;
                let text = String::from_utf8_lossy(&bytes);
                let mut value =
                    JsonTree::parse(text.trim()).map_err(|error| Error::Unusable(error.to_string()))?;
                let turns = conversation(&value);
                value.set("conversations", JsonTree::Array(turns.unwrap_or_default()));
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                value.set("_source_dataset", JsonTree::text(name));
                value.set("_original_tokens", line.tokens.into());
                lines.push(value.to_string());
            }
            replace_file(&self.folder.join(format!("batch_{batch}.jsonl")), |out| {
                lines.iter().try_for_each(|line| writeln!(out, "{line}"))
            })?;
        }
        Ok(report)
    }

    fn search(
        &self,
        dataset: usize,
        path: &Path,
        count: &TokenCounter,
        found: &mut Vec<FoundLine>,
        report: &mut SelectionReport,
    ) -> Result<(), Error> {
        let mut reader = BufReader::new(File::open(path).map_err(Error::file(path))?);
        let (mut at, mut bytes) = (0_u64, Vec::new());
        loop {
            bytes.clear();
            let length = reader.read_until(b'\n', &mut bytes).map_err(Error::file(path))?;
            if length == 0 {
                return Ok(());
            }
            let begin = at;
            at += length as u64;
            let text = String::from_utf8_lossy(&bytes);
            if text.trim().is_empty() {
                continue;
            }
            report.lines += 1;
            let value = JsonTree::parse(text.trim()).ok();
            let Some(turns) = value.as_ref().and_then(conversation) else {
                report.unusable += 1;
                continue;
            };
            let texts = turns.iter().filter_map(|turn| turn.get("value")?.as_str());
            let tokens = texts.filter(|text| !text.is_empty()).map(|text| count(text)).sum();
            if tokens >= self.min_tokens {
                found.push(FoundLine { dataset, at: begin, length, tokens });
            }
        }
    }
}

/// Returns the turns of a line, which has them as `conversations` or as `messages`.
fn conversation(value: &JsonTree) -> Option<Vec<JsonTree>> {
    if let Some(turns) = value.get("conversations").and_then(JsonTree::as_array) {
        return (!turns.is_empty()).then(|| turns.to_vec());
    }
    let messages = value.get("messages")?.as_array()?;
    let turns = messages.iter().map(|message| {
        let from = match message.get("role")?.as_str()? {
            "user" => "human",
            "assistant" => "gpt",
            other => other,
        };
        let value = message.get("content").and_then(JsonTree::as_str).unwrap_or_default();
        Some(JsonTree::object([("from", from.into()), ("value", value.into())]))
    });
    turns.collect::<Option<Vec<_>>>().filter(|turns| !turns.is_empty())
}

/// Puts the files of a folder together, in the order of their names.
pub fn merge_folder(folder: &Path, output: &Path) -> Result<usize, Error> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            names.push(path);
        }
    }
    names.sort_unstable();
    let mut lines = 0;
    replace_file(output, |out| {
        for path in &names {
            for line in BufReader::new(File::open(path)?).lines() {
                let line = line?;
                if !line.trim().is_empty() {
                    writeln!(out, "{line}")?;
                    lines += 1;
                }
            }
        }
        Ok(())
    })?;
    Ok(lines)
}
