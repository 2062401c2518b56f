//! `config set`, `get` and `unset`, and the single-key writes behind slash commands.
//!
//! The raw file is read again under the lock right before each write, and only the addressed key is changed.
//! Results are the lines to show; a secret never appears in one.

use crate::env::bridge::export;
use crate::env::dotenv;
use crate::env::variables;
use crate::keys::{self, KeyKind, Support};
use crate::lock::{FileLock, LockTimeout};
use crate::secrets::is_secret_name;
use crate::yaml::edit::{self, EditError};
use crate::yaml::{KeyPath, YamlValue, emit_block, parse};
use crate::{Config, Env, Error, Home, ManagedMode, Result, write};

/// The usage text shown when the key or the value is missing.
pub const USAGE: &str = "Usage: hermes config set KEY VALUE\n\n\
    Examples:\n  \
    hermes config set model anthropic/claude-opus-4.6\n  \
    hermes config set terminal.backend docker\n  \
    hermes config set OPENROUTER_API_KEY sk-or-...\n\n\
    To clear a key, edit .env (hermes config env-path shows where it is).";

/// The keys of `terminal` whose value is also written to `.env`.
const MIRRORED_KEYS: &[&str] = &[
    "docker_image",
    "singularity_image",
    "modal_image",
    "daytona_image",
    "docker_mount_cwd_to_workspace",
    "cwd",
    "timeout",
    "sandbox_dir",
    "persistent_shell",
];

/// Names that belong in `.env` in any case, although they are no secrets.
const DOTENV_NAMES: &[&str] = &["FIRECRAWL_API_URL", "BROWSERBASE_PROJECT_ID"];

/// The file a change was written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetDestination {
    /// `.env`, under this name.
    Environment(String),
    /// config.yaml, at this path.
    Config(String),
}

/// The result of a change, and the lines that report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetOutcome {
    pub destination: SetDestination,
    pub lines: Vec<String>,
}

/// Says whether a value is checked before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueCheck {
    /// Refuses what cannot be used.
    Enforce,
    /// Writes it anyway, also in the place of a plain value that is where a section belongs.
    Skip,
}

/// Runs `hermes config set KEY VALUE`.
pub fn set(home: &Home, env: &Env, key: &str, value: &str) -> Result<SetOutcome> {
    set_checked(home, env, key, value, ValueCheck::Enforce)
}

/// Runs `hermes config set KEY VALUE`, with or without the check.
pub fn set_checked(home: &Home, env: &Env, key: &str, value: &str, check: ValueCheck) -> Result<SetOutcome> {
    let management = ManagedMode::detect(home, env);
    management.check_allowed("set configuration values")?;
    let key = key.trim();
    if key.is_empty() || value.is_empty() {
        return Err(Error::Usage { usage: USAGE });
    }
    if let Some(name) = dotenv_name(key) {
        dotenv::save(home, management, &[(&name, value)])?;
        let mut lines = vec![format!("✓ Set {name} in {}", home.dotenv().display())];
        if variables::find(&name).is_some_and(|variable| variable.support == Support::Kept) {
            lines.push(kept_notice(&name));
        }
        return Ok(SetOutcome { destination: SetDestination::Environment(name), lines });
    }
    set_in_file(home, management, key, value, check)
}

fn set_in_file(
    home: &Home,
    management: ManagedMode,
    key: &str,
    value: &str,
    check: ValueCheck,
) -> Result<SetOutcome> {
    let mut path = KeyPath::parse(key).ok_or_else(|| Error::InvalidKey { key: key.to_owned() })?;
    let mut notes = Vec::new();
    let file = home.config();
    home.ensure()?;
    let _lock = FileLock::acquire(&home.config_lock(), LockTimeout::SETTINGS)?;
    let text = read_text(home)?;
    if key == "model"
        && parse(&text).ok().as_ref().and_then(|tree| tree.get("model")).is_some_and(|m| m.as_map().is_some())
    {
        // A plain text here would remove the provider and endpoint that the mapping also holds.
        path = KeyPath::from_segments(["model", "default"]);
        notes.push(
            "  model is a mapping in your file, so model.default was set and its other settings were kept."
                .to_owned(),
        );
    }
    let coerced = coerce(&path, value);
    let text = match check {
        ValueCheck::Enforce => {
            check_fits(&text, &path, &coerced)?;
            text
        }
        ValueCheck::Skip => without_values_above(&text, &path),
    };
    let next = edit::set(&text, &path, &coerced).map_err(|error| Error::broken(&file, &error))?;
    write_text(home, &text, &next)?;
    if let Some(name) = mirror(&path) {
        let exported = export(&coerced).unwrap_or_default();
        dotenv::save(home, management, &[(&name, &exported)])?;
    }
    let shown = if is_secret(&path) {
        MASK.to_owned()
    } else {
        coerced.scalar_text().unwrap_or_else(|| value.to_owned())
    };
    let mut lines = vec![format!("✓ Set {path} = {shown} in {}", file.display())];
    let segments: Vec<&str> = path.segments().iter().map(String::as_str).collect();
    if !keys::is_known(&segments) {
        lines.push(format!(
            "⚠ '{path}' is not a recognized config key — it was saved anyway, but Hermes may not read it."
        ));
    }
    if keys::find_at(&segments).is_some_and(|spec| spec.support == Support::Kept) {
        lines.push(kept_notice(&path.to_string()));
    }
    lines.append(&mut notes);
    Ok(SetOutcome { destination: SetDestination::Config(path.to_string()), lines })
}

fn kept_notice(name: &str) -> String {
    format!("⚠ This release does not act on '{name}'; it is kept for other releases.")
}

/// Removes a plain value that is in the place of a section above the path.
fn without_values_above(text: &str, path: &KeyPath) -> String {
    let Ok(tree) = parse(text) else { return text.to_owned() };
    for end in 1..path.segments().len() {
        let above = path.segments().get(..end).unwrap_or_default();
        let present = tree.get_path(above.iter().map(String::as_str));
        if present.is_some_and(|present| present.as_map().is_none()) {
            let above = KeyPath::from_segments(above.iter().cloned());
            return edit::remove(text, &above).unwrap_or_else(|_| text.to_owned());
        }
    }
    text.to_owned()
}

/// Fails when a value cannot be used under a key, or when writing it would destroy a value that is in the place of
/// a section.
fn check_fits(text: &str, path: &KeyPath, value: &YamlValue) -> Result<()> {
    let segments: Vec<&str> = path.segments().iter().map(String::as_str).collect();
    let tree = parse(text).unwrap_or_default();
    for end in 1..segments.len() {
        let above = segments.get(..end).unwrap_or_default();
        // A plain value in the place of a section is a mistake that writing the section corrects.
        if keys::is_section(above) {
            continue;
        }
        let section = above.join(".");
        let present = tree.lookup(&section).filter(|present| !present.is_null());
        if let Some(present) = present.filter(|present| present.as_map().is_none()) {
            let problem = format!("{section} holds {}, not a section", present.kind_name());
            return Err(Error::InvalidValue { key: path.to_string(), problem });
        }
    }
    let Some(spec) = keys::find_at(&segments) else { return Ok(()) };
    if !matches!(keys::fit(spec, value), keys::ValueFit::Unusable) {
        return Ok(());
    }
    let problem = match spec.kind {
        KeyKind::Choice(allowed) => format!("it must be one of {}", allowed.join(", ")),
        kind => format!("it must be {}, not {}", kind.name(), value.kind_name()),
    };
    Err(Error::InvalidValue { key: path.to_string(), problem })
}

/// Returns the value in force as `config get` shows it: scalars as text, the rest as YAML, secrets masked.
pub fn get(config: &Config, env: &Env, key: &str) -> Result<String> {
    let value = get_value(config, env, key)?;
    Ok(match value.scalar_text() {
        Some(text) => text,
        None => emit_block(&value).trim_end().to_owned(),
    })
}

/// Returns the value in force, secrets masked.
pub fn get_value(config: &Config, env: &Env, key: &str) -> Result<YamlValue> {
    let key = key.trim();
    let not_set = || Error::NotSet { key: key.to_owned() };
    if let Some(name) = dotenv_name(key) {
        let value = env.get(&name).ok_or_else(not_set)?;
        return Ok(YamlValue::from(if is_secret_name(&name) { MASK } else { value }));
    }
    let path = KeyPath::parse(key).ok_or_else(|| Error::InvalidKey { key: key.to_owned() })?;
    let mut value = config.get(key).ok_or_else(not_set)?;
    let mut segments = path.segments().to_vec();
    mask(&mut value, &mut segments);
    Ok(value)
}

/// Removes the key from the raw file; a variable is set to an empty value, as switching providers does.
pub fn unset(home: &Home, env: &Env, key: &str) -> Result<SetOutcome> {
    let management = ManagedMode::detect(home, env);
    management.check_allowed("unset configuration values")?;
    let key = key.trim();
    if let Some(name) = dotenv_name(key) {
        let (text, _) = dotenv::read(&home.dotenv())?;
        if !dotenv::parse(&text).iter().any(|(other, value)| *other == name && !value.is_empty()) {
            return Err(Error::NotSet { key: name });
        }
        dotenv::save(home, management, &[(&name, "")])?;
        let line = format!("✓ Unset {name} in {}", home.dotenv().display());
        return Ok(SetOutcome { destination: SetDestination::Environment(name), lines: vec![line] });
    }
    let path = KeyPath::parse(key).ok_or_else(|| Error::InvalidKey { key: key.to_owned() })?;
    remove_value(home, management, &path)?;
    let line = format!("✓ Unset {key} in {}", home.config().display());
    Ok(SetOutcome { destination: SetDestination::Config(key.to_owned()), lines: vec![line] })
}

/// Sets one key of the raw file, for slash commands and "always" approvals.
pub fn set_value(home: &Home, management: ManagedMode, path: &KeyPath, value: &YamlValue) -> Result<()> {
    management.check_allowed("save configuration")?;
    edit_text(home, |text| edit::set(text, path, value))
}

/// Sets several keys of the raw file at once.
pub fn set_values(home: &Home, management: ManagedMode, values: &[(KeyPath, YamlValue)]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    management.check_allowed("save configuration")?;
    edit_text(home, |text| {
        values.iter().try_fold(text.to_owned(), |text, (path, value)| edit::set(&text, path, value))
    })
}

/// Changes one key depending on its current value in the raw file; `None` leaves it unchanged.
pub fn update_value(
    home: &Home,
    management: ManagedMode,
    path: &KeyPath,
    change: impl FnOnce(Option<&YamlValue>) -> Option<YamlValue>,
) -> Result<()> {
    management.check_allowed("save configuration")?;
    edit_text(home, |text| {
        let tree = parse(text)?;
        let current = tree.get_path(path.segments().iter().map(String::as_str));
        match change(current) {
            Some(next) => edit::set(text, path, &next),
            None => Ok(text.to_owned()),
        }
    })
}

/// Removes one key of the raw file.
pub fn remove_value(home: &Home, management: ManagedMode, path: &KeyPath) -> Result<()> {
    management.check_allowed("save configuration")?;
    let mut found = true;
    edit_text(home, |text| match edit::remove(text, path) {
        Err(EditError::NotFound(_)) => {
            found = false;
            Ok(text.to_owned())
        }
        other => other,
    })?;
    if found { Ok(()) } else { Err(Error::NotSet { key: path.to_string() }) }
}

/// Reads, changes and writes the file under one lock.
pub(crate) fn edit_text(
    home: &Home,
    change: impl FnOnce(&str) -> std::result::Result<String, EditError>,
) -> Result<()> {
    home.ensure()?;
    let _lock = FileLock::acquire(&home.config_lock(), LockTimeout::SETTINGS)?;
    let text = read_text(home)?;
    let next = change(&text).map_err(|error| Error::broken(&home.config(), &error))?;
    write_text(home, &text, &next)
}

pub(crate) fn read_text(home: &Home) -> Result<String> {
    let path = home.config();
    let bytes = write::read_optional(&path)?.unwrap_or_default();
    String::from_utf8(bytes).map_err(|_| Error::BrokenFile { path, problem: "not UTF-8 text".to_owned() })
}

pub(crate) fn write_text(home: &Home, before: &str, after: &str) -> Result<()> {
    if before == after && home.config().exists() {
        return Ok(());
    }
    write::replace(&home.config(), after.as_bytes())
}

/// Returns the variable a key stands for, when it belongs in `.env`.
fn dotenv_name(key: &str) -> Option<String> {
    if key.contains('.') {
        return None;
    }
    let upper = key.to_ascii_uppercase();
    let by_shape =
        upper.ends_with("_API_KEY") || upper.ends_with("_TOKEN") || upper.starts_with("TERMINAL_SSH");
    let documented = variables::find(&upper).is_some_and(|variable| variable.secret || key == upper);
    (DOTENV_NAMES.contains(&upper.as_str()) || by_shape || documented).then_some(upper)
}

fn mirror(path: &KeyPath) -> Option<String> {
    match path.segments() {
        [section, key] if section == "terminal" && key == "backend" => Some("TERMINAL_ENV".to_owned()),
        [section, key] if section == "terminal" && MIRRORED_KEYS.contains(&key.as_str()) => {
            Some(format!("TERMINAL_{}", key.to_uppercase()))
        }
        _ => None,
    }
}

/// Converts a typed value. A key that holds words keeps the word, so `approvals.mode off` stays `off`.
fn coerce(path: &KeyPath, typed: &str) -> YamlValue {
    let segments: Vec<&str> = path.segments().iter().map(String::as_str).collect();
    let kind = keys::find_at(&segments).map(|spec| spec.kind);
    if matches!(kind, Some(KeyKind::Text | KeyKind::Choice(_))) {
        return YamlValue::from(typed);
    }
    if matches!(kind, Some(KeyKind::List | KeyKind::Map | KeyKind::Any))
        && typed.starts_with(['[', '{'])
        && let Ok(json) = serde_json::from_str::<serde_json::Value>(typed)
    {
        return YamlValue::from_json(&json);
    }
    match typed.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => return YamlValue::Bool(true),
        "false" | "no" | "off" => return YamlValue::Bool(false),
        _ => {}
    }
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if digits(typed)
        && let Ok(whole) = typed.parse::<i128>()
    {
        return YamlValue::Int(whole);
    }
    if typed.matches('.').count() == 1
        && digits(&typed.replace('.', ""))
        && let Ok(number) = typed.parse::<f64>()
    {
        return YamlValue::Float(number);
    }
    YamlValue::from(typed)
}

/// The text shown instead of a secret.
pub const MASK: &str = "********";

/// Tells whether the table or the name marks the value as a secret.
fn is_secret(path: &KeyPath) -> bool {
    let segments: Vec<&str> = path.segments().iter().map(String::as_str).collect();
    keys::find_at(&segments).is_some_and(|spec| spec.secret)
        || segments.last().is_some_and(|leaf| is_secret_name(leaf) || *leaf == "api")
}

fn mask(value: &mut YamlValue, path: &mut Vec<String>) {
    let secret = is_secret(&KeyPath::from_segments(path.iter()));
    match value {
        YamlValue::Map(map) => {
            for (key, child) in map.iter_mut() {
                if secret && child.scalar_text().is_some_and(|text| !text.is_empty()) {
                    *child = YamlValue::from(MASK);
                }
                path.push(key.to_owned());
                mask(child, path);
                path.pop();
            }
        }
        YamlValue::Seq(items) => items.iter_mut().for_each(|item| mask(item, path)),
        YamlValue::Null => {}
        other if secret && other.scalar_text().is_some_and(|text| !text.is_empty()) => {
            *other = YamlValue::from(MASK);
        }
        _ => {}
    }
}
