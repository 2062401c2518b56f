//! Files of the conversation for the fields of a page.
//!
//! A page gets copies: what was allowed to be read is what it gets, wherever the file is.

use std::path::{Path, PathBuf};

use hermes_browser::{BrowserError, BrowserSession};
use hermes_types::{ToolContext, ToolInvocation, random_hex};

use super::page_result::PageResult;
use super::vision::remove_older;
use super::{BrowserTool, with_sign};
use crate::argument::text;
use crate::file::ReadRefusal;
use crate::off_thread::off_thread;

/// The largest file.
const LARGEST: u64 = 50 * 1024 * 1024;
const MOST_FILES: usize = 20;

impl BrowserTool {
    /// Gives the files whose paths are the lines of `words` to a field.
    pub(super) async fn upload(
        &self,
        call: &ToolInvocation,
        context: &ToolContext<'_>,
        session: &mut BrowserSession,
        words: &str,
        result: &mut PageResult,
    ) -> Result<(), BrowserError> {
        let refused = |reason: String| BrowserError::Refused(reason);
        let given: Vec<String> =
            words.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if given.is_empty() || given.len() > MOST_FILES {
            return Err(refused(format!("a field for files takes 1 to {MOST_FILES} paths, one in a line")));
        }
        let disk = self.access.files.file_system(call, context.cancel).await;
        let disk = disk.map_err(|outcome| refused(outcome.content))?;
        let (folder, now) = (self.access.uploads.clone(), self.access.clock.now());
        let copied = off_thread("uploads", move || {
            remove_older(&folder, "", now);
            let mut copies = Vec::new();
            for given in given {
                let path = disk.resolve(&given);
                let unreadable = |error: &dyn std::fmt::Display| format!("cannot read {given}: {error}");
                let seen = disk.inspect(&path).map_err(|error| unreadable(&error))?;
                // A page takes any kind of file; every other reason counts.
                match disk.read_refusal(&path, &seen) {
                    None | Some(ReadRefusal::Binary { .. }) => {}
                    Some(refusal) => return Err(refusal.to_string()),
                }
                let bytes = disk.read(&path, LARGEST).map_err(|error| unreadable(&error))?;
                copies.push(store(&folder, &given, &bytes).map_err(|error| unreadable(&error))?);
            }
            Ok(copies)
        });
        let copies = copied.await.map_err(|outcome| refused(outcome.content))?.map_err(refused)?;
        let reference = text(&call.arguments, "ref").unwrap_or_default();
        session.upload(reference, &copies).await?;
        result.set("uploaded", copies.len());
        result.set("element", with_sign(reference));
        Ok(())
    }
}

/// Stores a copy under the file's own name, in a folder of its own.
fn store(folder: &Path, given: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let own = folder.join(random_hex(12));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&own)?;
    let name = Path::new(given).file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
    let copy = own.join(name);
    hermes_config::write::replace(&copy, bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(copy)
}
