//! Reads a folder for the scanner.

use std::fs;
use std::io;
use std::path::Path;

use hermes_guard::{LinkTarget, SkillEntry, SkillScan, scan_skill};

use super::tree::{self, TreeFile};

/// Scans a folder. Links are reported and not followed.
pub fn scan_folder(folder: &Path) -> io::Result<SkillScan> {
    let files = tree::read(folder)?;
    let links = links(folder)?;
    Ok(scan(&files, &links))
}

/// Scans files in memory.
pub fn scan_files(files: &[TreeFile]) -> SkillScan {
    scan(files, &[])
}

fn scan(files: &[TreeFile], links: &[(String, LinkTarget)]) -> SkillScan {
    let files = files.iter().map(|file| SkillEntry::File {
        path: &file.path,
        bytes: &file.bytes,
        executable: file.executable,
    });
    let links = links.iter().map(|(path, target)| SkillEntry::Link { path, target: *target });
    scan_skill(&files.chain(links).collect::<Vec<_>>())
}

fn links(folder: &Path) -> io::Result<Vec<(String, LinkTarget)>> {
    let root = folder.canonicalize()?;
    let mut links = Vec::new();
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                let target = match entry.path().canonicalize() {
                    Ok(real) if real.starts_with(&root) => LinkTarget::Inside,
                    Ok(_) => LinkTarget::Outside,
                    Err(_) => LinkTarget::Missing,
                };
                links.push((path, target));
            } else if kind.is_dir() {
                open.push((entry.path(), format!("{path}/")));
            }
        }
    }
    Ok(links)
}
