//! Renders files and folders as text.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use hermes_exec::SandboxAccess;
use hermes_text::estimate_tokens;
use ignore::WalkBuilder;

use super::ReferenceBlock;
use super::find::{FoundReference, ReferenceTarget};
use crate::file::extension::extension;
use crate::file::{FileGuard, ReadRefusal, real_path};

const MOST_ENTRIES: usize = 200;
/// The number of bytes checked to detect binary files.
const LOOKED_AT: u64 = 4096;
/// The size above which files are listed with bytes instead of lines. Lines of files larger than
/// `MOST_SEARCHED` are not attached.
const MOST_COUNTED: u64 = 1024 * 1024;
const MOST_SEARCHED: u64 = 256 * 1024 * 1024;

pub(super) fn read(
    guard: &FileGuard,
    access: Option<&SandboxAccess>,
    found: &FoundReference,
    window: u64,
) -> ReferenceBlock {
    match &found.target {
        ReferenceTarget::File { path, lines } => {
            let path = allowed(guard, access, path)?;
            let text = text_of(&path, *lines, window)?;
            let title = format!("📄 {} ({} tokens)", found.raw, estimate_tokens(&text));
            Ok(block(&title, text.trim_end_matches('\n'), &extension(&path)))
        }
        ReferenceTarget::Folder(path) => {
            let path = allowed(guard, access, path)?;
            Ok(format!("📁 {}\n{}", found.raw, listing(guard, access, &path)?))
        }
        _ => Err("it is no path".to_owned()),
    }
}

/// Renders a title and a code block whose delimiter does not occur in the text.
pub(super) fn block(title: &str, text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{title}\n{fence}{language}\n{text}\n{fence}")
}

/// Returns the real path if it may be read.
fn allowed(guard: &FileGuard, access: Option<&SandboxAccess>, given: &str) -> Result<PathBuf, String> {
    let path = guard.resolve(guard.folder(), given);
    let real = real_path(&path);
    if !real.starts_with(real_path(guard.folder())) {
        return Err("path is outside the allowed workspace".to_owned());
    }
    if let Some(reason) = access.and_then(|access| access.read_refusal(&real)) {
        return Err(reason);
    }
    match guard.read_refusal(&path) {
        Some(ReadRefusal::Binary { .. }) => Err("binary files are not supported".to_owned()),
        Some(refusal) => Err(refusal.to_string()),
        None if guard.is_protected(&path) => Err("it holds credentials or is read by every shell".to_owned()),
        None => Ok(real),
    }
}

fn text_of(path: &Path, lines: Option<(usize, usize)>, window: u64) -> ReferenceBlock {
    let found = fs::metadata(path).map_err(|_| "file not found".to_owned())?;
    if found.is_dir() {
        return Err("it is a folder; @folder: lists it".to_owned());
    }
    if !found.is_file() {
        return Err("it is no regular file".to_owned());
    }
    // A character takes at most four bytes, and a token is estimated as four characters.
    let most = if lines.is_some() { MOST_SEARCHED } else { window.saturating_mul(16) };
    if found.len() > most {
        return Err(format!("it is too large ({} bytes)", found.len()));
    }
    let failed = |error: std::io::Error| error.to_string();
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    if is_binary(file.fill_buf().map_err(failed)?) {
        return Err("binary files are not supported".to_owned());
    }
    let mut bytes = Vec::new();
    match lines {
        None => {
            file.read_to_end(&mut bytes).map_err(failed)?;
        }
        Some((first, last)) => {
            let mut line = Vec::new();
            let mut count = 0;
            while count < last && file.read_until(b'\n', &mut line).map_err(failed)? > 0 {
                count += 1;
                if count >= first {
                    bytes.append(&mut line);
                }
                line.clear();
            }
            if count < first {
                return Err(format!("it has {count} lines"));
            }
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_binary(beginning: &[u8]) -> bool {
    beginning.iter().take(usize::try_from(LOOKED_AT).unwrap_or(usize::MAX)).any(|byte| *byte == 0)
}

/// Lists the content of a folder and its subfolders, without hidden and ignored files.
fn listing(guard: &FileGuard, access: Option<&SandboxAccess>, root: &Path) -> ReferenceBlock {
    if !root.is_dir() {
        return Err(if root.exists() { "it is no folder" } else { "folder not found" }.to_owned());
    }
    let walk = WalkBuilder::new(root).require_git(false).sort_by_file_path(Path::cmp).build();
    let hidden = |path: &Path| access.is_some_and(|access| access.read_refusal(path).is_some());
    let entries = walk
        .flatten()
        .filter(|entry| entry.depth() > 0 && !guard.is_protected(entry.path()) && !hidden(entry.path()));
    let mut lines: Vec<String> = Vec::new();
    for entry in entries {
        if lines.len() == MOST_ENTRIES {
            lines.push("- ...".to_owned());
            break;
        }
        let indent = "  ".repeat(entry.depth() - 1);
        let name = entry.file_name().to_string_lossy();
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let line = if is_folder {
            format!("{indent}- {name}/")
        } else {
            format!("{indent}- {name}{}", measure(entry.path()))
        };
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push("(empty)".to_owned());
    }
    Ok(lines.join("\n"))
}

/// Returns the number of lines of a text, or of bytes of any other file.
fn measure(path: &Path) -> String {
    let Ok(found) = fs::symlink_metadata(path) else { return String::new() };
    if !found.is_file() {
        return String::new();
    }
    let in_bytes = || format!(" ({} bytes)", found.len());
    if found.len() > MOST_COUNTED {
        return in_bytes();
    }
    match fs::read(path) {
        Ok(bytes) if !is_binary(&bytes) => {
            format!(" ({} lines)", String::from_utf8_lossy(&bytes).lines().count())
        }
        _ => in_bytes(),
    }
}
