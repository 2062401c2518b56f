//! Replaces one passage of one file.

use std::path::{Path, PathBuf};

use hermes_text::{FuzzyError, Occurrences, fuzzy_replace, similar_passages, unified_diff};
use hermes_types::ToolInvocation;
use serde_json::Value;

use super::{PatchChanges, PatchFailure};
use crate::argument::{any_text, text};
use crate::file::file_system::{FileSystem, stamp};
use crate::file::text_format;
use crate::file::{BURIES_SECRET, FileTools};

/// The number of consecutive failures on one file after which the model is told to stop.
const ENOUGH: u32 = 3;

pub(super) fn replace(
    files: &FileTools,
    disk: &dyn FileSystem,
    call: &ToolInvocation,
) -> Result<PatchChanges, PatchFailure> {
    let given = text(&call.arguments, "path").ok_or_else(|| "path required".to_owned())?;
    let (Some(old), Some(new)) =
        (any_text(&call.arguments, "old_string"), any_text(&call.arguments, "new_string"))
    else {
        return Err("old_string and new_string required".to_owned().into());
    };
    let occurrences = match call.arguments.get("replace_all") {
        Some(Value::Bool(true)) => Occurrences::All,
        _ => Occurrences::One,
    };
    let real = refuse(disk, given, &disk.resolve(given))?;
    files.state.with_write_lock(std::slice::from_ref(&real), || {
        let warning = files.state.staleness(&call.task, &real, stamp(disk, &real));
        let (before, form) =
            text_format::read_text(disk, &real).map_err(|error| format!("Failed to read file: {given} ({error})"))?;
        let (old, new) = (form.decode(old), form.decode(new));
        let replaced = fuzzy_replace(&before, &old, &new, occurrences)
            .map_err(|error| no_match(files, call, &real, &before, &old, &error))?;
        if files.overwrites_secret(&before, &replaced.text) {
            return Err(format!("{given} was not changed: {BURIES_SECRET}").into());
        }
        files.checkpoint(call, disk, &real);
        disk.replace(&real, &form.encode(&replaced.text))
            .map_err(|error| format!("Failed to write {given}: {error}; nothing was changed"))?;
        files.state.record_write(&call.task, &real, stamp(disk, &real));
        match text_format::read_text(disk, &real) {
            Ok((after, _)) if after == form.decode(&replaced.text) => {}
            _ => {
                let words = format!(
                    "Post-write verification failed for {given}: the file does not hold what was written; read it again"
                );
                return Err(words.into());
            }
        }
        Ok(PatchChanges {
            diff: unified_diff(
                &files.masked(&before),
                &files.masked(&replaced.text),
                &format!("a/{given}"),
                &format!("b/{given}"),
            ),
            modified: vec![given.to_owned()],
            warning,
            written: vec![(given.to_owned(), real.clone(), replaced.text)],
            ..PatchChanges::default()
        })
    })
}

/// Checks that the file may be written, and read as well because the diff shows its content. Returns its real
/// path.
pub(super) fn refuse(disk: &dyn FileSystem, given: &str, path: &Path) -> Result<PathBuf, PatchFailure> {
    let seen = disk.inspect(path).map_err(|error| format!("Failed to read file: {given} ({error})"))?;
    if let Some(reason) = disk.write_refusal(given, path, &seen) {
        return Err(reason.into());
    }
    match disk.read_refusal(path, &seen) {
        Some(refusal) => Err(refusal.to_string().into()),
        None => Ok(seen.real),
    }
}

fn no_match(
    files: &FileTools,
    call: &ToolInvocation,
    path: &Path,
    before: &str,
    old: &str,
    error: &FuzzyError,
) -> PatchFailure {
    let mut words = error.to_string();
    if *error != FuzzyError::NotFound {
        return words.into();
    }
    let alike = similar_passages(&files.masked(before), old);
    if !alike.is_empty() {
        words.push_str("\n\nDid you mean one of these?\n");
        words.push_str(&alike.join("\n---\n"));
    }
    let hint = if files.state.record_patch_failure(&call.task, path) >= ENOUGH {
        "Stop retrying this patch: read the file again first, then patch from its current text or rewrite it with write_file."
    } else {
        "Read the lines with read_file, or find them with search_files, and quote them as they are."
    };
    PatchFailure { error: words, hint: Some(hint.to_owned()), ..PatchFailure::default() }
}
