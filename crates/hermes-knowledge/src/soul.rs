//! `SOUL.md`: the agent's identity, as the user describes it.

use std::fs;
use std::path::Path;

use hermes_config::{Home, write};

use crate::sanitize::{block_if_suspicious, truncate_with_notice};

/// The identity the agent has unless the user defines another one.
pub const IDENTITY: &str = include_str!("texts/identity.md").trim_ascii();

/// Returns the first non-empty `SOUL.md` of the working directory and the home.
pub fn soul(folder: &Path, home: &Home) -> Option<String> {
    [folder.join("SOUL.md"), home.join("SOUL.md")].iter().find_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| truncate_with_notice(block_if_suspicious(text, "SOUL.md"), "SOUL.md"))
    })
}

/// Writes the default file to a home that has none; never changes an existing one.
pub fn create_soul(home: &Home) -> hermes_config::Result<()> {
    let path = home.join("SOUL.md");
    if path.exists() { Ok(()) } else { write::replace(&path, format!("{IDENTITY}\n").as_bytes()) }
}
