//! The length law: a source file stays below a limit, unless it is marked as a table.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Limits the lines of code in a file, without tests.
const MAX_LINES: usize = 700;

/// The mark near the top of a file that is a list rather than logic.
const TABLE_MARK: &str = "// table: exempt from the length limit";

/// Returns every file that breaks the law, as a sentence each.
pub(crate) fn check(crates: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for file in source_files(crates)? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        breaches.extend(judge(&file.display().to_string(), &text));
    }
    Ok(breaches)
}

fn judge(name: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    if text.lines().any(|line| line.trim_start().starts_with("include!(")) {
        breaches
            .push(format!("{name}: `include!` of Rust source hides a file's length instead of splitting it"));
    }
    let is_table = text.lines().take(20).any(|line| line.trim() == TABLE_MARK);
    let lines = code_lines(text);
    if lines > MAX_LINES && !is_table {
        breaches.push(format!("{name}: {lines} lines outside tests, more than {MAX_LINES}"));
    }
    breaches
}

/// Counts the lines before the tests, which come last in a file.
fn code_lines(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

/// Returns every source file below the crates that is not a test.
pub(crate) fn source_files(crates: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(crates, &mut files)?;
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests" && name != "target") {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().is_none_or(|name| name != "tests.rs")
        {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_keeps_its_files_short() {
        let breaches = check(&crate::workspace::root().join("crates")).unwrap();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    #[test]
    fn long_files_are_found_unless_they_are_tables_or_tests() {
        let long = "let x = 1;\n".repeat(701);
        assert_eq!(judge("a.rs", &long).len(), 1);
        assert!(judge("a.rs", &format!("{TABLE_MARK}\n{long}")).is_empty());
        assert!(judge("a.rs", &format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}")).is_empty());
    }

    #[test]
    fn splicing_is_found() {
        assert_eq!(judge("a.rs", "include!(\"rest.rs\");\n").len(), 1);
    }
}
