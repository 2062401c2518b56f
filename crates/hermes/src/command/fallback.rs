//! `hermes fallback`: the models that are used when the main one fails.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::yaml::{KeyPath, YamlMap, YamlValue};
use hermes_config::{Config, ManagedMode, canonical_provider, set};

use crate::cli::FallbackCommand;
use crate::context::ProgramContext;
use crate::output::Console;

const KEY: &str = "fallback_providers";

pub(crate) fn run(command: FallbackCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = Config::load(&context.home, &context.env);
    let mut entries = match config.get(KEY) {
        Some(YamlValue::Seq(entries)) => entries,
        _ => Vec::new(),
    };
    match command {
        FallbackCommand::List => {
            list(&entries, &config, output);
            return Ok(ExitCode::SUCCESS);
        }
        FallbackCommand::Add { model, base_url } => {
            let Some((provider, name)) =
                model.split_once(':').filter(|(provider, name)| !provider.is_empty() && !name.is_empty())
            else {
                bail!("write provider:model, for example anthropic:claude-sonnet-4.5");
            };
            let mut entry = YamlMap::new();
            entry.insert("provider", YamlValue::Str(canonical_provider(provider)?.to_owned()));
            entry.insert("model", YamlValue::Str(name.to_owned()));
            if let Some(url) = base_url {
                entry.insert("base_url", YamlValue::Str(url));
            }
            entries.push(YamlValue::Map(entry));
        }
        FallbackCommand::Remove { model } => {
            let at = match model.parse::<usize>() {
                Ok(number) => number.checked_sub(1).filter(|at| *at < entries.len()),
                Err(_) => entries.iter().position(|entry| describe(entry).split(' ').next() == Some(&model)),
            };
            let Some(at) = at else {
                bail!("there is no fallback '{model}'; `hermes fallback list` shows those there are");
            };
            entries.remove(at);
        }
        FallbackCommand::Clear => entries.clear(),
    }
    let management = ManagedMode::detect(&context.home, &context.env);
    let path = KeyPath::from_segments([KEY]);
    set::set_value(&context.home, management, &path, &YamlValue::Seq(entries.clone()))?;
    list(&entries, &config, output);
    Ok(ExitCode::SUCCESS)
}

fn list(entries: &[YamlValue], config: &Config, output: &Console) {
    for (at, entry) in entries.iter().enumerate() {
        output.line(&format!("{:>2}. {}", at + 1, describe(entry)));
    }
    if let Some(model) = config.non_empty_text("fallback_model.model") {
        output.line(&format!("    {}:{model} (fallback_model)", config.text("fallback_model.provider")));
    } else if entries.is_empty() {
        output.line("No fallback: when the main model fails, the turn fails. `hermes fallback add PROVIDER:MODEL` adds one.");
    }
}

fn describe(entry: &YamlValue) -> String {
    let text = |key: &str| entry.get(key).and_then(YamlValue::scalar_text).unwrap_or_default();
    let url = text("base_url");
    let url = if url.is_empty() { url } else { format!(" at {url}") };
    format!("{}:{}{url}", text("provider"), text("model"))
}
