//! The user's own text editor.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use hermes_config::Env;

use crate::random;

/// What became of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditorOutcome {
    Closed,
    Failed,
    /// No editor is installed.
    None,
}

/// Opens a file in the user's editor, and waits until it is closed.
pub(crate) fn open(env: &Env, file: &Path) -> Result<EditorOutcome> {
    let chosen = ["EDITOR", "VISUAL"].into_iter().filter_map(|name| env.get(name)).map(str::to_owned);
    let usual = ["nano", "vim", "vi", "code"].map(str::to_owned);
    for editor in chosen.chain(usual) {
        let mut words = editor.split_whitespace();
        let Some(program) = words.next() else { continue };
        #[expect(
            clippy::disallowed_methods,
            reason = "hands the terminal to the user's own editor and waits"
        )]
        let started = std::process::Command::new(program).args(words).arg(file).status();
        match started {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(status) if status.success() => return Ok(EditorOutcome::Closed),
            Ok(_) => return Ok(EditorOutcome::Failed),
            Err(error) => return Err(error).with_context(|| format!("cannot start {program}")),
        }
    }
    Ok(EditorOutcome::None)
}

/// Lets the user edit a text. Returns nothing when the editor failed, or there is none.
pub(crate) fn edit_text(env: &Env, text: &str) -> Result<Option<String>> {
    let path = std::env::temp_dir().join(format!("hermes-{}.md", random::hex::<8>()?));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    let edited = open(env, &path).and_then(|outcome| match outcome {
        EditorOutcome::Closed => Ok(Some(fs::read_to_string(&path)?)),
        EditorOutcome::Failed | EditorOutcome::None => Ok(None),
    });
    // What cannot be removed stays in the temporary folder, readable by its owner alone.
    let _ = fs::remove_file(&path);
    edited
}
