//! Chooses the shell that runs commands.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::variables::Variables;

/// A shell, and whether it is bash, which snapshots require.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shell {
    pub(crate) program: PathBuf,
    pub(crate) kind: ShellKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellKind {
    Bash,
    Other,
}

impl Shell {
    /// Finds bash on PATH or in its usual folders, else the user's shell, else `sh`.
    pub(crate) fn find(variables: &Variables) -> Option<Self> {
        let path = variables.get("PATH").unwrap_or_default();
        let in_path = path
            .split(':')
            .filter(|folder| folder.starts_with('/'))
            .map(|folder| Path::new(folder).join("bash"));
        let bash = in_path.chain(["/usr/bin/bash".into(), "/bin/bash".into()]).find(|file| is_program(file));
        if let Some(program) = bash {
            return Some(Self { program, kind: ShellKind::Bash });
        }
        let others = variables.get("SHELL").into_iter().chain(["/bin/sh"]).map(PathBuf::from);
        others
            .into_iter()
            .find(|file| is_program(file))
            .map(|program| Self { program, kind: ShellKind::Other })
    }
}

fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Returns a word that a shell reads as exactly this text.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
