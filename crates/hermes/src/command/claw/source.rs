//! The folder of OpenClaw: its configuration, its variables and its workspace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hermes_config::env::dotenv;
use serde_json::Value;

/// The names of the configuration, by release.
const CONFIGS: [&str; 3] = ["openclaw.json", "clawdbot.json", "moltbot.json"];
/// The names of the workspace, by release.
const WORKSPACES: [&str; 3] = ["workspace", "workspace-main", "workspace.default"];

/// An OpenClaw installation.
pub(super) struct OpenClaw {
    pub(super) folder: PathBuf,
    pub(super) config: Value,
    /// The variables of its `.env` and of its configuration.
    variables: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
}

impl OpenClaw {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut warnings = Vec::new();
        let mut config = Value::Null;
        if let Some(file) = CONFIGS.iter().map(|name| folder.join(name)).find(|file| file.is_file()) {
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            match parse_json5(&text) {
                Ok(value) => config = value,
                Err(error) => {
                    warnings.push(format!("{} cannot be parsed and is left out: {error}", file.display()));
                }
            }
        }
        let text = fs::read(folder.join(".env")).unwrap_or_default();
        let mut variables: BTreeMap<String, String> =
            dotenv::parse(&dotenv::decode(&text).0).into_iter().collect();
        for path in ["/env/vars", "/env"] {
            for (name, value) in config.pointer(path).and_then(Value::as_object).into_iter().flatten() {
                if let Some(value) = value.as_str() {
                    variables.entry(name.clone()).or_insert_with(|| value.to_owned());
                }
            }
        }
        Ok(Self { folder: folder.to_owned(), config, variables, warnings })
    }

    /// Returns a file or folder of the workspace, wherever this release keeps it.
    pub(super) fn in_workspace(&self, name: &str) -> Option<PathBuf> {
        WORKSPACES.iter().map(|workspace| self.folder.join(workspace).join(name)).find(|path| path.exists())
    }

    pub(super) fn get(&self, pointer: &str) -> Option<&Value> {
        self.config.pointer(pointer).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, pointer: &str) -> Option<String> {
        match self.get(pointer)? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// Returns a key or token: written out, as `${NAME}`, or as a reference to a variable.
    pub(super) fn secret(&self, pointer: &str) -> Option<String> {
        let named = |name: &str| self.variables.get(name).cloned();
        let found = match self.get(pointer)? {
            Value::String(text) => match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
                Some(name) => named(name),
                None => Some(text.clone()),
            },
            Value::Object(reference) if reference.get("source").and_then(Value::as_str) == Some("env") => {
                named(reference.get("id").and_then(Value::as_str).unwrap_or_default())
            }
            _ => None,
        };
        found.filter(|text| !text.trim().is_empty() && !text.contains(['\n', '\r']))
    }

    pub(super) fn variable(&self, name: &str) -> Option<&String> {
        self.variables.get(name).filter(|value| !value.trim().is_empty())
    }
}

/// Parses JSON with comments, trailing commas and names without quotes.
fn parse_json5(text: &str) -> Result<Value> {
    let plain = without_comments(text);
    if let Ok(value) = serde_json::from_str(&plain) {
        return Ok(value);
    }
    // The flow style of YAML allows the rest, except tabs for indentation.
    let tree = hermes_config::yaml::parse(&plain.replace('\t', "  "))?;
    Ok(tree.to_json())
}

fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(_), '\\') => {
                plain.push(c);
                plain.extend(rest.next());
            }
            (Some(open), _) => {
                plain.push(c);
                if c == open {
                    quote = None;
                }
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                plain.push(c);
            }
            (None, '/') if rest.peek() == Some(&'/') => {
                while rest.peek().is_some_and(|next| *next != '\n') {
                    rest.next();
                }
            }
            (None, '/') if rest.peek() == Some(&'*') => {
                let mut before = ' ';
                for next in rest.by_ref() {
                    if before == '*' && next == '/' {
                        break;
                    }
                    before = next;
                }
            }
            (None, _) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_with_comments_is_read() {
        for (text, value) in [
            (r#"{"a": 1}"#, json!({"a": 1})),
            (
                "{\n  // a comment\n  \"a\": \"http://x\", /* more */ \"b\": [1, 2,],\n}",
                json!({"a": "http://x", "b": [1, 2]}),
            ),
            ("{a: 'it', b: {c: true}}", json!({"a": "it", "b": {"c": true}})),
        ] {
            assert_eq!(parse_json5(text).unwrap(), value, "{text}");
        }
        assert!(parse_json5("{\"a\": ").is_err());
    }
}
