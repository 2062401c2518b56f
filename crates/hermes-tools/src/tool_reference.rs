//! The reference page of the tools, generated from their descriptors.

use std::fmt::Write as _;

use hermes_types::{ToolDescriptor, ToolUser};

use crate::built_in::BUILT_IN_TOOLS;
use crate::registry::{TOOLSETS, ToolsetSwitch};

/// Returns the tools and the toolsets as Markdown tables.
pub fn tools_markdown() -> String {
    let mut out = String::from(
        "# Tool reference\n\nGenerated from the tools in `hermes-tools`; do not edit.\n\n## Tools\n\n| Tool | | Toolset | What it \
         does | Offered |\n|---|---|---|---|---|\n",
    );
    for tool in BUILT_IN_TOOLS {
        let ToolDescriptor { name, icon, toolset, summary, .. } = tool;
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "| `{name}` | {icon} | `{toolset}` | {summary} | {} |", offered(tool));
    }
    out.push_str(
        "\n## Toolsets\n\nChoose toolsets per platform with `platform_toolsets` in `config.yaml`, or per run with `-t`. The preset \
         of a platform, such as `hermes-cli`, holds every tool offered there.\n\n| Toolset | Tools | Per platform |\n|---|---|---|\n",
    );
    for set in TOOLSETS {
        let own = BUILT_IN_TOOLS.iter().filter(|tool| tool.toolset == set.name).map(|tool| tool.name);
        let built_in = |name: &&str| BUILT_IN_TOOLS.iter().any(|tool| tool.name == *name);
        let others = set.tools.iter().copied().filter(built_in);
        let mut cells: Vec<String> = own.chain(others).map(|name| format!("`{name}`")).collect();
        cells.extend(set.includes.iter().map(|name| format!("all of `{name}`")));
        let tools = if cells.is_empty() { "none in this release".to_owned() } else { cells.join(", ") };
        let switch = match set.switch {
            ToolsetSwitch::On => "on, can be switched off",
            ToolsetSwitch::Off => "off, can be switched on",
            ToolsetSwitch::None => "–",
        };
        let _ = writeln!(out, "| `{}` | {tools} | {switch} |", set.name);
    }
    out
}

/// Describes when a tool is offered, and to whom it is not.
fn offered(tool: &ToolDescriptor<'_>) -> String {
    let excluded: Vec<&str> = tool
        .withheld_from
        .iter()
        .map(|user| match user {
            ToolUser::Editor => "editors",
            ToolUser::ApiClient => "API clients",
            ToolUser::Job => "scheduled jobs",
            ToolUser::Subagent => "subagents",
        })
        .collect();
    match (tool.condition, excluded.as_slice()) {
        ("", []) => "always".to_owned(),
        ("", _) => format!("not to {}", excluded.join(", ")),
        (condition, []) => condition.to_owned(),
        (condition, _) => format!("{condition}; not to {}", excluded.join(", ")),
    }
}
