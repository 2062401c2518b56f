//! config.yaml as the program sees it: the user's tree, and that tree merged over the defaults.
//!
//! Loading never fails, never prompts, and never writes config.yaml: a file that cannot be read results in
//! defaults and a warning, which is enough for inspection and repair. Code that acts (a turn, the gateway, a job)
//! first calls [`Config::require_usable`], because the defaults may allow more than the unreadable file did.
//! Getters are pure; a value that did not fit its key was replaced by the default, and reported, at load time.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::keys::{self, DefaultsScope};
use crate::tree::{expand, fold_legacy_keys, merge, normalise};
use crate::yaml::{KeyPath, YamlMap, YamlValue, parse};
use crate::{Env, Error, Home, Result, write};

/// The state of the config.yaml file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFileState {
    Missing,
    Loaded,
    /// The file is unreadable or not YAML; the defaults are in force and the file must not be overwritten.
    Broken,
}

/// The keys that have the same name in config.yaml and in `gateway.json`.
const LEGACY: [&str; 6] =
    ["platforms", "quick_commands", "reset_triggers", "streaming", "always_log_local", "stt"];

/// Sections and single keys whose unusable values are not replaced by the default, because they may protect
/// something.
const PROTECTIVE: [&str; 12] = [
    "approvals",
    "budget",
    "code_execution",
    "command_allowlist",
    "custom_providers",
    "delegation.base_url",
    "delegation.provider",
    "model.base_url",
    "model.provider",
    "platforms",
    "security",
    "terminal",
];

/// Tells whether a key is one of the protective keys, lies below one, or contains one.
fn is_protective(key: &str) -> bool {
    let lies_below = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    PROTECTIVE.iter().any(|protective| lies_below(key, protective) || lies_below(protective, key))
}

/// A warning to show to the user once. It never contains a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    pub key: Option<String>,
    pub text: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The result of reading config.yaml.
#[derive(Debug, Clone)]
pub struct Config {
    path: PathBuf,
    state: ConfigFileState,
    /// The reason why the file is broken; empty if it is not.
    problem: String,
    raw: YamlMap,
    /// `raw` with `${VAR}` expanded and nothing else changed.
    expanded: YamlValue,
    user: YamlValue,
    merged: YamlValue,
    warnings: Vec<ConfigWarning>,
}

/// Tells whether the user's file is left out for this run.
fn is_ignored(env: &Env) -> bool {
    ["HERMES_IGNORE_USER_CONFIG", "HERMES_SAFE_MODE"].iter().any(|name| env.bool(name).unwrap_or(false))
}

impl Config {
    /// Reads the home's config.yaml, creating the home's folders when that is possible.
    pub fn load(home: &Home, env: &Env) -> Self {
        let mut warnings = Vec::new();
        if let Err(error) = home.ensure() {
            // A read-only home can still be read.
            warnings.push(ConfigWarning { key: None, text: error.to_string() });
        }
        let mut config = if is_ignored(env) {
            Self::from_tree(&home.config(), ConfigFileState::Missing, YamlMap::new(), env)
        } else {
            Self::load_file(&home.config(), env)
        };
        warnings.append(&mut config.warnings);
        config.warnings = warnings;
        config
    }

    /// Does the same as [`Config::load`] without creating folders in the home.
    pub fn load_file(path: &Path, env: &Env) -> Self {
        match write::read_optional(path) {
            Ok(None) => Self::from_tree(path, ConfigFileState::Missing, YamlMap::new(), env),
            Ok(Some(bytes)) => match String::from_utf8(bytes) {
                Ok(text) => Self::from_text(path, &text, env),
                Err(error) => {
                    let at = error.utf8_error().valid_up_to();
                    let line = error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
                    Self::broken(path, &format!("not UTF-8 text (line {line})"), env)
                }
            },
            Err(error) => Self::broken(path, &error.to_string(), env),
        }
    }

    /// Parses a text as if it were the file at `path`.
    pub fn from_text(path: &Path, text: &str, env: &Env) -> Self {
        match parse(text) {
            Ok(YamlValue::Map(map)) => Self::from_tree(path, ConfigFileState::Loaded, map, env),
            Ok(YamlValue::Null) => Self::from_tree(path, ConfigFileState::Loaded, YamlMap::new(), env),
            Ok(other) => {
                Self::broken(path, &format!("it holds {} instead of keys and values", other.kind_name()), env)
            }
            Err(error) => Self::broken(path, &error.to_string(), env),
        }
    }

    fn broken(path: &Path, problem: &str, env: &Env) -> Self {
        let mut config = Self::from_tree(path, ConfigFileState::Broken, YamlMap::new(), env);
        problem.clone_into(&mut config.problem);
        config.warn(format!(
            "Warning: Failed to load config: {}: {problem}. The file is left as it is. Fix it with: hermes config edit",
            path.display()
        ));
        config
    }

    fn from_tree(path: &Path, state: ConfigFileState, raw: YamlMap, env: &Env) -> Self {
        let mut folded = raw.clone();
        fold_legacy_keys(&mut folded);
        let mut user = YamlValue::Map(folded);
        let mut expanded = YamlValue::Map(raw.clone());
        expand(&mut expanded, env);
        let mut merged = keys::default_tree(DefaultsScope::Effective).clone();
        merge(&mut merged, &user);
        expand(&mut merged, env);
        expand(&mut user, env);
        if let Some(name) = merged.get("model").and_then(YamlValue::as_str).map(str::to_owned) {
            merged.set_path(
                &["model".to_owned()],
                YamlValue::Map(YamlMap::from_iter([("default".to_owned(), YamlValue::Str(name))])),
            );
        }
        let findings = normalise(&mut merged);
        let warnings = findings
            .into_iter()
            .map(|finding| ConfigWarning { text: finding.to_string(), key: Some(finding.key) })
            .collect();
        Self { path: path.to_owned(), state, problem: String::new(), raw, expanded, user, merged, warnings }
    }

    /// Returns the configuration that a file with these values in addition would give.
    #[must_use]
    pub fn with_values(&self, values: impl IntoIterator<Item = (KeyPath, YamlValue)>, env: &Env) -> Self {
        let mut tree = YamlValue::Map(self.raw.clone());
        for (path, value) in values {
            tree.set_path(path.segments(), value);
        }
        let YamlValue::Map(raw) = tree else { return self.clone() };
        Self { warnings: self.warnings.clone(), ..Self::from_tree(&self.path, self.state, raw, env) }
    }

    /// Adds the values of `gateway.json`, an older file whose keys count where config.yaml does not set them.
    #[must_use]
    pub fn with_legacy_gateway(self, home: &Home, env: &Env) -> Self {
        let path = home.gateway_json();
        let Ok(Some(bytes)) = write::read_optional(&path) else { return self };
        let Ok(YamlValue::Map(legacy)) = parse(&String::from_utf8_lossy(&bytes)) else {
            let mut config = self;
            config.warn(format!("{} cannot be read as JSON; it is left out", path.display()));
            return config;
        };
        let known = |(name, _): &(&str, &YamlValue)| LEGACY.contains(name);
        let entries = legacy.iter().filter(known).map(|(name, value)| (name.to_owned(), value.clone()));
        let mut beneath = YamlValue::Map(entries.collect());
        if let Some(enabled) = legacy.get("stt_enabled") {
            beneath.set_path(&["stt".to_owned(), "enabled".to_owned()], enabled.clone());
        }
        merge(&mut beneath, &YamlValue::Map(self.raw.clone()));
        let YamlValue::Map(whole) = beneath else { return self };
        let both = Self::from_tree(&self.path, self.state, whole, env);
        Self { user: both.user, merged: both.merged, ..self }
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(ConfigWarning { key: None, text });
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn state(&self) -> ConfigFileState {
        self.state
    }

    /// Fails when acting on this configuration could allow what its file forbids: the file cannot be read, or a
    /// protective value cannot be used.
    pub fn require_usable(&self, env: &Env) -> Result<()> {
        let unusable =
            |problem: &str| Error::Unusable { path: self.path.clone(), problem: problem.to_owned() };
        if let Some(error) = env.read_problem() {
            return Err(Error::UnusableEnvironment { problem: error.to_owned() });
        }
        if self.state == ConfigFileState::Broken {
            return Err(unusable(&self.problem));
        }
        let wrong = self.warnings.iter().find(|warning| warning.key.as_deref().is_some_and(is_protective));
        wrong.map_or(Ok(()), |warning| Err(unusable(&warning.text)))
    }

    /// Returns the user's tree exactly as written: no old keys moved, no variables expanded, no defaults added.
    pub fn raw(&self) -> &YamlMap {
        &self.raw
    }

    /// Returns the user's tree with old keys moved and `${VAR}` expanded, without defaults.
    pub fn user(&self) -> &YamlValue {
        &self.user
    }

    /// Returns the tree in force.
    pub fn merged(&self) -> &YamlValue {
        &self.merged
    }

    /// Returns the warnings for the user, in file order. Nothing is logged here, because the gateway reloads
    /// often; the caller shows or logs each warning once.
    pub fn warnings(&self) -> &[ConfigWarning] {
        &self.warnings
    }

    /// Returns the findings of `config check`: unknown keys, wrong types, unresolved `${VAR}`.
    pub fn findings(&self) -> Vec<keys::KeyFinding> {
        keys::check(&self.expanded)
    }

    /// Tells whether the user's file sets this path to a value other than null.
    pub fn is_user_set(&self, dotted: &str) -> bool {
        self.user.lookup(dotted).is_some_and(|value| !value.is_null())
    }

    /// Returns the value in force: the user's, otherwise the documented default. Null counts as absent.
    pub fn get(&self, dotted: &str) -> Option<YamlValue> {
        self.merged
            .lookup(dotted)
            .filter(|value| !value.is_null())
            .cloned()
            .or_else(|| keys::default_of(dotted).filter(|value| !value.is_null()))
    }

    pub fn flag(&self, dotted: &str) -> bool {
        self.get(dotted).and_then(|value| value.as_bool()).unwrap_or_default()
    }

    pub fn int(&self, dotted: &str) -> Option<i64> {
        self.get(dotted)?.as_int().and_then(|value| i64::try_from(value).ok())
    }

    /// Returns a non-negative count; a value out of range results in the documented default.
    pub fn count(&self, dotted: &str) -> usize {
        let given = self.get(dotted).and_then(|value| usize::try_from(value.as_int()?).ok());
        given.unwrap_or_else(|| keys::default_count(dotted))
    }

    pub fn number(&self, dotted: &str) -> Option<f64> {
        self.get(dotted)?.as_float().filter(|value| value.is_finite())
    }

    /// Returns a number that passes a check; any other value results in the documented default.
    pub fn number_where(&self, dotted: &str, is_valid: impl Fn(f64) -> bool) -> f64 {
        let given = self.number(dotted).filter(|value| is_valid(*value));
        given.unwrap_or_else(|| keys::default_number(dotted))
    }

    /// Returns a span of more than zero seconds; any other value results in the documented default.
    pub fn seconds(&self, dotted: &str) -> Duration {
        let is_span = |seconds: f64| seconds > 0.0 && Duration::try_from_secs_f64(seconds).is_ok();
        Duration::try_from_secs_f64(self.number_where(dotted, is_span)).unwrap_or_default()
    }

    /// Returns text, empty when there is none.
    pub fn text(&self, dotted: &str) -> String {
        self.get(dotted).and_then(|value| value.scalar_text()).unwrap_or_default()
    }

    /// Returns trimmed text, or `None` when it is empty.
    pub fn non_empty_text(&self, dotted: &str) -> Option<String> {
        Some(self.text(dotted).trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns the entries as text; ids written as numbers keep every digit.
    pub fn list(&self, dotted: &str) -> Vec<String> {
        self.get(dotted).map(|value| text_list(&value)).unwrap_or_default()
    }

    pub fn map(&self, dotted: &str) -> YamlMap {
        match self.get(dotted) {
            Some(YamlValue::Map(map)) => map,
            _ => YamlMap::new(),
        }
    }
}

/// Returns a list, or a comma-separated text, as texts.
pub(crate) fn text_list(value: &YamlValue) -> Vec<String> {
    match value {
        YamlValue::Seq(items) => {
            items.iter().filter_map(YamlValue::scalar_text).filter(|text| !text.is_empty()).collect()
        }
        YamlValue::Map(_) | YamlValue::Null => Vec::new(),
        other => other.scalar_text().map(|text| crate::env::split_list(&text)).unwrap_or_default(),
    }
}
