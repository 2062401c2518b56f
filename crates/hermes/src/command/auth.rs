//! `hermes auth`: the keys of a provider that requests rotate through, and the sign-ins. Shows no part of a key.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::auth::AuthFile;
use hermes_config::{canonical_provider, is_usable_key};
use serde_json::{Value, json};

use super::login;
use crate::cli::AuthCommand;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::random;

pub(crate) fn run(command: AuthCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    match command {
        AuthCommand::List => list(None, context, output),
        AuthCommand::Status { provider } => {
            list(provider.as_deref().map(pool_name).transpose()?.as_deref(), context, output);
        }
        AuthCommand::Add { provider, api_key, label, base_url } => {
            let provider = pool_name(&provider)?;
            let Some(key) = read_key(&provider, api_key, output)? else {
                bail!("no key was given; nothing was changed");
            };
            if !is_usable_key(&key) || key.contains(char::is_whitespace) {
                bail!("that is no key; nothing was changed");
            }
            add(&provider, &key, label, base_url, context, output)?;
        }
        AuthCommand::Remove { provider, key } => remove(&pool_name(&provider)?, &key, context, output)?,
        AuthCommand::Reset { provider } => reset(&pool_name(&provider)?, context, output)?,
        AuthCommand::Logout { provider } => return login::sign_out(provider.as_deref(), context, output),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the name under which a provider's keys are stored. Endpoints of one's own have names of their own.
fn pool_name(provider: &str) -> Result<String> {
    if provider.starts_with("custom:") {
        return Ok(provider.to_owned());
    }
    Ok(canonical_provider(provider)?.to_owned())
}

fn pools(state: &hermes_config::auth::AuthState, only: Option<&str>) -> Vec<String> {
    let mut state = state.clone();
    let pools = state.document_mut().get("credential_pool").and_then(Value::as_object).cloned();
    let names = pools.into_iter().flatten().map(|(name, _)| name);
    names.filter(|name| only.is_none_or(|only| name == only)).collect()
}

fn list(only: Option<&str>, context: &ProgramContext, output: &Console) {
    let state = AuthFile::new(&context.home).read();
    let mut nothing = true;
    for name in state.providers().into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
        nothing = false;
        let active = if state.active_provider() == Some(name) { " (last used)" } else { "" };
        output.line(&format!("{name}: signed in{active}"));
    }
    for name in pools(&state, only) {
        for (at, entry) in state.credential_pool(&name).iter().enumerate() {
            nothing = false;
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let label = if text("label").is_empty() { text("id") } else { text("label") };
            let status = match text("last_status") {
                "" => "ok",
                status => status,
            };
            let used = entry.get("request_count").and_then(Value::as_u64).unwrap_or(0);
            let place = if text("base_url").is_empty() {
                String::new()
            } else {
                format!(" for {}", text("base_url"))
            };
            output.line(&format!("{name}: {}. {label}{place}  {status}, {used} requests", at + 1));
        }
    }
    if nothing {
        output.line("No stored keys and no sign-ins. `hermes login` signs in, `hermes auth add PROVIDER` stores a key.");
    }
}

/// Returns the key from the flag, the user or standard input.
fn read_key(provider: &str, flag: Option<String>, output: &Console) -> Result<Option<String>> {
    let key = match flag {
        Some(key) if key != "-" => Some(key),
        None if std::io::stdin().is_terminal() => output.ask_secret(&format!("Key of {provider}: ")),
        _ => {
            let mut text = String::new();
            std::io::stdin().take(64 * 1024).read_to_string(&mut text)?;
            Some(text)
        }
    };
    Ok(key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()))
}

fn add(
    provider: &str,
    key: &str,
    label: Option<String>,
    base_url: Option<String>,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    context.home.ensure()?;
    let id = random::hex::<3>()?;
    let count = AuthFile::new(&context.home).update(|state| {
        let mut entries = state.credential_pool(provider).to_vec();
        if entries.iter().any(|entry| entry.get("access_token").and_then(Value::as_str) == Some(key)) {
            return None;
        }
        let label = label.unwrap_or_else(|| format!("key {}", entries.len() + 1));
        let mut entry = json!({
            "id": id,
            "label": label,
            "auth_type": "api_key",
            "priority": entries.len(),
            "source": "manual",
            "access_token": key,
            "request_count": 0,
        });
        if let Some(url) = base_url {
            entry["base_url"] = url.into();
        }
        entries.push(entry);
        let count = entries.len();
        state.set_credential_pool(provider, entries);
        Some(count)
    })?;
    match count {
        Some(count) => output.line(&format!("✓ Stored. {provider} has {count} key(s).")),
        None => output.line(&format!("{provider} has this key already.")),
    }
    Ok(())
}

fn remove(provider: &str, key: &str, context: &ProgramContext, output: &Console) -> Result<()> {
    let removed = AuthFile::new(&context.home).update(|state| {
        let mut entries = state.credential_pool(provider).to_vec();
        let is_named = |entry: &Value| {
            ["id", "label"].iter().any(|field| entry.get(*field).and_then(Value::as_str) == Some(key))
        };
        let at = match key.parse::<usize>() {
            Ok(number) => number.checked_sub(1).filter(|at| *at < entries.len()),
            Err(_) => None,
        };
        let at = entries.iter().position(is_named).or(at)?;
        entries.remove(at);
        state.set_credential_pool(provider, entries);
        Some(())
    })?;
    if removed.is_none() {
        bail!("{provider} has no key '{key}'; `hermes auth list` shows those there are");
    }
    output.line("✓ Removed.");
    Ok(())
}

/// Clears what was noted when keys were refused.
fn reset(provider: &str, context: &ProgramContext, output: &Console) -> Result<()> {
    let count = AuthFile::new(&context.home).update(|state| {
        let mut entries = state.credential_pool(provider).to_vec();
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            for (name, value) in entry.iter_mut() {
                if name.starts_with("last_") {
                    *value = Value::Null;
                }
            }
        }
        let count = entries.len();
        if count > 0 {
            state.set_credential_pool(provider, entries);
        }
        count
    })?;
    if count == 0 {
        bail!("{provider} has no stored keys");
    }
    output.line(&format!("✓ {count} key(s) of {provider} are used again."));
    Ok(())
}
