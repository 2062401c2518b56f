//! Start-up files: entries of the user's home that other programs read or run by themselves, where they do
//! not exist yet.
//!
//! Existing ones cannot be changed. The creation of others cannot be prevented where the home itself is
//! writable, so what a command created is renamed when the command has ended.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use hermes_types::random_hex;

use super::limits::SandboxLimits;
use super::stores::STARTUP;

const ASIDE: &str = ".taken-aside-";

/// The start-up files that did not exist before a command.
#[derive(Debug)]
pub(super) struct StartupFiles {
    home: PathBuf,
    absent: Vec<PathBuf>,
    /// The names in the home that begin with a dot, where the home itself is the project.
    dot_names: Option<BTreeSet<OsString>>,
}

impl StartupFiles {
    pub(super) fn record(limits: &SandboxLimits, programs: &[PathBuf]) -> Self {
        let home = limits.user_home.clone();
        let programs =
            programs.iter().filter(|folder| folder.starts_with(&home) && **folder != home).cloned();
        let all = STARTUP.iter().map(|name| home.join(name)).chain(programs);
        let absent = all.filter(|path| fs::symlink_metadata(path).is_err()).collect();
        let dot_names = limits.is_home().then(|| dots_in(&home));
        Self { home, absent, dot_names }
    }

    /// Renames what was created since, so that no program runs it, and nothing is lost if the user created
    /// it. Returns messages about it.
    pub(super) fn restore(&self) -> Vec<String> {
        let mut told: Vec<String> = self.absent.iter().filter_map(|path| move_aside(path)).collect();
        if let Some(before) = &self.dot_names {
            let new = dots_in(&self.home);
            let is_aside = |name: &OsString| name.to_string_lossy().contains(ASIDE);
            let new = new.difference(before).filter(|name| !is_aside(name));
            told.extend(new.filter_map(|name| move_aside(&self.home.join(name))));
        }
        told
    }
}

fn dots_in(home: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.file_name());
    entries.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect()
}

fn move_aside(path: &Path) -> Option<String> {
    fs::symlink_metadata(path).ok()?;
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!("{ASIDE}{}", random_hex(6)));
    match fs::rename(path, &aside) {
        Ok(()) => Some(format!("{} (it is at {} now)", path.display(), Path::new(&aside).display())),
        Err(error) => {
            tracing::warn!(%error, file = %path.display(), "a start-up file a command made stays");
            Some(format!("{} was made and could not be taken aside: {error}", path.display()))
        }
    }
}
