//! Files by their names, the newest first.

use std::path::PathBuf;
use std::time::SystemTime;

use hermes_types::{Cancel, Outcome};
use serde_json::{Map, json};

use super::walk::Walk;
use super::{Found, Query, build_glob};
use crate::file::Files;

pub(super) fn search(query: &Query, files: &Files, cancel: &Cancel) -> Result<Found, Outcome> {
    let name = query.pattern.rsplit('/').next().unwrap_or(&query.pattern);
    let name = if name.starts_with('*') { name.to_owned() } else { format!("*{name}") };
    let glob = build_glob(&name)?;
    let mut walk = Walk::new(query, &files.guard, cancel);
    let mut found: Vec<(SystemTime, PathBuf)> = walk
        .by_ref()
        .filter(|path| glob.is_match(path.file_name().unwrap_or_default()))
        .map(|path| {
            (path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH), path)
        })
        .collect();
    // What was worked on last is what is asked about.
    found.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
    let (page, total, next) = query.page(found);
    let shown: Vec<String> = page.iter().map(|(_, path)| query.show(path)).collect();
    let mut result = Map::new();
    result.insert("total_count".to_owned(), json!(total));
    result.insert("files".to_owned(), json!(shown));
    Ok(Found { result, next, warning: walk.cut_short(), omitted: walk.omitted })
}
