//! `hermes model`: shows the active model and selects another.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::{Config, ProgramSurface, set};
use hermes_model::discovery::ListFreshness;
use hermes_model::provider::switch::{self, SwitchError, SwitchNote};
use hermes_model::provider::{
    ModelTarget, ProviderChoice, ProviderInputs, ResolveError, ResolvedModel, name, resolve,
};
use hermes_types::Cancel;

use super::chat;
use crate::cli::{LoginArguments, ModelArguments, SignInArguments};
use crate::context::ProgramContext;
use crate::output::{Confirmation, Console};
use crate::wiring::model_lists;

/// The provider of an endpoint of the user's own.
const CUSTOM: &str = "custom";

pub(crate) fn run(
    arguments: &ModelArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let config = context.config(output);
    if arguments.list {
        return list(arguments, context, config, output);
    }
    // On a terminal a model is picked; a script gets the present one.
    let picked = match &arguments.name {
        None if !arguments.refresh && chat::can_have_screen(&context.env) => {
            let picked = chat::pick_model(context, config.clone())?;
            if picked.is_none() {
                output.line("No change.");
            }
            picked
        }
        _ => None,
    };
    let wanted = arguments.name.as_deref().or(picked.as_deref());
    for line in answer(wanted, arguments.base_url.as_deref(), context, config)? {
        output.line(&line);
    }
    let config = Config::load(&context.home, &context.env);
    let inputs = ProviderInputs::read(&context.home, config.clone(), context.env.clone());
    let resolved = resolve(&inputs, &ProviderChoice::default(), ProgramSurface::Cli);
    if let Err(ResolveError::NotSignedIn { provider, .. }) = &resolved
        && (arguments.sign_in != SignInArguments::default() || wants_to_sign_in(provider, output))
    {
        let login = LoginArguments { provider: provider.clone(), sign_in: arguments.sign_in.clone() };
        return super::login::run(&login, context, output);
    }
    if arguments.refresh {
        return list(&ModelArguments { name: None, ..arguments.clone() }, context, config, output);
    }
    Ok(ExitCode::SUCCESS)
}

fn wants_to_sign_in(provider: &str, output: &Console) -> bool {
    output.confirm(&format!("Sign in to {provider} now?")) == Confirmation::Yes
}

/// Prints the models of the active provider, or of the one that is named.
fn list(
    arguments: &ModelArguments,
    context: &ProgramContext,
    config: Config,
    output: &Console,
) -> Result<ExitCode> {
    let inputs = ProviderInputs::read(&context.home, config, context.env.clone());
    let named = arguments.name.as_deref().map(|name| name.trim_end_matches(':').to_owned());
    let choice = ProviderChoice { provider: named, ..ProviderChoice::default() };
    let Some(target) = model_lists::target_of(&inputs, &choice)? else {
        bail!("no provider is configured: `hermes setup model` connects one");
    };
    let freshness = if arguments.refresh { ListFreshness::Current } else { ListFreshness::Recent };
    match model_lists::list_models(&target, context, freshness) {
        Ok(models) => {
            for model in models {
                output.line(&model.id);
            }
        }
        Err(error) => {
            let known =
                hermes_config::provider::registry::find(target.provider()).map_or(&[][..], |row| row.models);
            if known.is_empty() {
                return Err(error);
            }
            output.notice(&format!("note: {error:#}; these are the models this release knows"));
            for model in known {
                output.line(model);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Selects a model if one is given, also at an address, and describes the active one. May wait for the network, so it
/// must not run on a thread of an async runtime.
pub(crate) fn answer(
    wanted: Option<&str>,
    address: Option<&str>,
    context: &ProgramContext,
    config: Config,
) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let config = match wanted {
        Some(text) => {
            choose(text.trim(), address, context, config, &mut lines)?;
            Config::load(&context.home, &context.env)
        }
        None => config,
    };
    show(context, config, &mut lines);
    Ok(lines)
}

/// Saves the choice: the named or matching provider and the model, and the address if one is given; removes a base URL
/// of another provider.
fn choose(
    text: &str,
    address: Option<&str>,
    context: &ProgramContext,
    config: Config,
    lines: &mut Vec<String>,
) -> Result<()> {
    let facts = ProviderInputs::read(&context.home, config, context.env.clone());
    let current = match resolve(&facts, &ProviderChoice::default(), ProgramSurface::Cli) {
        Ok(ResolvedModel::Target(target)) => Some(target),
        _ => None,
    };
    let mut named = name::parse(text, &facts);
    let configured =
        || facts.config.is_user_set("model.base_url").then(|| facts.config.text("model.base_url"));
    if let Some(address) = address {
        if !address.starts_with("http://") && !address.starts_with("https://") {
            bail!("`{address}` is no address; it begins with http:// or https://. Nothing was changed.");
        }
        match named.provider.as_deref() {
            None => named = name::parse(&format!("{CUSTOM}:{text}"), &facts),
            Some(CUSTOM) => {}
            Some(other) => {
                bail!("--base-url is for the provider {CUSTOM}, not for {other}. Nothing was changed.")
            }
        }
    }
    // A person who names the provider `custom` means the configured address, whichever provider was chosen before.
    let own_address = address
        .map(str::to_owned)
        .or_else(|| (named.provider.as_deref() == Some(CUSTOM)).then(configured).flatten());
    let planned = match own_address {
        Some(url) => {
            let choice = ProviderChoice { base_url: Some(url), ..ProviderChoice::of(CUSTOM, &named.model) };
            resolve(&facts, &choice, ProgramSurface::Cli).map_err(SwitchError::from)
        }
        None => switch::plan(&facts, current.as_deref(), text, ProgramSurface::Cli),
    };
    let (provider, model, note) = match planned {
        Ok(ResolvedModel::Target(mut target)) => {
            let note = validate(&mut target, context)?;
            (named.provider.or_else(|| Some(target.provider().to_owned())), target.model.clone(), note)
        }
        // The choice is saved anyway: a key or a sign-in can follow, and `show` says which one is missing.
        Ok(ResolvedModel::Offline)
        | Err(SwitchError::Resolve(ResolveError::NoKey { .. } | ResolveError::NotSignedIn { .. })) => {
            (named.provider, named.model, None)
        }
        Err(error) => bail!("{error} Nothing was changed."),
    };
    if let Some(provider) = provider {
        lines.extend(set::set(&context.home, &context.env, "model.provider", &provider)?.lines);
        let keeps_address = provider == CUSTOM || provider.starts_with("custom:");
        if let Some(address) = address {
            lines.extend(set::set(&context.home, &context.env, "model.base_url", address)?.lines);
        } else if !keeps_address && facts.config.is_user_set("model.base_url") {
            set::unset(&context.home, &context.env, "model.base_url")?;
        }
    }
    lines.extend(set::set(&context.home, &context.env, "model.default", &model)?.lines);
    if let Some(note) = note {
        lines.push(format!("note: {note}"));
    }
    Ok(())
}

/// Asks the endpoint whether it knows the model, for at most five seconds.
fn validate(target: &mut ModelTarget, context: &ProgramContext) -> Result<Option<SwitchNote>> {
    let (lookup, _) = model_lists::discovery(context)?;
    Ok(model_lists::runtime()?.block_on(switch::validate(&lookup, target, &Cancel::new())))
}

fn show(context: &ProgramContext, config: Config, lines: &mut Vec<String>) {
    let mut line = |text: &str| lines.push(text.to_owned());
    let facts = ProviderInputs::read(&context.home, config, context.env.clone());
    match resolve(&facts, &ProviderChoice::default(), ProgramSurface::Cli) {
        Ok(ResolvedModel::Offline) => {
            line("Current model:   offline (built in; not a language model)");
            line("");
            line("To connect a real one, set a key and a model:");
            line("  hermes config set OPENROUTER_API_KEY …");
            line("  hermes model anthropic/claude-opus-4.6");
            line("or an endpoint of your own, such as Ollama:");
            line("  hermes model custom:qwen3:8b --base-url http://localhost:11434/v1");
        }
        Ok(ResolvedModel::Target(target)) => {
            line(&format!("Current model:   {}", target.model));
            line(&format!("Active provider: {} ({})", target.provider(), target.base_url()));
            line(&format!("Context window:  {} tokens", target.context_window));
            if let Some(origin) = &target.key_origin {
                line(&format!("Key from:        {origin}"));
            }
        }
        Err(error) => line(&format!("{error}")),
    }
}
