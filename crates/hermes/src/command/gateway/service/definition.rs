//! Service definition files: written atomically and readable by all, since they hold no secret and managers expect
//! it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use hermes_config::write;

const MODE: u32 = 0o644;

pub(crate) fn write_definition(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    write::replace(file, text.as_bytes())?;
    fs::set_permissions(file, fs::Permissions::from_mode(MODE))
        .with_context(|| format!("{} cannot be made readable", file.display()))
}

/// Reads the installed definition; returns `None` if there is none.
pub(crate) fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

pub(crate) fn remove(file: &Path) -> Result<()> {
    fs::remove_file(file).with_context(|| format!("{} cannot be removed", file.display()))
}
