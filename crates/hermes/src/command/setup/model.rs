//! The model: who serves it, with which key, and which one.

use std::io::Read as _;

use anyhow::{Context as _, Result, bail};
use hermes_config::provider::registry::{ProviderKind, REGISTRY};
use hermes_config::{Config, ProgramSurface, canonical_provider};
use hermes_model::discovery::ListFreshness;
use hermes_model::provider::{Provider, ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_types::Secret;

use super::SetupWizard;
use crate::cli::LoginArguments;
use crate::command::login;
use crate::context::ProgramContext;
use crate::wiring::model_lists;

/// The most models a menu offers; another can be typed.
const MAX_MODELS: usize = 30;

/// Tells whether a real model is configured.
pub(super) fn is_configured(context: &ProgramContext, config: &Config) -> bool {
    let inputs = ProviderInputs::read(&context.home, config.clone(), context.env.clone());
    let resolved = resolve(&inputs, &ProviderChoice::default(), ProgramSurface::Cli);
    matches!(resolved, Ok(ResolvedModel::Target(_)))
}

pub(super) fn ask(wizard: &mut SetupWizard<'_>) -> Result<()> {
    let flags = wizard.arguments;
    let touched = flags.provider.is_some()
        || flags.model.is_some()
        || flags.base_url.is_some()
        || flags.api_key.is_some();
    if !wizard.asks() && !touched {
        return Ok(());
    }
    let Some(provider) = choose_provider(wizard)? else { return Ok(()) };
    if provider.kind == ProviderKind::OAuth || provider.kind == ProviderKind::Copilot {
        sign_in(wizard, provider)?;
    } else if let Some(key) = ask_key(wizard, provider)? {
        find_endpoint(wizard, provider, &key)?;
    }
    wizard.set_text("model.provider", provider.id);
    let base_url = ask_address(wizard, provider)?;
    // The list of models needs the key and the address in place.
    wizard.save()?;
    let model = ask_model(wizard, provider, base_url.as_deref())?;
    wizard.set_text("model.default", &model);
    Ok(())
}

/// Chooses among the providers of the table. Returns nothing when the present one is kept.
fn choose_provider(wizard: &SetupWizard<'_>) -> Result<Option<&'static Provider>> {
    let find = |name: &str| {
        let name = canonical_provider(name).ok()?;
        REGISTRY.iter().find(|provider| provider.id == name)
    };
    let offered: Vec<&'static Provider> = REGISTRY
        .iter()
        .filter(|provider| {
            !matches!(provider.kind, ProviderKind::Offline | ProviderKind::Process | ProviderKind::Aws)
        })
        .collect();
    if let Some(name) = &wizard.arguments.provider {
        return match find(name) {
            Some(provider) if provider.kind != ProviderKind::Offline => Ok(Some(provider)),
            _ => {
                let names: Vec<&str> = offered.iter().map(|provider| provider.id).collect();
                bail!("there is no provider '{name}'; there are: {}", names.join(", "))
            }
        };
    }
    let now = wizard.config.text("model.provider");
    if !wizard.asks() {
        let implied = if wizard.arguments.base_url.is_some() { "custom" } else { now.as_str() };
        return match find(implied) {
            Some(provider) => Ok(Some(provider)),
            None => bail!("name the provider: --provider openrouter, anthropic, custom, …"),
        };
    }
    let is_kept = is_configured(&wizard.context, &wizard.config);
    let mut rows: Vec<String> = Vec::new();
    rows.extend(
        is_kept.then(|| format!("Keep the present one ({now}, {})", wizard.config.text("model.default"))),
    );
    rows.extend(offered.iter().map(|provider| match provider.kind {
        ProviderKind::Custom => "An endpoint of your own (Ollama, vLLM, LM Studio, …)".to_owned(),
        ProviderKind::OAuth | ProviderKind::Copilot => format!("{} (sign in with a browser)", provider.label),
        _ => provider.label.to_owned(),
    }));
    let at = wizard.choose("Who serves the model?", &rows, 0)?;
    Ok(match at.checked_sub(usize::from(is_kept)) {
        Some(at) => offered.get(at).copied(),
        None => None,
    })
}

fn sign_in(wizard: &SetupWizard<'_>, provider: &Provider) -> Result<()> {
    if !wizard.asks() {
        wizard.output.line(&format!("`hermes login --provider {}` signs in.", provider.id));
        return Ok(());
    }
    if wizard.confirms(&format!("Sign in to {} now?", provider.label), true)? {
        let arguments = LoginArguments { provider: provider.id.to_owned(), ..LoginArguments::default() };
        login::run(&arguments, &wizard.context, wizard.output)?;
    }
    Ok(())
}

/// Asks for the key of a provider. Returns a new one.
fn ask_key(wizard: &mut SetupWizard<'_>, provider: &Provider) -> Result<Option<Secret>> {
    // The key of a provider is stored under its most specific name.
    let name = provider.keys.iter().find(|name| name.ends_with("_API_KEY")).or(provider.keys.first());
    let Some(name) = name.copied() else { return Ok(None) };
    let key = match &wizard.arguments.api_key {
        Some(key) if key == "-" => Some(read_key()?),
        Some(key) => Some(key.trim().to_owned()),
        None if !wizard.asks() => None,
        None => {
            let is_set = provider.keys.iter().any(|name| wizard.context.env.is_set(name));
            let hint = match (is_set, provider.kind) {
                (true, _) => " [keep the present one]",
                (false, ProviderKind::Custom) => " [none]",
                (false, _) => "",
            };
            Some(wizard.secret(&format!("Key of {}{hint}: ", provider.label))?)
        }
    };
    let Some(key) = key.filter(|key| !key.is_empty()) else { return Ok(None) };
    wizard.set_variable(name, &key)?;
    Ok(Some(Secret::new(key)))
}

/// Finds the endpoint of Z.AI that a new key belongs to: its plans have similar keys and different endpoints. Asks the network, so
/// only a setup with questions does it, and not where an address is chosen already.
fn find_endpoint(wizard: &mut SetupWizard<'_>, provider: &Provider, key: &Secret) -> Result<()> {
    let is_chosen = wizard.arguments.base_url.is_some() || wizard.context.env.is_set(provider.base_variable);
    if provider.id != "zai" || !wizard.asks() || is_chosen {
        return Ok(());
    }
    wizard.output.line("  Looking for the endpoint of this key …");
    match model_lists::find_zai_endpoint(key, &wizard.context)? {
        Some(endpoint) => {
            wizard.output.line(&format!("  {} accepts the key.", endpoint.base_url));
            if endpoint.base_url != provider.base_url {
                wizard.set_variable(provider.base_variable, &endpoint.base_url)?;
            }
        }
        None => wizard.output.line(&format!(
            "  No endpoint of {} accepted the key. It is stored, for {}.",
            provider.label, provider.base_url
        )),
    }
    Ok(())
}

/// Reads a key from standard input, so that it is in no process list.
fn read_key() -> Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .take(64 * 1024)
        .read_to_string(&mut text)
        .context("the key cannot be read from standard input")?;
    Ok(text.trim().to_owned())
}

/// Asks for the address where the provider has none of its own.
fn ask_address(wizard: &mut SetupWizard<'_>, provider: &Provider) -> Result<Option<String>> {
    let flag = wizard.arguments.base_url.clone();
    if flag.is_none() && !provider.base_url.is_empty() {
        // The address of another provider would be used for this one.
        if wizard.config.is_user_set("model.base_url") {
            wizard.set_text("model.base_url", provider.base_url);
        }
        return Ok(None);
    }
    loop {
        let now = wizard.config.text("model.base_url");
        let now = if now.is_empty() && wizard.asks() { "http://localhost:11434/v1".to_owned() } else { now };
        let url = wizard.text(flag.as_ref(), "Address of the endpoint, up to and with /v1", &now)?;
        if url.starts_with("http://") || url.starts_with("https://") {
            wizard.set_text("model.base_url", &url);
            return Ok(Some(url));
        }
        if flag.is_some() || !wizard.asks() {
            bail!("`{url}` is no address; it begins with http:// or https://");
        }
        wizard.output.line("  An address begins with http:// or https://");
    }
}

fn ask_model(wizard: &SetupWizard<'_>, provider: &Provider, base_url: Option<&str>) -> Result<String> {
    if let Some(model) = &wizard.arguments.model {
        return Ok(model.trim().to_owned());
    }
    let is_same = wizard.config.text("model.provider") == provider.id;
    let now = if is_same { wizard.config.text("model.default") } else { String::new() };
    let first = provider.models.first().copied().unwrap_or_default();
    let default = if now.is_empty() { first.to_owned() } else { now };
    if !wizard.asks() {
        if default.is_empty() {
            bail!("name the model: --model NAME");
        }
        return Ok(default);
    }
    let mut models = list_models(wizard, base_url);
    if models.is_empty() {
        models = provider.models.iter().map(|model| (*model).to_owned()).collect();
    }
    if let Some(at) = models.iter().position(|model| *model == default) {
        models.swap(0, at);
    }
    models.truncate(MAX_MODELS);
    if models.is_empty() {
        return loop {
            let model = wizard.text(None, "Model", &default)?;
            if !model.is_empty() {
                break Ok(model);
            }
        };
    }
    let other = models.len();
    let rows: Vec<String> = models.iter().cloned().chain(["Another one".to_owned()]).collect();
    let at = wizard.choose("Which model?", &rows, 0)?;
    if at == other {
        return wizard.text(None, "Model", &default);
    }
    Ok(models.get(at).cloned().unwrap_or(default))
}

/// Asks the endpoint for its models. An endpoint that says nothing is no obstacle.
fn list_models(wizard: &SetupWizard<'_>, base_url: Option<&str>) -> Vec<String> {
    let listed = (|| -> Result<Vec<String>> {
        let context = &wizard.context;
        let inputs = ProviderInputs::read(&context.home, wizard.config.clone(), context.env.clone());
        let Some(target) = model_lists::target_of(&inputs, &ProviderChoice::default())? else {
            return Ok(Vec::new());
        };
        let models = model_lists::list_models(&target, context, ListFreshness::Current)?;
        Ok(models.into_iter().map(|model| model.id).collect())
    })();
    listed.unwrap_or_else(|error| {
        let place = base_url.unwrap_or("The provider");
        wizard.output.line(&format!("  {place} lists no models ({error:#})."));
        Vec::new()
    })
}
