//! Searches files by name, newest first.

use std::path::PathBuf;
use std::time::SystemTime;

use hermes_exec::SandboxAccess;
use hermes_types::{Cancel, ToolOutcome};
use serde_json::{Map, json};

use super::walk::WalkResult;
use super::{FileSearchResult, Query, build_glob};
use crate::file::FileTools;

pub(super) fn search(
    query: &Query,
    files: &FileTools,
    access: Option<&SandboxAccess>,
    cancel: &Cancel,
) -> Result<FileSearchResult, ToolOutcome> {
    let name = query.pattern.rsplit('/').next().unwrap_or(&query.pattern);
    let name = if name.starts_with('*') { name.to_owned() } else { format!("*{name}") };
    let glob = build_glob(&name)?;
    let walked = WalkResult::walk(query, files, access, cancel);
    let fitting = (0..walked.len())
        .filter_map(|at| walked.path(at))
        .filter(|path| glob.is_match(path.file_name().unwrap_or_default()));
    let mut found: Vec<(SystemTime, PathBuf)> = fitting
        .map(|path| {
            (path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH), path)
        })
        .collect();
    // The user most likely means the files changed last.
    found.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
    let (page, total, next) = query.page(found);
    let shown: Vec<String> = page.iter().map(|(_, path)| query.show(path)).collect();
    let mut result = Map::new();
    result.insert("total_count".to_owned(), json!(total));
    result.insert("files".to_owned(), json!(shown));
    Ok(FileSearchResult { result, next, warning: walked.truncation_notice(), omitted: walked.omitted })
}
