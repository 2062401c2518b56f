//! What a skill needs before it can be used: variables and credential files.

use std::path::{Component, Path};

use hermes_config::yaml::YamlValue;

use super::front_matter::{list, scalar};

/// A variable that a skill needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredVariable {
    pub name: String,
    pub prompt: String,
    pub help: Option<String>,
    pub required_for: Option<String>,
}

/// Collects the required variables of a front matter, each name once. Invalid names are left out.
pub(crate) fn variables(data: &YamlValue) -> Vec<RequiredVariable> {
    let collected = data.get("setup").map(|setup| entries(setup, "collect_secrets")).unwrap_or_default();
    let older = data.get("prerequisites").map(|needs| list(needs, "env_vars")).unwrap_or_default();
    let mut found: Vec<RequiredVariable> = Vec::new();
    let given = entries(data, "required_environment_variables").into_iter().chain(collected);
    let given = given.chain(older.into_iter().map(YamlValue::Str));
    for variable in given.filter_map(|entry| variable(&entry)) {
        if !found.iter().any(|known| known.name == variable.name) {
            found.push(variable);
        }
    }
    found
}

/// Returns the required credential files, relative to the home. Paths that lead out of it are left out.
pub(crate) fn credential_files(data: &YamlValue) -> Vec<String> {
    let paths = entries(data, "required_credential_files").into_iter().filter_map(|entry| match entry {
        YamlValue::Map(_) => scalar(&entry, "path"),
        other => other.scalar_text(),
    });
    paths.filter(|path| stays_inside(path)).collect()
}

/// Tells whether a relative path names something below its base.
pub(super) fn stays_inside(path: &str) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    !path.trim().is_empty() && Path::new(path).components().all(is_plain)
}

fn entries(data: &YamlValue, key: &str) -> Vec<YamlValue> {
    match data.get(key) {
        Some(YamlValue::Seq(items)) => items.clone(),
        Some(YamlValue::Null) | None => Vec::new(),
        Some(single) => vec![single.clone()],
    }
}

fn variable(entry: &YamlValue) -> Option<RequiredVariable> {
    let first = |keys: &[&str]| keys.iter().find_map(|key| scalar(entry, key));
    let name = match entry {
        YamlValue::Map(_) => first(&["name", "env_var"])?,
        other => other.scalar_text()?,
    };
    let name = name.trim().to_owned();
    hermes_config::env::dotenv::is_name(&name).then(|| RequiredVariable {
        prompt: first(&["prompt"]).unwrap_or_else(|| format!("Enter value for {name}")),
        help: first(&["help", "provider_url", "url"]),
        required_for: first(&["required_for"]),
        name,
    })
}
