//! `hermes honcho`: the settings of Honcho, in `honcho.json`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use hermes_config::env::dotenv;
use hermes_config::{Config, ManagedMode, set, user_home};
use hermes_memory::honcho::{HonchoFile, HonchoMemoryMode, plain_name};
use hermes_memory::{MemoryPerson, MemoryScope};
use hermes_types::SessionId;
use serde_json::{Map, Value, json};

use super::memory::check_service;
use crate::cli::{HonchoCommand, HonchoMode};
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::memory_services::{MemoryServices, configured_service};
use crate::wiring::model_lists::runtime;
use crate::wiring::program_runtime::ProgramConfig;

/// The longest text that is told to Honcho at once, in characters.
const LONGEST_IDENTITY: usize = 20_000;

const MIGRATION: &str = "\
Moving memories to Honcho
  1. hermes honcho setup                     a key, or the address of your server
  2. hermes honcho identity SOUL.md          tells Honcho who the agent is
  3. Talk: what you say from now on is stored there. MEMORY.md and USER.md stay; `hermes honcho mode honcho`
     stops writing them.
What the files hold now is not sent by itself: ask the agent to store what matters with honcho_conclude.";

pub(crate) fn run(command: HonchoCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let home = user_home(&context.env)?;
    let mut file = HonchoFile::load(&context.home, &home);
    match command {
        HonchoCommand::Status => status(&file, context, output)?,
        HonchoCommand::Setup { url, key, peer } => {
            setup(file, url.as_deref(), key, peer.as_deref(), context, output)?;
        }
        HonchoCommand::Sessions | HonchoCommand::Map { name: None } => list_sessions(&file, output),
        HonchoCommand::Map { name: Some(name) } => {
            let plain = plain_name(&name);
            if plain.is_empty() {
                bail!("'{name}' has no letter or digit; nothing was changed");
            }
            let folder = std::env::current_dir().context("the current folder")?;
            file.map_folder(&folder.to_string_lossy(), &plain);
            file.save().map_err(anyhow::Error::msg)?;
            output.line(&format!("✓ Conversations in {} belong to the session {plain}.", folder.display()));
        }
        HonchoCommand::Peer { user, ai, reasoning } => {
            let level = reasoning.and_then(|level| level.to_possible_value());
            let changes = [
                ("peerName", user.as_deref().map(|name| json!(plain_name(name)))),
                ("aiPeer", ai.as_deref().map(|name| json!(plain_name(name)))),
                ("dialecticReasoningLevel", level.map(|level| json!(level.get_name()))),
            ];
            change(&mut file, changes, output)?;
            let settings = file.settings(&context.env);
            output.line(&format!("You:       {}", settings.peer));
            output.line(&format!("Agent:     {}", settings.ai_peer));
            output.line(&format!("Reasoning: {}", settings.reasoning_level));
        }
        HonchoCommand::Mode { mode } => {
            let name = mode.and_then(|mode| mode.to_possible_value());
            change(&mut file, [("memoryMode", name.map(|name| json!(name.get_name())))], output)?;
            let settings = file.settings(&context.env);
            output.line(&format!("Your profile:    {}", describe(settings.user_mode)));
            output.line(&format!("Agent's notes:   {}", describe(settings.ai_mode)));
            if mode == Some(HonchoMode::Local) {
                output.line("Honcho is not used; what was said earlier is recalled from the transcripts.");
            }
        }
        HonchoCommand::Tokens { context: tokens, dialectic } => {
            let changes = [
                ("contextTokens", tokens.map(|tokens| if tokens == 0 { Value::Null } else { json!(tokens) })),
                ("dialecticMaxChars", dialectic.map(|chars| json!(chars))),
            ];
            change(&mut file, changes, output)?;
            let settings = file.settings(&context.env);
            let limit =
                settings.context_tokens.map_or("no limit".to_owned(), |tokens| format!("{tokens} tokens"));
            output.line(&format!("Recalled text: {limit}"));
            output.line(&format!("About you:     {} characters", settings.dialectic_chars));
        }
        HonchoCommand::Identity { file: text, show } => identity(text.as_deref(), show, context, output)?,
        HonchoCommand::Migrate => output.line(MIGRATION),
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets those fields that were given, and saves the file if there were any.
fn change<const N: usize>(
    file: &mut HonchoFile,
    changes: [(&str, Option<Value>); N],
    output: &Console,
) -> Result<()> {
    let mut is_changed = false;
    for (name, value) in changes {
        if let Some(value) = value {
            file.set(name, value);
            is_changed = true;
        }
    }
    if is_changed {
        file.save().map_err(anyhow::Error::msg)?;
        output.line(&format!("✓ Saved in {}", file.path.display()));
    }
    Ok(())
}

fn describe(mode: HonchoMemoryMode) -> &'static str {
    match mode {
        HonchoMemoryMode::Hybrid => "Honcho and the file",
        HonchoMemoryMode::Honcho => "Honcho only",
        HonchoMemoryMode::Local => "the file only",
    }
}

fn status(file: &HonchoFile, context: &ProgramContext, output: &Console) -> Result<()> {
    let settings = file.settings(&context.env);
    let state = if file.exists() { "" } else { " (does not exist)" };
    output.line(&format!("Settings:   {}{state}", file.path.display()));
    if let Some(problem) = &file.problem {
        bail!("{problem}");
    }
    output.line(&format!("Address:    {}", settings.url));
    let key = if settings.key.is_some() { "set" } else { "not set" };
    output.line(&format!("Key:        {key}"));
    output.line(&format!("Workspace:  {}", settings.workspace));
    output.line(&format!("You:        {}", settings.peer));
    output.line(&format!("Agent:      {}", settings.ai_peer));
    output.line(&format!("Profile:    {}", describe(settings.user_mode)));
    output.line(&format!("Notes:      {}", describe(settings.ai_mode)));
    let config = context.config(output);
    if configured_service(&config).as_deref() != Some("honcho") {
        output.line("Not in use: `hermes config set memory.provider honcho` uses it");
    }
    if !settings.is_active() {
        output.line("Not active: set HONCHO_API_KEY or HONCHO_BASE_URL, or run `hermes honcho setup`");
        return Ok(());
    }
    check_service("honcho", &config, context, output)
}

fn setup(
    mut file: HonchoFile,
    url: Option<&str>,
    key: Option<String>,
    peer: Option<&str>,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let known = file.settings(&context.env);
    let key = match key {
        Some(key) => Some(key),
        None if url.is_some() || known.key.is_some() => None,
        None => output.ask_secret("Key of Honcho (empty for none): "),
    };
    let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    if key.is_none() && url.is_none() && known.key.is_none() && !known.is_own_server() {
        bail!("Honcho needs a key or an address; nothing was changed. Use --key or --url");
    }
    if let Some(url) = url {
        file.set_root("baseUrl", json!(url));
    }
    if let Some(peer) = peer {
        file.set("peerName", json!(plain_name(peer)));
    }
    file.set("enabled", json!(true));
    file.save().map_err(anyhow::Error::msg)?;
    let management = ManagedMode::detect(&context.home, &context.env);
    if let Some(key) = &key {
        dotenv::save(&context.home, management, &[("HONCHO_API_KEY", key.as_str())])?;
    }
    set::set(&context.home, &context.env, "memory.provider", "honcho")?;
    output.line(&format!("✓ Honcho is the memory service; its settings are in {}", file.path.display()));
    let context = context.reloaded();
    check_service("honcho", &context.config(output), &context, output)
}

fn list_sessions(file: &HonchoFile, output: &Console) {
    let sessions = file.sessions();
    if sessions.is_empty() {
        output
            .line("No folder has a session of its own. `hermes honcho map NAME` names that of this folder.");
    }
    for (folder, name) in sessions {
        output.line(&format!("{name}  {folder}"));
    }
}

/// Shows what Honcho knows of the agent, or tells it.
fn identity(text: Option<&Path>, show: bool, context: &ProgramContext, output: &Console) -> Result<()> {
    let config: Config = context.config(output);
    let store = context.store(output)?;
    let services = MemoryServices::new(std::sync::Arc::new(hermes_task::SystemClock::new()));
    let from = ProgramConfig { context, config: &config };
    let service = services.open("honcho", &store, from).map_err(anyhow::Error::msg)?;
    let scope = MemoryScope {
        session: SessionId::new("identity"),
        folder: context.home.path().to_owned(),
        person: MemoryPerson::default(),
        title: None,
    };
    let call = |tool: &'static str, arguments: Map<String, Value>| -> Result<String> {
        let (engine, scope) = (service.engine().clone(), scope.clone());
        let answered = runtime()?.block_on(async move { engine.call(&scope, tool, &arguments).await });
        answered.map_err(anyhow::Error::new)
    };
    match text {
        Some(path) if !show => {
            let words = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let words: String = words.trim().chars().take(LONGEST_IDENTITY).collect();
            if words.is_empty() {
                bail!("{} is empty; nothing was sent", path.display());
            }
            let arguments = Map::from_iter([("identity".to_owned(), json!(words))]);
            call("identity", arguments)?;
            output.line("✓ Honcho knows who the agent is.");
        }
        _ => {
            let question = "Who is this agent, and how does it work?";
            let arguments =
                Map::from_iter([("query".to_owned(), json!(question)), ("peer".to_owned(), json!("ai"))]);
            output.line(&call("honcho_context", arguments)?);
        }
    }
    Ok(())
}
