//! Which tools there are.

use std::sync::Arc;

use hermes_types::{Outcome, Raw, Tool, ToolSpec};

use crate::file_guard::FileGuard;
use crate::read_file::ReadFile;
use crate::search_files::SearchFiles;

/// The tools of one surface, in the order they are shown to the model; the order never changes, so the prompt does not.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it only holds ports")]
pub struct Registry(Vec<Arc<dyn Tool>>);

impl Registry {
    /// Every built-in tool, working in the guard's folder.
    pub fn built_in(guard: &FileGuard) -> Self {
        Self(vec![Arc::new(ReadFile::new(guard.clone())), Arc::new(SearchFiles::new(guard.clone()))])
    }

    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.0
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }
}

/// A tool's description for the model, from the texts beside it.
pub(crate) fn spec(name: &str, description: &str, parameters: &str) -> ToolSpec {
    let parameters = Raw::parse(parameters.trim().to_owned())
        .unwrap_or_else(|_| Raw::from_value(&serde_json::json!({"type": "object", "properties": {}})));
    ToolSpec { name: name.to_owned(), description: description.trim().to_owned(), parameters }
}

/// A whole number argument, within its range; text that is a number counts.
pub(crate) fn number(
    arguments: &serde_json::Map<String, serde_json::Value>,
    name: &str,
    default: usize,
    range: std::ops::RangeInclusive<usize>,
) -> usize {
    let given = arguments.get(name).and_then(|value| {
        value.as_i64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
    });
    let number = given.map_or(default, |number| usize::try_from(number).unwrap_or(0));
    number.clamp(*range.start(), *range.end())
}

/// A text argument; absent, empty and of another kind are the same.
pub(crate) fn text<'a>(
    arguments: &'a serde_json::Map<String, serde_json::Value>,
    name: &str,
) -> Option<&'a str> {
    arguments.get(name).and_then(serde_json::Value::as_str).filter(|text| !text.trim().is_empty())
}

pub(crate) fn missing(tool: &str, name: &str) -> Outcome {
    Outcome::failed(format!("{tool} needs `{name}`; call it again with that argument"))
}
