//! Whether a file's text is well formed.
//!
//! JSON and YAML are read here; what needs a program is asked of a `Linter`, which the binary may supply.

use std::path::Path;

use hermes_types::{BoxFuture, Cancel};
use saphyr_parser::Parser;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::extension::extension;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LintResult {
    Ok,
    /// What is wrong, for the model to read.
    Error(String),
    /// Why it was not checked.
    Skipped(String),
}

/// Checks a file's text with a program of its language. Only the text counts: what it points at is not looked at.
pub trait Linter: Send + Sync {
    fn lint<'a>(&'a self, path: &'a Path, text: &'a str, cancel: &'a Cancel) -> BoxFuture<'a, LintResult>;
}

impl LintResult {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Ok => json!({"status": "ok", "output": ""}),
            Self::Error(output) => json!({"status": "error", "output": output}),
            Self::Skipped(reason) => json!({"status": "skipped", "message": reason}),
        }
    }
}

/// Why the text is not what its name says; nothing when it is, or when the format is not read here.
pub(crate) fn syntax_error(path: &Path, text: &str) -> Option<String> {
    match extension(path).as_str() {
        "json" => {
            serde_json::from_str::<IgnoredAny>(text).err().map(|error| format!("not valid JSON: {error}"))
        }
        "yaml" | "yml" => {
            Parser::new_from_str(text).find_map(Result::err).map(|error| format!("not valid YAML: {error}"))
        }
        _ => None,
    }
}

/// Checks a file that was just written.
pub(crate) async fn lint(
    path: &Path,
    text: &str,
    linter: Option<&dyn Linter>,
    cancel: &Cancel,
) -> LintResult {
    match (extension(path).as_str(), linter) {
        ("json" | "yaml" | "yml", _) => syntax_error(path, text).map_or(LintResult::Ok, LintResult::Error),
        (_, Some(linter)) => linter.lint(path, text, cancel).await,
        ("", None) => LintResult::Skipped("no check for files without an ending".to_owned()),
        (ending, None) => LintResult::Skipped(format!("no check for .{ending} files")),
    }
}
