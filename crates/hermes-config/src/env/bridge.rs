//! The environment variables that expose the configuration in force to child processes, plugins, hooks and MCP
//! servers.

use std::collections::BTreeMap;
use std::path::Path;

use super::Env;
use crate::yaml::YamlValue;
use crate::{Config, ProgramSurface, user_home};

/// The keys of `terminal` that become `TERMINAL_` plus the key in capitals.
pub(crate) const TERMINAL_KEYS: &[&str] = &[
    "cwd",
    "timeout",
    "lifetime_seconds",
    "docker_image",
    "docker_forward_env",
    "singularity_image",
    "modal_image",
    "daytona_image",
    "ssh_host",
    "ssh_user",
    "ssh_port",
    "ssh_key",
    "container_cpu",
    "container_memory",
    "container_disk",
    "container_persistent",
    "docker_volumes",
    "docker_mount_cwd_to_workspace",
    "sandbox_dir",
    "persistent_shell",
];

/// The platform keys that are read from the file itself and not exported.
const NOT_VARIABLES: [&str; 2] = ["unauthorized_dm_behavior", "reply_prefix"];

/// Decides whether an assignment overrides a variable that is already set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Force {
    Override,
    FillGap,
}

/// Returns the assignments to add to `env`. `cwd` is the working directory of the process.
pub fn exported_variables(
    config: &Config,
    env: &Env,
    surface: ProgramSurface,
    cwd: &Path,
) -> BTreeMap<String, String> {
    let mut rows = Rows { env, variables: BTreeMap::new() };
    terminal(config, env, surface, cwd, &mut rows);
    rows.user_value(config, "browser.inactivity_timeout", "BROWSER_INACTIVITY_TIMEOUT");
    rows.user_value(config, "security.redact_secrets", "HERMES_REDACT_SECRETS");
    for task in ["vision", "web_extract", "approval"] {
        for field in ["provider", "model", "base_url", "api_key"] {
            let value = config.text(&format!("auxiliary.{task}.{field}"));
            let said = !value.is_empty() && (field != "provider" || value != "auto");
            if said {
                let name = format!("AUXILIARY_{}_{}", task.to_uppercase(), field.to_uppercase());
                rows.put(name, value, Force::Override);
            }
        }
    }
    if surface == ProgramSurface::Gateway {
        gateway(config, &mut rows);
    }
    rows.variables
}

struct Rows<'env> {
    env: &'env Env,
    variables: BTreeMap<String, String>,
}

impl Rows<'_> {
    fn put(&mut self, name: impl Into<String>, value: String, force: Force) {
        let name = name.into();
        if force == Force::Override || (!self.env.is_set(&name) && !self.variables.contains_key(&name)) {
            self.variables.insert(name, value);
        }
    }

    /// Adds a variable for a key: the user's value overrides; the default only fills a gap.
    fn user_value(&mut self, config: &Config, dotted: &str, name: &str) {
        let force = if config.is_user_set(dotted) { Force::Override } else { Force::FillGap };
        if let Some(value) = config.get(dotted).as_ref().and_then(export) {
            self.put(name, value, force);
        }
    }
}

/// Adds the variables of the terminal. With a `terminal` section in the file every assignment overrides, defaults
/// included; without one, none does.
fn terminal(config: &Config, env: &Env, surface: ProgramSurface, cwd: &Path, rows: &mut Rows<'_>) {
    let force = match config.raw().get("terminal") {
        Some(YamlValue::Map(_)) => Force::Override,
        _ => Force::FillGap,
    };
    let backend = config.text("terminal.backend");
    for key in TERMINAL_KEYS {
        let value = match *key {
            "cwd" => working_folder(config, env, surface, &backend, cwd),
            key => config.get(&format!("terminal.{key}")).as_ref().and_then(export),
        };
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            rows.put(format!("TERMINAL_{}", key.to_uppercase()), value, force);
        }
    }
    rows.put("TERMINAL_ENV", backend, force);
    if let Some(password) = config.non_empty_text("terminal.sudo_password") {
        rows.put("SUDO_PASSWORD", password, force);
    }
}

/// Returns the working directory. `.`, `auto` and `cwd` mean the launch folder, or in the gateway `MESSAGING_CWD`
/// or the user's home. Other backends have their own folders.
fn working_folder(
    config: &Config,
    env: &Env,
    surface: ProgramSurface,
    backend: &str,
    cwd: &Path,
) -> Option<String> {
    let configured = config.text("terminal.cwd");
    if !matches!(configured.as_str(), "" | "." | "auto" | "cwd") {
        return Some(configured);
    }
    if backend != "local" {
        return None;
    }
    match surface {
        ProgramSurface::Cli => Some(cwd.to_string_lossy().into_owned()),
        ProgramSurface::Gateway => env
            .get("MESSAGING_CWD")
            .map(str::to_owned)
            .or_else(|| user_home(env).ok().map(|home| home.to_string_lossy().into_owned())),
    }
}

/// Exports the section of a chat platform as its variables: `discord.auto_thread` becomes `DISCORD_AUTO_THREAD`.
fn platform_section(config: &Config, platform: &str, rows: &mut Rows<'_>) {
    let Some(section) = config.user().get(platform).and_then(YamlValue::as_map) else { return };
    for (key, value) in section.iter().filter(|(key, _)| !NOT_VARIABLES.contains(key)) {
        let text = match value {
            YamlValue::Seq(_) => {
                let items = config.list(&format!("{platform}.{key}"));
                // A pattern may contain a comma; the list is then written as JSON, so that no entry is split.
                let torn = items.iter().any(|item| item.contains(','));
                if torn { export(value) } else { Some(items.join(",")) }
            }
            YamlValue::Map(_) => None,
            value => export(value),
        };
        let name = format!("{platform}_{key}").to_uppercase();
        if super::dotenv::is_name(&name)
            && let Some(text) = text.filter(|text| !text.is_empty())
        {
            rows.put(name, text, Force::FillGap);
        }
    }
}

/// Adds the users of `platforms.<platform>.extra.allowed_users` to those of the variable.
fn allowed_users(config: &Config, platform: &str, rows: &mut Rows<'_>) {
    let listed = config.list(&format!("platforms.{platform}.extra.allowed_users"));
    if listed.is_empty() {
        return;
    }
    let name = format!("{}_ALLOWED_USERS", platform.to_uppercase());
    let present = rows.variables.get(&name).map(String::as_str).or_else(|| rows.env.get(&name));
    let mut users = present.map(super::split_list).unwrap_or_default();
    for user in listed {
        if !users.contains(&user) {
            users.push(user);
        }
    }
    rows.put(name, users.join(","), Force::Override);
}

fn gateway(config: &Config, rows: &mut Rows<'_>) {
    rows.user_value(config, "agent.max_turns", "HERMES_MAX_ITERATIONS");
    for (dotted, name) in [
        ("timezone", "HERMES_TIMEZONE"),
        ("human_delay.mode", "HERMES_HUMAN_DELAY_MODE"),
        ("human_delay.min_ms", "HERMES_HUMAN_DELAY_MIN_MS"),
        ("human_delay.max_ms", "HERMES_HUMAN_DELAY_MAX_MS"),
    ] {
        if config.is_user_set(dotted)
            && let Some(value) =
                config.get(dotted).as_ref().and_then(export).filter(|value| !value.is_empty())
        {
            rows.put(name, value, Force::FillGap);
        }
    }
    for platform in hermes_types::chat_platforms() {
        platform_section(config, platform, rows);
        allowed_users(config, platform, rows);
    }
    rows.put("HERMES_QUIET", "1".to_owned(), Force::Override);
    rows.put("HERMES_EXEC_ASK", "1".to_owned(), Force::Override);
    // Only the gateway exports top-level scalars as variables.
    let written = config.raw().keys().filter_map(|name| Some((name, config.user().get(name)?)));
    for (name, value) in written {
        let scalar = !matches!(value, YamlValue::Seq(_) | YamlValue::Map(_) | YamlValue::Null);
        if scalar
            && super::dotenv::is_name(name)
            && let Some(value) = export(value)
        {
            rows.put(name, value, Force::FillGap);
        }
    }
}

/// Formats a value for a variable: booleans as `True`/`False`, lists and maps as JSON; null is not exported.
pub(crate) fn export(value: &YamlValue) -> Option<String> {
    match value {
        YamlValue::Null => None,
        YamlValue::Bool(value) => Some(if *value { "True" } else { "False" }.to_owned()),
        YamlValue::Seq(_) | YamlValue::Map(_) => Some(value.to_json().to_string()),
        other => other.scalar_text(),
    }
}
