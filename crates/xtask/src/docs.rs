//! Generates reference pages from the program's tables, so that they always agree with the program.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::workspace;

/// Returns every generated page: its path and its text.
fn pages() -> Vec<(PathBuf, String)> {
    let folder = workspace::root().join("docs/reference");
    vec![
        (folder.join("config.md"), hermes_config::keys::markdown()),
        (folder.join("tools.md"), hermes_tools::tools_markdown()),
    ]
}

/// Returns the pages that the program makes itself; a test of its crate compares them.
fn pages_of_program() -> Result<Vec<(PathBuf, String)>> {
    let folder = workspace::root().join("docs/reference");
    let page = |name: &str| -> Result<(PathBuf, String)> {
        let text = workspace::cargo(&["run", "--quiet", "-p", "hermes", "--", "man", "--reference", name])?;
        Ok((folder.join(format!("{name}.md")), String::from_utf8(text)?))
    };
    Ok(vec![page("commands")?, page("slash-commands")?])
}

pub(crate) fn write() -> Result<ExitCode> {
    for (path, text) in pages().into_iter().chain(pages_of_program()?) {
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_current() {
        for (path, text) in pages() {
            let written = fs::read_to_string(&path).unwrap_or_default();
            assert!(written == text, "{} is out of date: run `cargo xtask docs`", path.display());
        }
    }

    /// Checks that no promise is without a test.
    #[test]
    fn every_promise_of_the_security_page_names_a_test_that_exists() {
        let root = workspace::root();
        let page = fs::read_to_string(root.join("docs/security.md")).expect("the page");
        let mut sources = String::new();
        gather(&root.join("crates"), &mut sources);
        let cells =
            page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|')?.split('|').nth(1));
        let names: Vec<&str> = cells
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .filter(|name| name.matches('_').count() > 2)
            .collect();
        assert!(names.len() > 40, "the page has its tables: {names:?}");
        let missing: Vec<&&str> =
            names.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
        assert!(missing.is_empty(), "no such tests: {missing:#?}");
    }

    fn gather(folder: &std::path::Path, text: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                gather(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
}
