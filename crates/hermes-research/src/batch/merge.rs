//! Puts the batch files of a run together into `trajectories.jsonl`.

use std::io::Write as _;
use std::path::Path;

use hermes_text::{JsonTree, head};

use super::records::{batch_files, each_line};
use crate::error::Error;
use crate::file::replace_file;

/// The most characters of a tool's name in a report.
const NAME_CHARS: usize = 50;

/// What a merge did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeReport {
    pub files: usize,
    pub merged: usize,
    /// The dropped lines: what is wrong with each.
    pub dropped: Vec<String>,
}

/// Copies every record whose tools all exist. The file is replaced when it is complete.
pub fn merge_batches(folder: &Path, registered: &[String]) -> Result<MergeReport, Error> {
    let mut report = MergeReport::default();
    let files = batch_files(folder)?;
    report.files = files.len();
    let mut failed = None;
    replace_file(&folder.join("trajectories.jsonl"), |out| {
        for path in &files {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let copied = each_line(path, |line| {
                match line.map(|line| (line, check(line, registered))) {
                    Some((line, Ok(()))) => {
                        report.merged += 1;
                        writeln!(out, "{line}").map_err(Error::file(path))?;
                    }
                    Some((_, Err(reason))) => report.dropped.push(format!("{name}: {reason}")),
                    None => report.dropped.push(format!("{name}: a line is not UTF-8")),
                }
                Ok(())
            });
            if let Err(error) = copied {
                let text = error.to_string();
                failed = Some(error);
                return Err(std::io::Error::other(text));
            }
        }
        Ok(())
    })
    .map_err(|error| failed.take().unwrap_or(error))?;
    Ok(report)
}

/// Checks a record. The error says why it is dropped.
pub(crate) fn check(line: &str, registered: &[String]) -> Result<(), String> {
    let value = JsonTree::parse(line).map_err(|_| "a line is not JSON".to_owned())?;
    let Some(JsonTree::Object(stats)) = value.get("tool_stats") else { return Ok(()) };
    match stats.iter().find(|(name, _)| !registered.contains(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let short = head(name, NAME_CHARS);
            let dots = if short.len() < name.len() { "..." } else { "" };
            Err(format!("a record names the unknown tool {short}{dots}"))
        }
    }
}
