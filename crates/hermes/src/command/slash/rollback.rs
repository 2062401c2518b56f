//! `/rollback`: lists, compares or restores file checkpoints.

use std::fmt::Write as _;
use std::path::Path;

use hermes_text::head;
use hermes_tools::{Checkpoint, CheckpointManager, RestoreReport};

use super::{CommandReply, SessionChange};
use crate::context::local_time;

/// The extent of what was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestoreExtent {
    Nothing,
    Everything,
}

pub(super) fn run(checkpoints: Option<&CheckpointManager>, folder: &Path, arguments: &str) -> CommandReply {
    let Some(checkpoints) = checkpoints else {
        return CommandReply::text("Checkpoints are turned off (`checkpoints.enabled` in config.yaml).");
    };
    let (text, extent) = restore(checkpoints, folder, arguments);
    let reply = CommandReply::text(text);
    match extent {
        RestoreExtent::Nothing => reply,
        RestoreExtent::Everything => reply.changing(SessionChange::FilesRestored),
    }
}

/// Lists, compares or restores checkpoints of a folder, and returns what happened as text.
fn restore(checkpoints: &CheckpointManager, folder: &Path, arguments: &str) -> (String, RestoreExtent) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let mut after = RestoreExtent::Nothing;
    let said = match words.as_slice() {
        [] => checkpoints.list(folder).map(|found| list_checkpoints(&found)),
        ["diff", which] => checkpoints.diff(folder, which).map(|diff| {
            let more = match diff.lines_left_out {
                0 => String::new(),
                count => format!("\n… {count} more lines"),
            };
            format!("{}\n{}{more}", diff.stat, diff.diff)
        }),
        [which] => {
            let restored = checkpoints.restore(folder, which);
            if restored.is_ok() {
                after = RestoreExtent::Everything;
            }
            restored.map(|restored| describe_restored(&restored))
        }
        [which, file @ ..] => checkpoints
            .restore_file(folder, which, &file.join(" "))
            .map(|restored| describe_restored(&restored)),
    };
    (said.unwrap_or_else(|error| error.to_string()), after)
}

fn list_checkpoints(found: &[Checkpoint]) -> String {
    let mut lines = Vec::new();
    for (at, checkpoint) in found.iter().enumerate() {
        let when = local_time(checkpoint.taken_at).to_string().replace('T', " ");
        let counts = checkpoint
            .counts
            .as_ref()
            .map(|counts| format!("  ({} files, +{}/-{})", counts.files, counts.insertions, counts.deletions))
            .unwrap_or_default();
        lines.push(format!(
            "  {}. {}  {when}  {}{counts}",
            at + 1,
            checkpoint.short_hash(),
            checkpoint.reason
        ));
    }
    lines.push(
        "  /rollback N restores one, /rollback diff N compares, /rollback N FILE restores one file"
            .to_owned(),
    );
    lines.join("\n")
}

fn describe_restored(restored: &RestoreReport) -> String {
    let mut text = format!(
        "Restored {} files to {} ({}).",
        restored.files.len(),
        head(&restored.hash, 8),
        restored.reason
    );
    for (path, why) in &restored.failed {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n  {}: {why}", path.display());
    }
    text
}
