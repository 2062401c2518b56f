//! The files in which a project describes how to work on it.
//!
//! The nearest `.hermes.md` (or `HERMES.md`) up to the root of the repository excludes all others. Without one,
//! every `AGENTS.md` from the working directory down is used, together with Cursor's rules. `CLAUDE.md` is used
//! only if none of these exists.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sanitize::{block_if_suspicious, truncate_with_notice};

const SKIPPED_FOLDERS: [&str; 3] = ["node_modules", "__pycache__", "venv"];
/// Limits the number of folders visited, so that the start of a chat does not depend on the size of the tree.
const MOST_FOLDERS: usize = 2_000;
const MOST_DEPTH: usize = 8;

/// Renders the project layer of the prompt. Returns `None` if the project has no context files.
pub fn project_context(folder: &Path) -> Option<String> {
    let sections = sections(folder);
    if sections.is_empty() {
        return None;
    }
    let header = include_str!("texts/project_context.md").trim();
    let mut text = header.to_owned();
    for section in sections {
        text.push_str("\n\n");
        text.push_str(&section);
    }
    Some(text)
}

fn sections(folder: &Path) -> Vec<String> {
    if let Some((path, text)) = own_file(folder) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let text = without_front_matter(&text);
        return vec![section(&name, &truncate_with_notice(block_if_suspicious(text.trim(), &name), &name))];
    }
    let mut found: Vec<String> = agents(folder).into_iter().chain(cursor_rules(folder)).collect();
    if found.is_empty() {
        found.extend(group("CLAUDE.md", claude(folder)));
    }
    found
}

fn section(name: &str, text: &str) -> String {
    format!("## {name}\n\n{text}")
}

/// Renders several files as one section that shares one length limit.
fn group(name: &str, files: Vec<(String, String)>) -> Option<String> {
    if let [(only, text)] = files.as_slice() {
        return Some(section(only, &truncate_with_notice(block_if_suspicious(text.trim(), only), name)));
    }
    let parts: Vec<String> = files
        .into_iter()
        .map(|(name, text)| section(&name, &block_if_suspicious(text.trim(), &name)))
        .collect();
    (!parts.is_empty()).then(|| truncate_with_notice(parts.join("\n\n"), name))
}

fn read(path: &Path) -> Option<String> {
    fs::read(path)
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .filter(|text| !text.trim().is_empty())
}

/// Finds the project's own file up to the root of the repository. Outside a repository only the folder itself
/// is searched, because the folders above it may belong to another user.
fn own_file(folder: &Path) -> Option<(PathBuf, String)> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(folder);
    for folder in folder.ancestors() {
        for name in [".hermes.md", "HERMES.md"] {
            let path = folder.join(name);
            if let Some(text) = read(&path) {
                return Some((path, text));
            }
        }
        if folder == root {
            break;
        }
    }
    None
}

/// Returns the text after a leading block between `---` lines, or the whole text if nothing would be left.
fn without_front_matter(text: &str) -> &str {
    let rest = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
    match rest.map(|(_, body)| body.trim_start_matches('-').trim_start()) {
        Some(body) if !body.is_empty() => body,
        _ => text,
    }
}

/// Reads the first of the two files that is not empty; the upper-case name takes precedence.
fn either(folder: &Path, names: [&str; 2]) -> Option<(String, String)> {
    names.iter().find_map(|name| Some(((*name).to_owned(), read(&folder.join(name))?)))
}

fn agents(folder: &Path) -> Option<String> {
    let names = ["AGENTS.md", "agents.md"];
    let top = either(folder, names)?;
    let mut files = vec![top];
    let mut level = vec![(folder.to_owned(), String::new())];
    let mut visited = 0;
    for _ in 0..MOST_DEPTH {
        let mut below = Vec::new();
        for (at, prefix) in level {
            for name in folders_in(&at) {
                visited += 1;
                if visited > MOST_FOLDERS {
                    return group("AGENTS.md", files);
                }
                let relative = format!("{prefix}{name}/");
                below.push((at.join(&name), relative));
            }
        }
        // Folders of one level are sorted by path, and levels are visited by depth.
        below.sort_by(|a, b| a.1.cmp(&b.1));
        for (at, prefix) in &below {
            if let Some((name, text)) = either(at, names) {
                files.push((format!("{prefix}{name}"), text));
            }
        }
        if below.is_empty() {
            break;
        }
        level = below;
    }
    group("AGENTS.md", files)
}

fn folders_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && !SKIPPED_FOLDERS.contains(&name.as_str()))
        .collect()
}

fn cursor_rules(folder: &Path) -> Option<String> {
    let mut files: Vec<(String, String)> = Vec::new();
    if let Some(text) = read(&folder.join(".cursorrules")) {
        files.push((".cursorrules".to_owned(), text));
    }
    let entries = fs::read_dir(folder.join(".cursor/rules")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "mdc"))
        .collect();
    names.sort();
    for name in names {
        let name = format!(".cursor/rules/{name}");
        if let Some(text) = read(&folder.join(&name)) {
            files.push((name, text));
        }
    }
    group(".cursorrules", files)
}

fn claude(folder: &Path) -> Vec<(String, String)> {
    either(folder, ["CLAUDE.md", "claude.md"]).into_iter().collect()
}
