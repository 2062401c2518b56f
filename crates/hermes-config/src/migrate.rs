//! Migrates a config.yaml of an earlier layout to the current one, keeping comments and unknown keys.
//!
//! It runs only on request: `config migrate`, `update`, or setup of an existing install. A file from a later
//! release is not changed.

use crate::env::{dotenv, repair};
use crate::keys::{self, CONFIG_VERSION, DefaultsScope};
use crate::lock::{FileLock, LockTimeout};
use crate::precedence::old_tool_progress;
use crate::set::{MASK, read_text, write_text};
use crate::yaml::edit::{self, EditError};
use crate::yaml::{KeyPath, YamlValue, emit_inline, parse};
use crate::{Config, Env, Error, Home, ManagedMode, Result};

/// The variables that each layout version introduced.
const NEW_VARIABLES: &[(i128, &[&str])] = &[
    (3, &["FIRECRAWL_API_KEY", "BROWSERBASE_API_KEY", "BROWSERBASE_PROJECT_ID", "FAL_KEY"]),
    (4, &["VOICE_TOOLS_OPENAI_KEY", "ELEVENLABS_API_KEY"]),
    (
        5,
        &[
            "WHATSAPP_ENABLED",
            "WHATSAPP_MODE",
            "WHATSAPP_ALLOWED_USERS",
            "SLACK_BOT_TOKEN",
            "SLACK_APP_TOKEN",
            "SLACK_ALLOWED_USERS",
        ],
    ),
    (10, &["TAVILY_API_KEY"]),
];

/// The sections whose presence in the file overrides variables. A migration must not add one while such a variable
/// is in use.
const SHADOWING_SECTIONS: &[(&str, &[&str])] = &[
    ("terminal", &["TERMINAL_", "SUDO_PASSWORD"]),
    ("compression", &["CONTEXT_COMPRESSION_"]),
    ("agent", &["HERMES_MAX_ITERATIONS"]),
    ("browser", &["BROWSER_INACTIVITY_TIMEOUT"]),
    ("security", &["HERMES_REDACT_SECRETS"]),
    ("display", &["HERMES_TOOL_PROGRESS"]),
    ("session_reset", &["SESSION_IDLE_MINUTES", "SESSION_RESET_HOUR"]),
];

/// The report of `config check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    /// The version in the raw file; `None` when it has none.
    pub current: Option<i128>,
    pub latest: i128,
    /// The variables introduced after the file's version that are not set.
    pub missing_variables: Vec<&'static str>,
    /// The documented keys the file does not have.
    pub new_options: Vec<String>,
}

impl MigrationStatus {
    /// Returns `{cur} → {latest}`.
    pub fn version_line(&self) -> String {
        let current = self.current.map_or_else(|| "none".to_owned(), |version| version.to_string());
        format!("{current} → {}", self.latest)
    }

    pub fn is_newer_than_ours(&self) -> bool {
        self.current.is_some_and(|version| version > self.latest)
    }
}

/// Compares the file with the current layout. The version comes from the file itself, not from the merged tree.
pub fn status(config: &Config, env: &Env) -> MigrationStatus {
    let current = config.raw().get("_config_version").and_then(read_version);
    let raw = YamlValue::Map(config.raw().clone());
    let mut status = MigrationStatus {
        current,
        latest: CONFIG_VERSION,
        missing_variables: Vec::new(),
        new_options: Vec::new(),
    };
    if !status.is_newer_than_ours() {
        status.missing_variables = new_variables(current.unwrap_or(0), env);
        status.new_options = missing(&raw, env).into_iter().map(|(path, _)| path.to_string()).collect();
    }
    status
}

fn read_version(value: &YamlValue) -> Option<i128> {
    value.as_int().or_else(|| value.scalar_text()?.trim().parse().ok())
}

fn new_variables(version: i128, env: &Env) -> Vec<&'static str> {
    NEW_VARIABLES
        .iter()
        .filter(|(since, _)| *since > version)
        .flat_map(|(_, names)| names.iter().copied())
        .filter(|name| !env.is_set(name))
        .collect()
}

/// The result of a migration: the lines to show, and the variables to ask for next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    pub from: Option<i128>,
    pub to: i128,
    pub lines: Vec<String>,
    /// The variables to ask for with `Configure new keys? [y/N]`, when a person is there to answer.
    pub ask_for: Vec<&'static str>,
}

/// Runs every step the file still needs.
pub fn migrate(home: &Home, env: &Env, run: MigrationMode) -> Result<MigrationReport> {
    ManagedMode::detect(home, env).check_allowed("migrate configuration")?;
    home.ensure()?;
    let _lock = FileLock::acquire(&home.config_lock(), LockTimeout::SETTINGS)?;
    let before = read_text(home)?;
    let broken = |problem: String| Error::BrokenFile { path: home.config(), problem };
    let tree = parse(&before).map_err(|error| broken(error.to_string()))?;
    if !matches!(tree, YamlValue::Map(_) | YamlValue::Null) {
        return Err(broken("the top level is not a mapping".to_owned()));
    }
    let from = tree.get("_config_version").and_then(read_version);
    if let Some(version) = from
        && version > CONFIG_VERSION
    {
        // A later release owns this file; lowering its version would make that release migrate it again.
        let line = format!("Config version {version} is newer than {CONFIG_VERSION}; nothing to do.");
        return Ok(MigrationReport { from, to: version, lines: vec![line], ask_for: Vec::new() });
    }
    let version = from.unwrap_or(0);
    let mut lines = Vec::new();
    if run == MigrationMode::Apply {
        repair_dotenv(home, version, &mut lines)?;
    }
    let after = migrate_text(&before, version, env, &mut lines).map_err(|error| broken(error.to_string()))?;
    if run == MigrationMode::DryRun {
        return Ok(MigrationReport { from, to: CONFIG_VERSION, lines, ask_for: new_variables(version, env) });
    }
    if before != after && !before.trim().is_empty() {
        let copy = home.config().with_extension("yaml.bak");
        crate::write::replace(&copy, before.as_bytes())?;
        lines.push(format!("  The file as it was: {}", copy.display()));
    }
    write_text(home, &before, &after)?;
    Ok(MigrationReport { from, to: CONFIG_VERSION, lines, ask_for: new_variables(version, env) })
}

/// Decides whether a migration writes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationMode {
    Apply,
    /// The migration only reports what it would do.
    DryRun,
}

fn repair_dotenv(home: &Home, version: i128, lines: &mut Vec<String>) -> Result<()> {
    if !home.dotenv().exists() {
        return Ok(());
    }
    dotenv::edit(home, |text| {
        let mended = repair(text);
        lines.extend(mended.report());
        let has_token = dotenv::parse(&mended.text)
            .iter()
            .any(|(name, value)| name == "ANTHROPIC_TOKEN" && !value.is_empty());
        if version < 9 && has_token {
            lines.push("✓ Cleared ANTHROPIC_TOKEN in .env (no longer used)".to_owned());
            return dotenv::set(&mended.text, "ANTHROPIC_TOKEN", "");
        }
        Ok(mended.text)
    })
}

/// Runs the steps on config.yaml, each a patch of the text.
fn migrate_text(
    before: &str,
    version: i128,
    env: &Env,
    lines: &mut Vec<String>,
) -> std::result::Result<String, EditError> {
    let mut text = before.to_owned();
    let has = |text: &str, dotted: &str| parse(text).is_ok_and(|tree| tree.lookup(dotted).is_some());
    if version < 4 && !has(&text, "display.tool_progress") {
        let mode = old_tool_progress(env).unwrap_or_else(|| "all".to_owned());
        text =
            add(&text, &KeyPath::from_segments(["display", "tool_progress"]), &YamlValue::Str(mode), lines)?;
    }
    if version < 5 && !has(&text, "timezone") {
        let zone = env.get("HERMES_TIMEZONE").unwrap_or_default();
        text = add(&text, &KeyPath::from_segments(["timezone"]), &YamlValue::from(zone), lines)?;
    }
    let tree = parse(&text)?;
    for (path, value) in missing(&tree, env) {
        text = add(&text, &path, &value, lines)?;
    }
    edit::set(&text, &KeyPath::from_segments(["_config_version"]), &YamlValue::Int(CONFIG_VERSION))
}

fn add(
    text: &str,
    path: &KeyPath,
    value: &YamlValue,
    lines: &mut Vec<String>,
) -> std::result::Result<String, EditError> {
    let next = edit::set(text, path, value)?;
    let secret = keys::find(&path.to_string()).is_some_and(|spec| spec.secret);
    let shown = if secret { MASK.to_owned() } else { emit_inline(value) };
    lines.push(format!("  ✓ Added {path} = {shown}"));
    Ok(next)
}

/// Returns the documented keys a tree lacks, a missing section as one entry. `model` is left out: setting one
/// would override the variables from which a gateway takes its model.
fn missing(tree: &YamlValue, env: &Env) -> Vec<(KeyPath, YamlValue)> {
    let mut found = Vec::new();
    let defaults = keys::default_tree(DefaultsScope::Saved);
    collect_missing(defaults, Some(tree), &mut Vec::new(), &mut found);
    found.retain(|(path, _)| {
        let section = path.segments().first().map(String::as_str).unwrap_or_default();
        let overruled = SHADOWING_SECTIONS
            .iter()
            .filter(|(name, _)| *name == section)
            .flat_map(|(_, prefixes)| prefixes.iter())
            .any(|prefix| env.iter().any(|(name, value)| name.starts_with(prefix) && !value.is_empty()));
        section != "model" && !overruled
    });
    found
}

fn collect_missing(
    defaults: &YamlValue,
    have: Option<&YamlValue>,
    path: &mut Vec<String>,
    found: &mut Vec<(KeyPath, YamlValue)>,
) {
    match (defaults, have) {
        (YamlValue::Map(defaults), Some(YamlValue::Map(_) | YamlValue::Null))
            if path.is_empty() || have.is_some_and(|h| !h.is_null()) =>
        {
            for (key, value) in defaults.iter() {
                path.push(key.to_owned());
                collect_missing(value, have.and_then(|have| have.get(key)), path, found);
                path.pop();
            }
        }
        (defaults, None) => found.push((KeyPath::from_segments(path.iter()), defaults.clone())),
        _ => {}
    }
}
