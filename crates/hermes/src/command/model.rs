//! `hermes model`: who answers, and choosing another.

use std::process::ExitCode;

use anyhow::Result;
use hermes_config::{Surface, set};
use hermes_model::provider::{Choice, Facts, Resolved, name, resolve};

use crate::context::Context;
use crate::output::Output;

pub(crate) fn run(wanted: Option<&str>, context: &Context, output: &Output) -> Result<ExitCode> {
    if let Some(text) = wanted {
        let wanted = name::parse(text);
        for (key, value) in
            [("model.provider", wanted.provider.as_deref()), ("model.default", Some(&*wanted.model))]
        {
            if let Some(value) = value {
                for line in set::set(&context.home, &context.env, key, value)?.lines {
                    output.line(&line);
                }
            }
        }
    }
    show(context, output);
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, output: &Output) {
    let facts = Facts::read(&context.home, context.config(output), context.env.clone());
    match resolve(&facts, &Choice::default(), Surface::Cli) {
        Ok(Resolved::Offline) => {
            output.line("Current model:   offline (built in; not a language model)");
            output.line("");
            output.line("To connect a real one, set a key and a model:");
            output.line("  hermes config set OPENROUTER_API_KEY …");
            output.line("  hermes model anthropic/claude-opus-4.6");
            output.line("or an endpoint of your own, such as Ollama:");
            output.line("  hermes config set model.base_url http://localhost:11434/v1");
            output.line("  hermes model custom:qwen3:8b");
        }
        Ok(Resolved::Target(target)) => {
            output.line(&format!("Current model:   {}", target.model));
            output.line(&format!("Active provider: {} ({})", target.provider(), target.base_url()));
            output.line(&format!("Context window:  {} tokens", target.context_window));
            if let Some(origin) = &target.key_origin {
                output.line(&format!("Key from:        {origin}"));
            }
        }
        Err(error) => output.line(&format!("{error}")),
    }
}
