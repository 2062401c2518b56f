//! The laws about literals: the agent names no tool and no provider, and the frontends choose no icon by a tool's name.
//!
//! Such facts come from the tools' descriptors and from the program. The check compares whole string literals outside
//! tests; names inside longer texts are not found.

use std::path::Path;

use anyhow::{Context, Result};
use hermes_config::provider::registry;
use hermes_tools::BUILT_IN_TOOLS;

use crate::lengths::source_files;

/// Tools that other releases have.
const OTHER_TOOLS: [&str; 3] = ["skill_manage", "web_search", "web_extract"];
/// The crates in which no tool and no provider may be named.
const AGENT: &str = "hermes-agent";
/// The crates that show calls, in which no tool's icon may be chosen by the tool's name.
const FRONTENDS: [&str; 3] = ["hermes", "hermes-gateway", "hermes-serve"];

/// Returns every breach, as a sentence each.
pub(crate) fn check(crates: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for file in source_files(crates)? {
        let place = file.strip_prefix(crates).unwrap_or(&file);
        let owner = place.iter().next().map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        breaches.extend(judge(&owner, &place.display().to_string(), &text));
    }
    Ok(breaches)
}

fn judge(owner: &str, place: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    for (at, line) in lines.filter(|(_, line)| !line.trim_start().starts_with("//")) {
        let found: Vec<&str> = literals(line);
        if owner == AGENT {
            let named = found.iter().filter(|literal| is_tool(literal) || registry::find(literal).is_some());
            breaches
                .extend(named.map(|name| format!("{place}:{}: the agent must not name \"{name}\"", at + 1)));
        }
        let has_icon = || found.iter().any(|literal| BUILT_IN_TOOLS.iter().any(|tool| tool.icon == *literal));
        if FRONTENDS.contains(&owner) && found.iter().any(|literal| is_tool(literal)) && has_icon() {
            breaches.push(format!("{place}:{}: a tool's icon belongs in its descriptor", at + 1));
        }
    }
    breaches
}

fn is_tool(literal: &str) -> bool {
    OTHER_TOOLS.contains(&literal) || BUILT_IN_TOOLS.iter().any(|tool| tool.name == literal)
}

/// Returns the string literals of a line that has no raw strings and no escaped quotes.
fn literals(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_keeps_its_literals_in_place() {
        let breaches = check(&crate::workspace::root().join("crates")).unwrap();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    #[test]
    fn names_of_tools_and_providers_in_the_agent_are_found() {
        let text = "if call.name == \"memory\" {\n// \"terminal\"\nlet x = [\"a\", \"alibaba\"];\n#[cfg(test)]\n\"todo\"\n";
        assert_eq!(
            judge(AGENT, "hermes-agent/src/x.rs", text),
            [
                "hermes-agent/src/x.rs:1: the agent must not name \"memory\"",
                "hermes-agent/src/x.rs:3: the agent must not name \"alibaba\"",
            ]
        );
        assert!(judge("hermes-tools", "hermes-tools/src/x.rs", text).is_empty());
    }

    #[test]
    fn tables_of_icons_are_found() {
        let table = "    \"terminal\" => \"💻\",\n    \"other\" => \"💻\",\n";
        assert_eq!(
            judge("hermes-gateway", "g.rs", table),
            ["g.rs:1: a tool's icon belongs in its descriptor"]
        );
    }
}
