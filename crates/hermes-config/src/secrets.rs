//! The secrets of this installation, in any of its files.
//!
//! A value is a secret because of its name, by one table for variables and keys alike; in the home's own `.env`,
//! whose purpose is to hold secrets, also because of what the value looks like.

use hermes_types::Secret;
use serde_json::Value as Json;

use crate::auth::AuthState;
use crate::env::{VariableOrigin, variables};
use crate::keys;
use crate::yaml::YamlValue;
use crate::{Config, Env};

/// The endings of a name, in lower case and without `_` and `-`, that mark its value as a secret.
const SECRET_SUFFIXES: [&str; 15] = [
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "key",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "dsn",
];

/// Tells whether a value under this name is a secret, for variables, keys and fields.
pub fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if let Some(variable) = variables::find(&upper) {
        return variable.secret;
    }
    let plain = name.to_ascii_lowercase().replace(['_', '-', '.'], "");
    SECRET_SUFFIXES.iter().any(|ending| plain.ends_with(ending)) && plain != "key"
}

/// Returns every secret in the home's files and in the documented variables, to be masked wherever it appears.
pub fn secret_values(config: &Config, env: &Env, auth: &AuthState) -> Vec<Secret> {
    let mut found = Vec::new();
    for (name, value, origin) in env.with_origins() {
        let ours = origin != VariableOrigin::Shell;
        let documented = variables::find(name);
        let by_value = ours && documented.is_none() && looks_random(value);
        if documented.is_some_and(|variable| variable.secret) || ours && is_secret_name(name) || by_value {
            found.push(value.to_owned());
        }
    }
    collect_yaml(config.user(), &mut Vec::new(), &mut found);
    for (name, value) in auth.document() {
        collect_json(name, value, &mut found);
    }
    found.into_iter().map(Secret::new).collect()
}

fn collect_yaml(value: &YamlValue, path: &mut Vec<String>, found: &mut Vec<String>) {
    match value {
        YamlValue::Map(map) => {
            for (key, child) in map.iter() {
                path.push(key.to_owned());
                collect_yaml(child, path, found);
                path.pop();
            }
        }
        YamlValue::Seq(items) => items.iter().for_each(|item| collect_yaml(item, path, found)),
        other => {
            let segments: Vec<&str> = path.iter().map(String::as_str).collect();
            let by_table = keys::find_at(&segments).is_some_and(|spec| spec.secret);
            let leaf = segments.last().copied().unwrap_or_default();
            // `extra.key` is the key of the API server.
            let by_name = is_secret_name(leaf) || matches!(leaf, "key" | "api");
            if by_table || by_name {
                found.extend(other.scalar_text());
            }
        }
    }
}

fn collect_json(name: &str, value: &Json, found: &mut Vec<String>) {
    match value {
        Json::Object(map) => map.iter().for_each(|(name, child)| collect_json(name, child, found)),
        Json::Array(items) => items.iter().for_each(|item| collect_json(name, item, found)),
        Json::String(text) if is_secret_name(name) => found.push(text.clone()),
        _ => {}
    }
}

/// Tells whether a value looks like a key: long, one word, no URL and no path, and a mix of characters that names
/// do not have.
fn looks_random(value: &str) -> bool {
    let one_word =
        value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'='));
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let hex = value.len() >= 24 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    value.len() >= 20 && one_word && (mixed || hex)
}
