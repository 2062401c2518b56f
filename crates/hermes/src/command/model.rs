//! `hermes model`: who answers, and choosing another.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_config::{Surface, set};
use hermes_model::credential::Means;
use hermes_model::discovery::Lookup;
use hermes_model::provider::switch::{self, Note, SwitchError};
use hermes_model::provider::{Choice, Facts, Resolved, Target, name, resolve};
use hermes_net::Client;
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};

use crate::context::Context;
use crate::output::Output;
use crate::wiring;

pub(crate) fn run(wanted: Option<&str>, context: &Context, output: &Output) -> Result<ExitCode> {
    if let Some(text) = wanted {
        choose(text.trim(), context, output)?;
    }
    show(context, output);
    Ok(ExitCode::SUCCESS)
}

/// Saves a choice: the provider it names or that fits it, the model, and no address that belongs to another provider.
fn choose(text: &str, context: &Context, output: &Output) -> Result<()> {
    let config = context.config(output);
    let facts = Facts::read(&context.home, config, context.env.clone());
    let current = match resolve(&facts, &Choice::default(), Surface::Cli) {
        Ok(Resolved::Target(target)) => Some(target),
        _ => None,
    };
    let named = name::parse(text);
    let planned = switch::plan(&facts, current.as_deref(), text, Surface::Cli);
    let (provider, model, note) = match planned {
        Ok(Resolved::Target(mut target)) => {
            let note = validate(&mut target, context)?;
            (named.provider.or_else(|| Some(target.provider().to_owned())), target.model.clone(), note)
        }
        Err(error @ (SwitchError::Empty | SwitchError::Blank)) => bail!("{error}"),
        // Chosen all the same: what is still missing, such as a key, is said by `show`.
        Ok(Resolved::Offline) | Err(SwitchError::Resolve(_)) => (named.provider, named.model, None),
    };
    if let Some(provider) = provider {
        save("model.provider", &provider, context, output)?;
        let own_address = provider == "custom" || provider.starts_with("custom:");
        if !own_address && facts.config.is_user_set("model.base_url") {
            set::unset(&context.home, &context.env, "model.base_url")?;
        }
    }
    save("model.default", &model, context, output)?;
    if let Some(note) = note {
        output.notice(&format!("note: {note}"));
    }
    Ok(())
}

fn save(key: &str, value: &str, context: &Context, output: &Output) -> Result<()> {
    for line in set::set(&context.home, &context.env, key, value)?.lines {
        output.line(&line);
    }
    Ok(())
}

/// Asks the endpoint whether it knows the model; five seconds at most.
fn validate(target: &mut Target, context: &Context) -> Result<Option<Note>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let net = Client::new(wiring::net_config(&context.env, &clock))?;
    let means = Means::new(net, clock, &context.home, context.env.clone());
    let lookup = Lookup::new(means, context.home.clone());
    Ok(runtime.block_on(switch::validate(&lookup, target, &Cancel::new())))
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
