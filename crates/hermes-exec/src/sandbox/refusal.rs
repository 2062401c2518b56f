//! Explains which part of a command's failure the sandbox caused.
//!
//! The kernel does not report which rule refused what, so the error messages are parsed: a path in them that
//! the sandbox denies is the reason; for a path that the sandbox allows, the refusal has another cause.

use std::path::{Component, Path, PathBuf};

use hermes_types::CommandOutput;

use super::git::is_control_file;
use super::limits::SandboxLimits;
use super::tree::SubtreeAccess;
use super::{NetworkReach, SandboxPaths};

/// An operation that the sandbox refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRefusal {
    /// The path that was refused, where the message names it.
    pub path: Option<PathBuf>,
    /// The reason, in a few words.
    pub rule: String,
    /// The setting that would allow the operation.
    pub setting: String,
}

const DENIED: &[&str] = &[
    "Permission denied",
    "permission denied",
    "EACCES",
    "Read-only file system",
    "EROFS",
    "Device or resource busy",
    "Invalid cross-device link",
];
const NOT_PERMITTED: &[&str] =
    &["Operation not permitted", "operation not permitted", "EPERM", "must be superuser", "must be root"];
const NO_NETWORK: &[&str] = &[
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "EAI_AGAIN",
    "failed to lookup address information",
    "Couldn't connect to server",
    "urlopen error",
];
/// The messages of programs that cannot connect to a socket.
const NO_SOCKET: &[&str] = &[
    "Cannot connect to the Docker daemon",
    "failed to connect to the docker API",
    "error connecting to /tmp/tmux-",
    "Failed to connect to bus",
    "unable to connect to Podman socket",
];
/// The messages about missing files, because what is hidden looks empty.
const MISSING: &[&str] = &["No such file or directory", "ENOENT"];
const OFF: &str = "`terminal.sandbox: off`";

impl SandboxLimits {
    /// Returns how the sandbox caused a failure; `None` where it did not.
    pub(super) fn explain(
        &self,
        finished: &CommandOutput,
        folders: &[&Path],
        places: &SandboxPaths,
    ) -> Option<SandboxRefusal> {
        // A command that succeeded may still have been refused something; then its message names the path.
        let well = finished.exit_code == 0;
        let says = |line: &str, signs: &[&str]| signs.iter().any(|sign| line.contains(sign));
        let complaints = finished
            .output
            .lines()
            .filter(|line| says(line, DENIED) || says(line, NOT_PERMITTED) || says(line, MISSING));
        let mut unnamed = None;
        for line in complaints {
            let named = paths_in(line, folders, &places.user_home);
            if says(line, MISSING) {
                if let Some(path) = named.iter().find(|path| self.is_hidden(path)) {
                    return Some(secret(path));
                }
                continue;
            }
            if let Some(refusal) = named.iter().find_map(|path| self.refusal_for(path)) {
                return Some(refusal);
            }
            if named.is_empty() && says(line, NOT_PERMITTED) && !well {
                unnamed = Some(self.unnamed());
            }
        }
        if well {
            return None;
        }
        if says(&finished.output, NO_SOCKET) {
            let rule = "sockets of programs that would act outside the sandbox are hidden";
            return Some(refusal(
                None,
                rule,
                "`terminal.sandbox_writable: [/var/run/docker.sock]`, or that other socket,",
            ));
        }
        if finished.output.contains("no new privileges") {
            return Some(refusal(None, "commands in the sandbox cannot become another user", OFF));
        }
        if unnamed.is_none()
            && self.network_reach == NetworkReach::ThisMachine
            && says(&finished.output, NO_NETWORK)
        {
            return Some(self.unnamed());
        }
        unnamed
    }

    fn refusal_for(&self, path: &Path) -> Option<SandboxRefusal> {
        let within = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let shown = || Some(path.to_owned());
        if is_control_file(path) && within(&self.writable) {
            let git = path.ancestors().find(|above| above.ends_with(".git")).unwrap_or(path);
            let setting = format!("`terminal.sandbox_writable: [{}]`", git.join("hooks").display());
            return Some(refusal(
                shown(),
                "what git runs from a repository would later run outside the sandbox",
                &setting,
            ));
        }
        if path.starts_with("/proc") {
            return Some(refusal(shown(), "other processes cannot be looked into", OFF));
        }
        if self.unreadable_reason(path).is_some() {
            return Some(secret(path));
        }
        if self.protected_reason(path).is_some() {
            return Some(refusal(
                shown(),
                "it decides what runs outside the sandbox, or belongs to Hermes",
                OFF,
            ));
        }
        if !within(&self.writable) {
            let setting =
                format!("`terminal.sandbox_writable: [{}]`", path.parent().unwrap_or(path).display());
            return Some(refusal(shown(), "it is outside the folders commands may write to", &setting));
        }
        // A folder that contains something denied is not allowed itself.
        if !path.exists()
            && path.parent().is_some_and(|parent| self.write_access(parent) == SubtreeAccess::Mixed)
        {
            let rule =
                "nothing new can be made in a folder that holds protected files; make it in a folder below";
            return Some(refusal(shown(), rule, OFF));
        }
        None
    }

    /// Tells whether the path exists and is hidden from commands.
    fn is_hidden(&self, path: &Path) -> bool {
        self.unreadable_reason(path).is_some() && path.exists()
    }

    fn unnamed(&self) -> SandboxRefusal {
        match self.network_reach {
            NetworkReach::ThisMachine => {
                refusal(None, "commands have no network", "`terminal.sandbox_network: on`")
            }
            NetworkReach::Everywhere => refusal(
                None,
                "commands in the sandbox cannot look into other processes, mount, or make namespaces",
                OFF,
            ),
        }
    }
}

fn secret(path: &Path) -> SandboxRefusal {
    refusal(Some(path.to_owned()), "it holds secrets", OFF)
}

fn refusal(path: Option<PathBuf>, rule: &str, setting: &str) -> SandboxRefusal {
    SandboxRefusal { path, rule: rule.to_owned(), setting: setting.to_owned() }
}

/// Returns the absolute paths that a message names. Relative ones are tried below each folder in which the
/// command was.
fn paths_in(line: &str, folders: &[&Path], home: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for name in names_in(line) {
        let candidates: Vec<PathBuf> = if name.starts_with('/') {
            vec![PathBuf::from(name)]
        } else if let Some(rest) = name.strip_prefix("~/") {
            vec![home.join(rest)]
        } else {
            folders.iter().map(|folder| folder.join(name)).collect()
        };
        for candidate in candidates.iter().map(|path| resolve_links(&without_dots(path))) {
            if candidate.parent().is_some_and(Path::exists) && !found.contains(&candidate) {
                found.push(candidate);
            }
        }
    }
    found
}

/// Returns the text in quotes, else the text after the message, else the last text before it. The program
/// that reports the error comes first and is never returned.
fn names_in(line: &str) -> Vec<&str> {
    let quoted = [('\'', '\''), ('"', '"'), ('‘', '’')].into_iter().flat_map(|(open, close)| {
        line.split(open)
            .skip(1)
            .step_by(if open == close { 2 } else { 1 })
            .filter_map(move |rest| rest.split(close).next())
    });
    let quoted: Vec<&str> = quoted.filter(|name| !name.trim().is_empty()).collect();
    if !quoted.is_empty() {
        return quoted;
    }
    let Some((at, sign)) =
        DENIED.iter().chain(NOT_PERMITTED).chain(MISSING).find_map(|sign| Some((line.find(sign)?, sign)))
    else {
        return Vec::new();
    };
    let is_name =
        |name: &&str| !name.is_empty() && !name.contains(char::is_whitespace) && !name.starts_with('[');
    let behind = line.get(at + sign.len()..).unwrap_or_default().trim_matches([':', ' ', ')', '(', '.']);
    if is_name(&behind) {
        return vec![behind];
    }
    let before = line.get(..at).unwrap_or_default().trim_end_matches([' ', '(', ':']);
    let last = before.rsplit_once(": ").map(|(_, last)| last.trim()).filter(is_name);
    let word = || before.rsplit(' ').next().filter(|word| word.contains('/') && before.contains(' '));
    last.or_else(word).into_iter().collect()
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the path with the links in its existing part resolved.
pub(super) fn resolve_links(path: &Path) -> PathBuf {
    let Some(existing) = path.ancestors().find(|part| part.exists()) else { return path.to_owned() };
    match (existing.canonicalize(), path.strip_prefix(existing)) {
        (Ok(real), Ok(rest)) if !rest.as_os_str().is_empty() => real.join(rest),
        (Ok(real), _) => real,
        (Err(_), _) => path.to_owned(),
    }
}
