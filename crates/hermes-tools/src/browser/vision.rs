//! `browser_vision`: a screenshot, and what a model sees in it.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hermes_browser::{BrowserError, BrowserSession, ScreenshotMarks};
use hermes_types::{Timestamp, ToolContext, ToolInvocation, random_hex};
use serde_json::json;

use super::page_result::PageResult;
use super::{BrowserTool, flag};
use crate::vision::PictureFailure;

const PREFIX: &str = "browser_screenshot_";
/// How long screenshots are kept.
const KEPT: Duration = Duration::from_hours(24);

impl BrowserTool {
    pub(super) async fn look(
        &self,
        call: &ToolInvocation,
        context: &ToolContext<'_>,
        session: &mut BrowserSession,
        question: &str,
        result: &mut PageResult,
    ) -> Result<(), BrowserError> {
        let annotate = flag(&call.arguments, "annotate");
        let marks = if annotate { ScreenshotMarks::Numbered } else { ScreenshotMarks::None };
        let shot = session.screenshot(marks).await?;
        let folder = &self.access.screenshots;
        let stored = store(folder, &shot.png, self.access.clock.now());
        let path = stored.map_err(|error| BrowserError::Refused(format!("{}: {error}", folder.display())))?;
        result.set("screenshot_path", path.to_string_lossy().as_ref());
        if annotate {
            let annotations = shot.marks.iter().map(|(number, element)| {
                json!({"number": number, "ref": format!("@e{number}"), "role": element.role, "name": element.name})
            });
            result.set_texts("annotations", annotations.collect());
        }
        let Some(reader) = &self.access.reader else {
            result.set("note", "no model that reads pictures is configured; the screenshot is stored");
            return Ok(());
        };
        let question = if annotate {
            format!(
                "{question}\n\nElements of the page have a red frame with a number; a number N stands for @eN."
            )
        } else {
            question.to_owned()
        };
        let described =
            reader.describe(&shot.png, &question, &call.session, context.deadline, context.cancel).await;
        match described {
            Ok(analysis) => result.set_text("analysis", &analysis),
            Err(PictureFailure::Cancelled) => return Err(BrowserError::Cancelled),
            Err(PictureFailure::Unreadable(reason) | PictureFailure::Model(reason)) => {
                result.set_text("note", &format!("the screenshot is stored, but was not analyzed: {reason}"));
            }
        }
        Ok(())
    }
}

fn store(folder: &Path, png: &[u8], now: Timestamp) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    remove_older(folder, PREFIX, now);
    let path = folder.join(format!("{PREFIX}{}.png", random_hex(12)));
    hermes_config::write::replace(&path, png).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(path)
}

/// Removes entries of a folder that are older than a day and whose names begin like this.
pub(super) fn remove_older(folder: &Path, prefix: &str, now: Timestamp) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|details| details.modified());
        let at = modified.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let is_old = at.is_some_and(|at| now.since(Timestamp(at.as_secs_f64())) > KEPT);
        if is_old && entry.file_name().to_string_lossy().starts_with(prefix) {
            // Another conversation may have removed it.
            let path = entry.path();
            let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        }
    }
}
