//! The environment as a value: the shell's variables combined with the home's `.env`.
//!
//! The process environment is read here and nowhere else, and never written: child processes get their variables
//! from [`bridge`]. Rebuilding an [`Env`] reads one small file, so the gateway does it for every message.

pub mod bridge;
pub mod dotenv;
mod repair;
mod secret_manager;
pub mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use repair::{DotenvRepair, repair};
pub use secret_manager::{SecretPrecedence, SecretValue, provide_secrets};

use crate::home::Home;
use crate::secrets::is_secret_name;
use crate::{Result, write};

/// The source of a variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableOrigin {
    Shell,
    /// The `.env` in the home.
    UserFile,
    /// The `.env` beside the installation.
    InstallFile,
    /// A secret manager.
    SecretManager,
    /// Hermes set the variable for this process and its children.
    Bridge,
}

/// A snapshot of the environment. Empty values count as unset.
#[derive(Clone, Default)]
pub struct Env {
    shell: Arc<BTreeMap<String, String>>,
    layered: BTreeMap<String, (String, VariableOrigin)>,
    /// The reason why an existing file could not be read.
    read_problem: Option<String>,
}

/// Prints names only, because values may be secrets.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.layered.iter().map(|(name, (_, origin))| (name, origin))).finish()
    }
}

/// The prefix of variables that are always passed to child processes.
const FORCE: &str = "_HERMES_FORCE_";

impl Env {
    /// Returns the variables this process was started with.
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

    /// Combines the shell's variables with the home's `.env`, which takes precedence; the installation's `.env`
    /// fills gaps, or takes precedence when the home has none. A file that cannot be read is left out with a
    /// warning in the log.
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
        let mut combined = Self { read_problem: unread, ..self.layer(user.as_deref(), install.as_deref()) };
        combined.add_secrets(secret_manager::fetched());
        combined
    }

    /// Adds what secret managers hold.
    fn add_secrets(&mut self, fetched: &[(SecretValue, SecretPrecedence)]) {
        for ((name, value), precedence) in fetched {
            if *precedence == SecretPrecedence::SecretManager || !self.is_set(name) {
                self.layered.insert(name.clone(), (value.clone(), VariableOrigin::SecretManager));
            }
        }
    }

    /// Returns why a file with variables could not be read, if one exists and could not.
    pub fn read_problem(&self) -> Option<&str> {
        self.read_problem.as_deref()
    }

    /// Returns every variable with its value and its source.
    pub(crate) fn with_origins(&self) -> impl Iterator<Item = (&str, &str, VariableOrigin)> {
        self.layered.iter().map(|(name, (value, origin))| (name.as_str(), value.as_str(), *origin))
    }

    /// Does the same as [`Env::with_files`] on assignments that were already read.
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

    /// Returns this environment with further variables set.
    #[must_use]
    pub fn with_variables(&self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut next = self.clone();
        next.layered
            .extend(variables.into_iter().map(|(name, value)| (name, (value, VariableOrigin::Bridge))));
        next
    }

    /// Returns the value, when set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_raw(name).filter(|value| !value.is_empty())
    }

    /// Returns the value even when empty: a variable set to nothing expands to nothing rather than to its own
    /// name.
    pub(crate) fn get_raw(&self, name: &str) -> Option<&str> {
        self.layered.get(name).map(|(value, _)| value.as_str())
    }

    /// Returns the value the process was started with, whatever a file sets, when set and not empty.
    pub fn shell_value(&self, name: &str) -> Option<&str> {
        self.shell.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn origin(&self, name: &str) -> Option<VariableOrigin> {
        self.layered.get(name).filter(|(value, _)| !value.is_empty()).map(|(_, origin)| *origin)
    }

    /// Returns a boolean: `1 true yes on` in any casing are true, everything else is false; `None` when unset.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name).map(is_true)
    }

    /// Returns a comma-separated list, with spaces trimmed and empty parts dropped.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.get(name).map(split_list).unwrap_or_default()
    }

    /// Returns the value as a number; `None` when unset or not a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.trim().parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Returns the variables for child processes: the shell's. Variables from Hermes' own files are passed only if
    /// they are `named`, or if their name begins with `_HERMES_FORCE_`.
    pub fn child_variables<'a>(&'a self, named: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.layered.iter().filter_map(move |(name, (value, origin))| {
            let value = match origin {
                VariableOrigin::UserFile | VariableOrigin::InstallFile | VariableOrigin::SecretManager
                    if !named.contains(name) && !name.starts_with(FORCE) =>
                {
                    self.shell.get(name)?
                }
                _ => value,
            };
            Some((name.as_str(), value.as_str()))
        })
    }

    /// Returns the names that no child process gets: documented secrets, and names in Hermes' own files that look
    /// like secrets. The shell's other secrets are passed on; AWS names are meant for other programs, too.
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

/// Tells whether a text means true. The exported variables contain `True`, and deployment tools write `1`.
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
