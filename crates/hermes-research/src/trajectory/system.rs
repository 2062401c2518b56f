//! The system turn: what the tools are, and how they are called.

use hermes_text::JsonTree;
use hermes_types::ToolSpec;

const BEFORE: &str = include_str!("preamble_before.md").trim_ascii_end();
const AFTER: &str = include_str!("preamble_after.md").trim_ascii_end();

/// Returns the text of the system turn.
pub(super) fn system_text(tools: &[ToolSpec]) -> String {
    let tools: JsonTree = tools.iter().map(described).collect();
    format!("{BEFORE}\n<tools>\n{tools}\n</tools>\n{AFTER}")
}

fn described(tool: &ToolSpec) -> JsonTree {
    let parameters = JsonTree::parse(tool.parameters.as_str()).unwrap_or_else(|_| JsonTree::object([]));
    JsonTree::object([
        ("name", tool.name.as_str().into()),
        ("description", tool.description.as_str().into()),
        ("parameters", if parameters.is_null() { JsonTree::object([]) } else { parameters }),
        ("required", JsonTree::Null),
    ])
}
