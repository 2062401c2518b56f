//! The environment as a value: the shell's variables layered with the home's `.env`.
//!
//! The process environment is read here and nowhere else, and never written: children get their variables from
//! [`bridge`]. Rebuilding an [`Env`] reads one small file, so the gateway does it for every message.

pub mod bridge;
pub mod dotenv;
mod repair;
pub mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use repair::{DotenvRepair, repair};

use crate::home::Home;
use crate::secrets::is_secret_name;
use crate::{Result, write};

/// Where a variable's value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableOrigin {
    Shell,
    /// `.env` in the home.
    UserFile,
    /// `.env` beside the installation.
    InstallFile,
    /// Set by us for this process and its children.
    Bridge,
}

/// A snapshot. Empty values count as unset.
#[derive(Clone, Default)]
pub struct Env {
    shell: Arc<BTreeMap<String, String>>,
    layered: BTreeMap<String, (String, VariableOrigin)>,
    /// Why a file that is there could not be read.
    read_problem: Option<String>,
}

/// Names only: values may be secrets.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.layered.iter().map(|(name, (_, origin))| (name, origin))).finish()
    }
}

/// A variable so named is for programs we start whatever it holds.
const FORCE: &str = "_HERMES_FORCE_";

impl Env {
    /// The variables this process was started with.
    pub fn process() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one reader of the environment")]
        let pairs = std::env::vars_os();
        Self::from_pairs(
            pairs.map(|(name, value)| {
                (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
            }),
        )
    }

    pub fn from_pairs(pairs: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        let shell: BTreeMap<String, String> =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let layered = shell
            .iter()
            .map(|(name, value)| (name.clone(), (value.clone(), VariableOrigin::Shell)))
            .collect();
        Self { shell: Arc::new(shell), layered, read_problem: None }
    }

    /// The shell's variables under the home's `.env`, which wins; the installation's `.env` fills gaps, or wins when
    /// the home has none. A file that cannot be read is left out with a warning in the log.
    #[must_use]
    pub fn with_files(&self, home: &Home, install_dir: Option<&Path>) -> Self {
        let mut unread = None;
        let mut read = |path: &Path| {
            read_pairs(path).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot read an environment file");
                unread = Some(error.to_string());
                None
            })
        };
        let user = read(&home.dotenv());
        let install = install_dir.and_then(|folder| read(&folder.join(".env")));
        Self { read_problem: unread, ..self.layer(user.as_deref(), install.as_deref()) }
    }

    /// Returns why a file with variables could not be read, if one is there and could not.
    pub fn read_problem(&self) -> Option<&str> {
        self.read_problem.as_deref()
    }

    /// Returns every variable with its value and where that came from.
    pub(crate) fn with_origins(&self) -> impl Iterator<Item = (&str, &str, VariableOrigin)> {
        self.layered.iter().map(|(name, (value, origin))| (name.as_str(), value.as_str(), *origin))
    }

    /// [`Env::with_files`] on texts already read.
    #[must_use]
    pub fn layer(&self, user: Option<&[(String, String)]>, install: Option<&[(String, String)]>) -> Self {
        let mut layered: BTreeMap<String, (String, VariableOrigin)> = self
            .shell
            .iter()
            .map(|(name, value)| (name.clone(), (value.clone(), VariableOrigin::Shell)))
            .collect();
        for (name, value) in user.unwrap_or_default() {
            layered.insert(name.clone(), (value.clone(), VariableOrigin::UserFile));
        }
        for (name, value) in install.unwrap_or_default() {
            if user.is_none() || !layered.contains_key(name) {
                layered.insert(name.clone(), (value.clone(), VariableOrigin::InstallFile));
            }
        }
        Self { shell: Arc::clone(&self.shell), layered, read_problem: None }
    }

    /// This environment with further variables set.
    #[must_use]
    pub fn with_variables(&self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut next = self.clone();
        next.layered
            .extend(variables.into_iter().map(|(name, value)| (name, (value, VariableOrigin::Bridge))));
        next
    }

    /// The value, when set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_raw(name).filter(|value| !value.is_empty())
    }

    /// The value even when empty: a blanked variable expands to nothing rather than to its own name.
    pub(crate) fn get_raw(&self, name: &str) -> Option<&str> {
        self.layered.get(name).map(|(value, _)| value.as_str())
    }

    /// The value the process was started with, whatever a file says, when set and not empty.
    pub fn shell_value(&self, name: &str) -> Option<&str> {
        self.shell.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn origin(&self, name: &str) -> Option<VariableOrigin> {
        self.layered.get(name).filter(|(value, _)| !value.is_empty()).map(|(_, origin)| *origin)
    }

    /// `1 true yes on` in any casing are true, everything else false; `None` when unset.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name).map(is_true)
    }

    /// Comma separated, blanks trimmed, empty parts dropped.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.get(name).map(split_list).unwrap_or_default()
    }

    /// The value as a number; `None` when unset or not one.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.trim().parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// The variables for programs we start: the shell's. What stands in our own files is for Hermes, and passes only where it
    /// is `named`, or where its name says that it is to.
    pub fn child_variables<'a>(&'a self, named: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.layered.iter().filter_map(move |(name, (value, origin))| {
            let value = match origin {
                VariableOrigin::UserFile | VariableOrigin::InstallFile
                    if !named.contains(name) && !name.starts_with(FORCE) =>
                {
                    self.shell.get(name)?
                }
                _ => value,
            };
            Some((name.as_str(), value.as_str()))
        })
    }

    /// Names that no program we start gets: documented secrets, and what sounds like one in our own files. The shell's own
    /// secrets are the user's business; AWS names are meant for other programs, too.
    pub fn withheld_names(&self) -> Vec<String> {
        let own = |name: &&String| {
            let documented = variables::find(name).is_some_and(|variable| variable.secret);
            let ours = self.origin(name).is_some_and(|origin| origin != VariableOrigin::Shell);
            !name.starts_with("AWS_") && (documented || ours && is_secret_name(name))
        };
        self.layered.keys().filter(own).cloned().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.layered.iter().map(|(name, (value, _))| (name.as_str(), value.as_str()))
    }
}

/// T41-15 and T41-17: exports say `True`, deployment tools write `1`.
pub fn is_true(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

pub fn split_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn read_pairs(path: &Path) -> Result<Option<Vec<(String, String)>>> {
    let bytes = write::read_optional(path)?;
    Ok(bytes.map(|bytes| dotenv::parse(&dotenv::decode(&bytes).0)))
}
