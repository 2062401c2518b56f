//! What an environment leaves in files: groups, metrics, evaluations.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::definition::EvaluatedItem;
use super::group::ScoredGroup;
use crate::error::Error;
use crate::file::replace_file;

/// A file to which lines are added, each with one write.
#[derive(Debug)]
pub(crate) struct LineFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LineFile {
    /// Creates a file beside those that exist: `_1`, `_2` and so on is added to its name.
    pub(crate) fn create(wanted: &Path) -> Result<Self, Error> {
        create_parent(wanted)?;
        let stem = wanted.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let end = wanted.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
        let mut path = wanted.to_owned();
        let mut number = 0_u32;
        loop {
            match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok(Self { path, file: Mutex::new(file) }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file(&path)(error)),
            }
            number += 1;
            path = wanted.with_file_name(format!("{stem}_{number}{end}"));
        }
    }

    /// Opens a file to add to it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        create_parent(path)?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        Ok(Self { path: path.to_owned(), file: Mutex::new(file.map_err(Error::file(path))?) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn add(&self, line: &str) -> Result<(), Error> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes()).map_err(Error::file(&self.path))
    }
}

fn create_parent(path: &Path) -> Result<(), Error> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Error::file(folder))
}

/// Writes a JSON file whole.
pub(crate) fn write_json(path: &Path, value: &Value) -> Result<(), Error> {
    create_parent(path)?;
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    replace_file(path, |out| writeln!(out, "{text}"))
}

/// Writes a page that shows a group, for people.
pub(crate) fn group_page(groups: &[ScoredGroup], name: &str) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut page =
        format!("<!doctype html><meta charset=\"utf-8\"><title>{0}</title><h1>{0}</h1>", escape(name));
    for (at, group) in groups.iter().enumerate() {
        // Writing to a `String` cannot fail.
        let _ = write!(page, "<h2>Group {at}</h2>");
        for rollout in &group.rollouts {
            let text = escape(&super::rollout::display_text(&rollout.messages));
            let _ = write!(
                page,
                "<details><summary>score {}</summary><pre style=\"white-space:pre-wrap\">{text}</pre></details>",
                rollout.score
            );
        }
    }
    page
}

/// What is known about an evaluation besides its figures.
pub(crate) struct EvaluationFacts<'a> {
    pub(crate) environment: &'a str,
    pub(crate) model: &'a str,
    pub(crate) seconds: f64,
    pub(crate) max_new_tokens: u64,
    pub(crate) temperature: f64,
}

/// Writes the figures and the rollouts of an evaluation.
pub(crate) fn write_evaluation(
    folder: &Path,
    facts: &EvaluationFacts<'_>,
    metrics: &Map<String, Value>,
    items: &[EvaluatedItem],
) -> Result<(), Error> {
    let task = format!("atropos|{}_eval|0", facts.environment);
    let record = json!({
        "config_general": {
            "model_name": facts.model,
            "total_evaluation_time_seconds": facts.seconds.to_string(),
            "generation_parameters": {"max_new_tokens": facts.max_new_tokens, "temperature": facts.temperature},
        },
        "results": {task: metrics, "all": metrics},
    });
    write_json(&folder.join("metrics.json"), &record)?;
    let path = folder.join("samples.jsonl");
    replace_file(&path, |out| {
        for item in items {
            writeln!(out, "{}", sample(item))?;
        }
        Ok(())
    })
}

/// Returns a rollout of an evaluation as a line of a file.
pub(crate) fn sample(item: &EvaluatedItem) -> Value {
    // What was packed into an item is not worth repeating.
    let shown = item.item.as_object().into_iter().flatten();
    let shown: Map<String, Value> = shown
        .filter(|(_, value)| value.as_str().is_none_or(|text| text.len() <= 4_000))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    json!({
        "item": shown,
        "score": item.score,
        "turns": item.turns,
        "finished_naturally": item.finished_naturally,
        "error": item.failure,
        "messages": item.messages,
    })
}
