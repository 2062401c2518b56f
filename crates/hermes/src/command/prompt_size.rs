//! `hermes prompt-size`: shows the size of the prompt before the first message.

use std::process::ExitCode;

use anyhow::Result;
use hermes_agent::{join_layers, tool_tokens};
use hermes_text::{estimate_tokens, with_commas};
use hermes_types::{SessionId, SessionKind};
use serde_json::json;

use crate::cli::ChatArguments;
use crate::context::{ProgramContext, local_time};
use crate::output::Console;
use crate::wiring::AgentRuntime;

pub(crate) fn run(
    arguments: &ChatArguments,
    platform: &str,
    as_json: bool,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let wired = AgentRuntime::open(arguments, platform, context, output)?;
    let agent = &wired.agent;
    let session = SessionId::generate(SessionKind::Local, local_time(agent.clock().now()));
    let layers = agent.prompt_layers(&session);
    let tools: Vec<(String, usize, u64)> = agent
        .tools()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            let bytes = spec.name.len() + spec.description.len() + spec.parameters.as_str().len();
            (spec.name.clone(), bytes, tool_tokens(spec))
        })
        .collect();
    let prompt = join_layers(&layers);
    let prompt_tokens = estimate_tokens(&prompt);
    let tool_bytes: usize = tools.iter().map(|(_, bytes, _)| bytes).sum();
    let tool_total: u64 = tools.iter().map(|(_, _, tokens)| tokens).sum();
    if as_json {
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| {
                json!({
                    "layer": layer.label,
                    "origin": layer.provenance.as_str(),
                    "bytes": layer.text.len(),
                    "tokens": estimate_tokens(&layer.text),
                })
            })
            .collect();
        let tools: Vec<_> = tools
            .iter()
            .map(|(name, bytes, tokens)| json!({"tool": name, "bytes": bytes, "tokens": tokens}))
            .collect();
        let report = json!({
            "platform": platform,
            "layers": layers,
            "tools": tools,
            "total_bytes": prompt.len() + tool_bytes,
            "total_tokens": prompt_tokens + tool_total,
        });
        output.line(&serde_json::to_string_pretty(&report)?);
        return Ok(ExitCode::SUCCESS);
    }
    let row = |name: &str, bytes: usize, tokens: u64| {
        let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
        output.line(&format!("  {name:<22} {:>9} {:>9}", with_commas(bytes), with_commas(tokens)));
    };
    output.line(&format!("Prompt for {platform}               bytes    tokens (estimated)"));
    for layer in &layers {
        row(&layer.label, layer.text.len(), estimate_tokens(&layer.text));
    }
    output.line("Tools");
    for (name, bytes, tokens) in &tools {
        row(name, *bytes, *tokens);
    }
    output.line("");
    row("prompt", prompt.len(), prompt_tokens);
    row("tools", tool_bytes, tool_total);
    row("together", prompt.len() + tool_bytes, prompt_tokens + tool_total);
    Ok(ExitCode::SUCCESS)
}
