//! Results too long for the conversation: the beginning stays, the full text goes to a file the model can read.
//!
//! A result is written in full before its short form replaces it. Where no file can be written the result is cut,
//! and the model is told by how much.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_text::{head, with_commas};
use hermes_types::{CallId, SessionId};

/// The bounds of one result and of all results of one answer, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResultBounds {
    pub(crate) result: usize,
    pub(crate) batch: usize,
}

const PREVIEW: usize = 1_500;

impl ResultBounds {
    /// Returns bounds for a context window: 15 % and 30 % of it, within limits.
    pub(crate) fn for_window(tokens: u64) -> Self {
        let chars = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
        let share = |percent: usize| chars / 100 * percent;
        Self { result: share(15).clamp(8_000, 100_000), batch: share(30).clamp(16_000, 200_000) }
    }
}

/// Stores full results as files.
#[derive(Debug, Clone)]
pub(crate) struct ResultStore {
    folder: Option<PathBuf>,
}

impl ResultStore {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Stores the full result and returns its short form, which names the file.
    pub(crate) fn store_and_shorten(
        &self,
        session: &SessionId,
        call: &CallId,
        text: &str,
    ) -> (String, Option<String>) {
        let total = text.chars().count();
        match self.write(session, call, text) {
            Some(path) => {
                let shown = preview(text);
                let path = path.display().to_string();
                let block = format!(
                    "<persisted-output>\nThis result was too large ({} chars) and was saved whole to {path}\nPage through it with read_file (offset, limit) or search it with search_files.\n\nPreview (first {} chars):\n{shown}\n</persisted-output>",
                    with_commas(total),
                    with_commas(shown.chars().count()),
                );
                (block, Some(path))
            }
            None => (truncate(text, total), None),
        }
    }

    /// Stores a result that leaves the conversation and returns the line that replaces it.
    pub(crate) fn archive(&self, session: &SessionId, call: &CallId, text: &str) -> String {
        match self.write(session, call, text) {
            Some(path) => format!(
                "[Old tool output cleared to save context space: {} chars, whole in {}]",
                with_commas(text.chars().count()),
                path.display()
            ),
            None => "[Old tool output cleared to save context space]".to_owned(),
        }
    }

    fn write(&self, session: &SessionId, call: &CallId, text: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?.join(safe_file_name(session.as_str()));
        let path = folder.join(format!("{}.txt", safe_file_name(call.as_str())));
        let kept = make_private(&folder)
            .and_then(|()| hermes_config::write::replace(&path, text.as_bytes()).map_err(|e| e.to_string()));
        match kept {
            Ok(()) => Some(path),
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "a long result could not be kept");
                None
            }
        }
    }
}

fn make_private(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| error.to_string())
}

/// Returns the beginning of a text, cut at a line end if there is one past the middle.
fn preview(text: &str) -> &str {
    let kept = head(text, PREVIEW);
    match kept.rfind('\n') {
        Some(at) if at > kept.len() / 2 => kept.get(..at).unwrap_or(kept),
        _ => kept,
    }
}

const LIMIT: usize = 100_000;

fn truncate(text: &str, total: usize) -> String {
    if total <= LIMIT {
        return text.to_owned();
    }
    format!(
        "{}\n\n[Truncated: tool response was {} chars, exceeding the {} char limit]",
        head(text, LIMIT),
        with_commas(total),
        with_commas(LIMIT)
    )
}

/// Converts an id to a safe file name.
fn safe_file_name(id: &str) -> String {
    let name: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .take(120)
        .collect();
    if name.is_empty() { "_".to_owned() } else { name }
}
