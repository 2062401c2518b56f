//! The Python module that a script imports, and the description of the tool for the model.
//!
//! Both are generated from text files in this folder, reduced to the tools of the session.

use std::time::Duration;

use hermes_types::{RawJson, ToolSpec};
use serde_json::json;

use super::DESCRIPTOR;

const MODULE: &str = include_str!("hermes_tools.py");
const DESCRIPTION: &str = include_str!("description.md");
const FUNCTIONS: &str = include_str!("functions.md");
const SECTION: &str = "# tool: ";
const SECTION_END: &str = "# end";

/// Selects where scripts run and with which Python: `code_execution.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodeExecutionMode {
    /// Scripts run in the session's folder, with the Python of its virtual environment.
    #[default]
    Project,
    /// Scripts run in an empty folder, with Hermes' own Python.
    Strict,
}

/// Returns the tools a script may call: those the module has a section for, in its order.
pub(super) fn callable_names() -> Vec<&'static str> {
    MODULE.lines().filter_map(|line| line.strip_prefix(SECTION)).map(str::trim).collect()
}

/// Returns the text of the module with the functions of these tools.
pub(super) fn module(tools: &[&str]) -> String {
    let mut text = String::with_capacity(MODULE.len());
    let mut wanted = true;
    for line in MODULE.lines() {
        if let Some(name) = line.strip_prefix(SECTION) {
            wanted = tools.contains(&name.trim());
        } else if line == SECTION_END {
            wanted = true;
        } else if wanted {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Returns the description for the model.
pub(super) fn spec(
    tools: &[&str],
    mode: CodeExecutionMode,
    timeout: Duration,
    most_calls: usize,
) -> ToolSpec {
    let examples = examples(tools);
    let known = |line: &&str| tools.iter().any(|tool| line.split('(').next() == Some(*tool));
    let functions: Vec<&str> = FUNCTIONS.lines().filter(known).collect();
    let place = match mode {
        CodeExecutionMode::Project => "runs in the working folder",
        CodeExecutionMode::Strict => "runs in an empty folder of its own",
    };
    let description = DESCRIPTION
        .trim()
        .replace("{examples}", &examples)
        .replace("{where}", place)
        .replace("{timeout}", &span(timeout))
        .replace("{calls}", &most_calls.to_string())
        .replace("{functions}", &functions.join("\n"));
    let hint =
        format!("Python source, e.g. `from hermes_tools import {examples}`; print what you want to see");
    let parameters = json!({
        "type": "object",
        "properties": {"code": {"type": "string", "description": hint}},
        "required": ["code"],
    });
    ToolSpec { name: DESCRIPTOR.name.to_owned(), description, parameters: RawJson::from_value(&parameters) }
}

/// Returns two names for the import example.
fn examples(tools: &[&str]) -> String {
    let telling: Vec<&str> =
        ["web_search", "terminal"].into_iter().filter(|name| tools.contains(name)).collect();
    if !telling.is_empty() {
        return telling.join(", ");
    }
    let mut sorted = tools.to_vec();
    sorted.sort_unstable();
    sorted.truncate(2);
    if sorted.is_empty() { "...".to_owned() } else { sorted.join(", ") }
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 120 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_functions_of_the_session_are_there() {
        let text = module(&["terminal", "read_file"]);
        assert!(text.contains("def terminal(") && text.contains("def read_file("), "{text}");
        assert!(
            !text.contains("def patch(") && !text.contains("# tool:") && !text.contains("# end"),
            "{text}"
        );
        assert!(module(&[]).contains("def json_parse("), "the helpers are always there");
        for name in callable_names() {
            assert!(module(&[name]).contains(&format!("def {name}(")), "{name}");
        }
    }

    #[test]
    fn the_model_reads_of_what_it_has() {
        let told = |tools: &[&str]| spec(tools, CodeExecutionMode::Project, Duration::from_mins(5), 50);
        let all = told(&callable_names()).description;
        for name in callable_names() {
            assert!(all.contains(&format!("\n{name}(")), "{name}: {all}");
        }
        assert!(all.contains("import web_search, terminal`") && all.contains("5 minutes"), "{all}");
        let files = told(&["read_file", "patch", "write_file"]).description;
        assert!(files.contains("import patch, read_file`") && !files.contains("terminal("), "{files}");
        assert!(told(&[]).description.contains("import ...`"));
        assert!(!all.contains('{') || !all.contains("{where}"), "{all}");
    }
}
