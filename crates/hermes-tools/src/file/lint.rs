//! Checks whether the text of a file is well formed.
//!
//! JSON and YAML are parsed here. Formats that need another program are checked by a `Linter`, which the binary
//! may supply.

use std::path::Path;

use hermes_types::{BoxFuture, Cancel};
use saphyr_parser::Parser;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::extension::extension;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LintResult {
    Ok,
    /// The error, worded for the model.
    Error(String),
    /// The reason why the file was not checked.
    Skipped(String),
}

/// Checks the text of a file with a program for its language. Files that the text refers to are not checked.
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

/// Returns the syntax error of a text. Returns `None` if the text is valid or its format is not parsed here.
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
