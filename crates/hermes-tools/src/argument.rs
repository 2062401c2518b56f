//! Parses the arguments of a call, and builds a tool's spec from its text files.

use std::ops::RangeInclusive;

use hermes_types::{RawJson, ToolDescriptor, ToolOutcome, ToolSpec};
use serde_json::{Map, Value, json};

/// Builds the spec of a tool for the model.
pub(crate) fn spec(tool: &ToolDescriptor<'_>, description: &str, parameters: &str) -> ToolSpec {
    let parameters = RawJson::parse(parameters.trim().to_owned())
        .unwrap_or_else(|_| RawJson::from_value(&json!({"type": "object", "properties": {}})));
    ToolSpec { name: tool.name.to_owned(), description: description.trim().to_owned(), parameters }
}

/// Returns an integer argument limited to its range. A text that holds a number is accepted.
pub(crate) fn number(
    arguments: &Map<String, Value>,
    name: &str,
    default: usize,
    range: RangeInclusive<usize>,
) -> usize {
    let given = arguments.get(name).and_then(|value| {
        value.as_i64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
    });
    let number = given.map_or(default, |number| usize::try_from(number).unwrap_or(0));
    number.clamp(*range.start(), *range.end())
}

/// Returns a text argument. A missing, blank or non-text value is `None`.
pub(crate) fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

/// Returns a text argument that may be empty.
pub(crate) fn any_text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

pub(crate) fn missing(tool: &str, name: &str) -> ToolOutcome {
    ToolOutcome::failed(format!("{tool} needs `{name}`; call it again with that argument"))
}
