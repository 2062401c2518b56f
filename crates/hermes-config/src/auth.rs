//! auth.json: the sign-in state of providers, shared with other releases.
//!
//! Everything in it is a secret, so nothing of it is ever shown. Unknown keys are kept; a file that cannot be read
//! behaves as empty, and is copied aside before something is written.

use std::fmt;
use std::path::PathBuf;

use hermes_types::{CivilTime, WallClock};
use serde_json::{Map, Value, json};

use crate::lock::{FileLock, LockTimeout};
use crate::{Error, Home, Result, write};

/// The content of auth.json.
#[derive(Clone, Default, PartialEq)]
pub struct AuthState {
    root: Map<String, Value>,
}

impl fmt::Debug for AuthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthState").field("providers", &self.providers()).finish_non_exhaustive()
    }
}

impl AuthState {
    /// Returns the provider that was signed in last.
    pub fn active_provider(&self) -> Option<&str> {
        self.root.get("active_provider")?.as_str().filter(|name| !name.is_empty())
    }

    pub fn set_active_provider(&mut self, name: Option<&str>) {
        self.root.insert("active_provider".to_owned(), name.map_or(Value::Null, Value::from));
    }

    /// Returns the names of providers with stored state.
    pub fn providers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .root
            .get("providers")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
            .collect();
        if !names.contains(&"nous") && self.legacy_nous().is_some() {
            names.push("nous");
        }
        names
    }

    /// Returns the stored state of a provider.
    pub fn provider(&self, name: &str) -> Option<&Value> {
        let stored = self.root.get("providers").and_then(|providers| providers.get(name));
        stored.or_else(|| if name == "nous" { self.legacy_nous() } else { None })
    }

    /// Returns the Nous sign-in from where the earliest releases stored it.
    fn legacy_nous(&self) -> Option<&Value> {
        self.root.get("systems")?.get("nous_portal")
    }

    pub fn set_provider(&mut self, name: &str, state: Value) {
        insert_at(&mut self.root, "providers", name, state);
    }

    /// Signs out: removes the provider's state and, if it was the active provider, that entry too.
    pub fn remove_provider(&mut self, name: &str) -> bool {
        let mut removed = remove_from(&mut self.root, "providers", name);
        if name == "nous" {
            removed |= remove_from(&mut self.root, "systems", "nous_portal");
        }
        if self.active_provider() == Some(name) {
            self.set_active_provider(None);
        }
        removed
    }

    /// Returns the credential pool of a provider (`custom:{name}` for custom endpoints).
    pub fn credential_pool(&self, name: &str) -> &[Value] {
        self.root
            .get("credential_pool")
            .and_then(|pools| pools.get(name))
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    pub fn set_credential_pool(&mut self, name: &str, entries: Vec<Value>) {
        insert_at(&mut self.root, "credential_pool", name, Value::Array(entries));
    }

    /// Returns the whole document, for code that must know every secret in it.
    pub(crate) fn document(&self) -> &Map<String, Value> {
        &self.root
    }

    /// Returns the whole document, for state this type has no method for.
    pub fn document_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.root
    }
}

/// Sets `name` in the object under `key`; anything else under `key` is replaced by an object.
fn insert_at(root: &mut Map<String, Value>, key: &str, name: &str, value: Value) {
    match root.get_mut(key) {
        Some(Value::Object(map)) => {
            map.insert(name.to_owned(), value);
        }
        _ => {
            root.insert(key.to_owned(), json!({ name: value }));
        }
    }
}

fn remove_from(root: &mut Map<String, Value>, key: &str, name: &str) -> bool {
    root.get_mut(key).and_then(Value::as_object_mut).is_some_and(|map| map.shift_remove(name).is_some())
}

/// The auth.json file of a home.
#[derive(Debug, Clone)]
pub struct AuthFile {
    path: PathBuf,
    lock: PathBuf,
}

impl AuthFile {
    pub fn new(home: &Home) -> Self {
        Self { path: home.auth(), lock: home.auth_lock() }
    }

    /// Reads the state; it is empty when the file is missing or damaged.
    pub fn read(&self) -> AuthState {
        match self.read_checked() {
            Ok(state) => state.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "cannot read sign-in state");
                AuthState::default()
            }
        }
    }

    /// Reads the state; returns `None` for a file that exists but is damaged.
    fn read_checked(&self) -> Result<Option<AuthState>> {
        let Some(bytes) = write::read_optional(&self.path)? else {
            return Ok(Some(AuthState::default()));
        };
        Ok(match serde_json::from_slice(&bytes) {
            Ok(Value::Object(root)) => Some(AuthState { root }),
            _ if bytes.iter().all(u8::is_ascii_whitespace) => Some(AuthState::default()),
            _ => None,
        })
    }

    /// Locks out other processes, for a token refresh that must not run twice. [`AuthFile::update`] may be called
    /// while the lock is held.
    pub fn lock(&self) -> Result<FileLock> {
        FileLock::acquire(&self.lock, LockTimeout::AUTH)
    }

    /// Reads, changes and writes under the lock; an unchanged state is not written.
    pub fn update<T>(&self, change: impl FnOnce(&mut AuthState) -> T) -> Result<T> {
        let _lock = self.lock()?;
        let before = if let Some(state) = self.read_checked()? {
            state
        } else {
            self.back_up_damaged()?;
            AuthState::default()
        };
        let mut state = before.clone();
        let answer = change(&mut state);
        if state != before {
            state.root.entry("version").or_insert_with(|| Value::from(1));
            state.root.insert(
                "updated_at".to_owned(),
                Value::from(format!("{}Z", CivilTime::utc(WallClock::default().now()))),
            );
            let mut bytes = serde_json::to_vec_pretty(&state.root)
                .map_err(|error| Error::unwritable(&self.path, std::io::Error::other(error)))?;
            bytes.push(b'\n');
            write::replace(&self.path, &bytes)?;
        }
        Ok(answer)
    }

    /// Copies a damaged file to the first free `auth.json.corrupt-<n>`.
    fn back_up_damaged(&self) -> Result<()> {
        let Some(bytes) = write::read_optional(&self.path)? else {
            return Ok(());
        };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let free = (1..=u32::MAX)
            .map(|n| self.path.with_file_name(format!("{name}.corrupt-{n}")))
            .find(|path| !path.exists());
        let Some(copy) = free else {
            return Ok(());
        };
        tracing::warn!(path = %copy.display(), "auth.json is damaged; a copy is kept");
        write::replace(&copy, &bytes)
    }
}
