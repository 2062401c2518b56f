//! Reference pages that come from tables, so that they cannot say anything else than the program does.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::workspace;

/// Every generated page: where it goes and what it says.
fn pages() -> Vec<(PathBuf, String)> {
    vec![(workspace::root().join("docs/reference/config.md"), hermes_config::keys::markdown())]
}

pub(crate) fn write() -> Result<ExitCode> {
    for (path, text) in pages() {
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
}
