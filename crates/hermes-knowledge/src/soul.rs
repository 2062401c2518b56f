//! SOUL.md: who the agent is, in the user's own words.

use std::fs;
use std::path::Path;

use hermes_config::{Home, write};

use crate::sanitize::{block_if_suspicious, truncate_with_notice};

/// Who the agent is when nobody has said otherwise.
pub const IDENTITY: &str = include_str!("texts/identity.md").trim_ascii();

/// The first of the working folder's and the home's file that says something.
pub fn soul(folder: &Path, home: &Home) -> Option<String> {
    [folder.join("SOUL.md"), home.join("SOUL.md")].iter().find_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| truncate_with_notice(block_if_suspicious(text, "SOUL.md"), "SOUL.md"))
    })
}

/// Puts the default into a home that has none; never touches one that is there.
pub fn create_soul(home: &Home) -> hermes_config::Result<()> {
    let path = home.join("SOUL.md");
    if path.exists() { Ok(()) } else { write::replace(&path, format!("{IDENTITY}\n").as_bytes()) }
}
