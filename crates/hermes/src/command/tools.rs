//! `hermes tools`: which toolsets a platform has.

use std::process::ExitCode;

use anyhow::Result;
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, ManagedMode, set};
use hermes_tools::{BUILT_IN_TOOLS, PlatformToolsets};

use crate::cli::ToolsCommand;
use crate::context::ProgramContext;
use crate::output::Console;

pub(crate) fn run(command: ToolsCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    match command {
        ToolsCommand::List { platform } => list(&platform, &context.config(output), output),
        ToolsCommand::Enable { names, platform } => return switch(&names, &platform, true, context, output),
        ToolsCommand::Disable { names, platform } => {
            return switch(&names, &platform, false, context, output);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(platform: &str, config: &Config, output: &Console) {
    output.line(&format!("Built-in toolsets ({platform}):"));
    for (set, is_on) in PlatformToolsets::of(config, platform).switches() {
        let mark = if is_on { "✓ enabled " } else { "✗ disabled" };
        let tools: Vec<&str> =
            BUILT_IN_TOOLS.iter().filter(|tool| tool.toolset == set.name).map(|tool| tool.name).collect();
        let tools = if tools.is_empty() { "(no tool in this release)".to_owned() } else { tools.join(", ") };
        output.line(&format!("  {mark}  {:<16} {tools}", set.name));
    }
    let servers = config.map("mcp_servers");
    if !servers.is_empty() {
        output.line("\nMCP servers:");
        for (name, server) in servers.iter() {
            let is_off = server.get("enabled").and_then(YamlValue::as_bool) == Some(false);
            output.line(&format!("  {}  {name}", if is_off { "✗ disabled" } else { "✓ enabled " }));
        }
    }
}

fn switch(
    names: &[String],
    platform: &str,
    on: bool,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let management = ManagedMode::detect(&context.home, &context.env);
    let mut done: Vec<&str> = Vec::new();
    for name in names {
        let config = Config::load(&context.home, &context.env);
        if let Some((server, tool)) = name.split_once(':') {
            if !config.map("mcp_servers").contains(server) {
                output.error(&format!("MCP server '{server}' not found in config"));
                continue;
            }
            switch_server_tool(server, tool, on, context, management)?;
            done.push(name);
            continue;
        }
        match PlatformToolsets::of(&config, platform).switched(name, on) {
            None => {
                output.error(&format!("Unknown toolset '{name}'; `hermes tools list` shows those there are"));
            }
            Some(list) => {
                let path = KeyPath::from_segments(["platform_toolsets", platform]);
                let list = YamlValue::Seq(list.into_iter().map(YamlValue::Str).collect());
                set::set_value(&context.home, management, &path, &list)?;
                done.push(name);
            }
        }
    }
    if !done.is_empty() {
        output.line(&format!("✓ {}: {}", if on { "Enabled" } else { "Disabled" }, done.join(", ")));
    }
    Ok(if done.len() == names.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Switches one tool of an MCP server: in its list of included tools if it has one, else in that of excluded ones.
fn switch_server_tool(
    server: &str,
    tool: &str,
    on: bool,
    context: &ProgramContext,
    management: ManagedMode,
) -> hermes_config::Result<()> {
    let path = |list: &str| KeyPath::from_segments(["mcp_servers", server, "tools", list]);
    let config = Config::load(&context.home, &context.env);
    let servers = config.map("mcp_servers");
    let includes = servers.get(server).and_then(|server| server.lookup("tools.include")).is_some();
    let (list, wanted) = if includes { ("include", on) } else { ("exclude", !on) };
    set::update_value(&context.home, management, &path(list), |current| {
        let mut names: Vec<String> = current
            .and_then(YamlValue::as_seq)
            .into_iter()
            .flatten()
            .filter_map(YamlValue::scalar_text)
            .collect();
        names.retain(|name| name != tool);
        if wanted {
            names.push(tool.to_owned());
        }
        Some(YamlValue::Seq(names.into_iter().map(YamlValue::Str).collect()))
    })
}
