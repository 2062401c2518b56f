//! Assembles the program from the configuration, forwards: first the runtime of the process, then the agents, then what
//! uses them.

pub(crate) mod agent_factory;
pub(crate) mod agent_runtime;
pub(crate) mod agent_spec;
mod backends;
pub(crate) mod bundled_skills;
pub(crate) mod channels;
mod code;
mod command_runtime;
pub(crate) mod consolidation;
mod delegation;
pub(crate) mod environment;
pub(crate) mod extensions;
pub(crate) mod hooks;
pub(crate) mod live_agents;
pub(crate) mod mcp;
pub(crate) mod memory_services;
pub(crate) mod message_sender;
mod mixture;
mod modal;
pub(crate) mod model;
pub(crate) mod model_lists;
pub(crate) mod person;
pub(crate) mod program_runtime;
mod programs;
mod prompt;
pub(crate) mod research;
pub(crate) mod sandbox;
pub(crate) mod secret_managers;
mod settings;
pub(crate) mod skills;
pub(crate) mod temporary_delivery;
#[cfg(feature = "tokenizers")]
pub(crate) mod tokenizer;
mod tools;
pub(crate) mod training;
pub(crate) mod web;
pub(crate) mod whatsapp_bridge;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hermes_config::settings::TerminalSettings;
use hermes_config::{Config, Env, expand_tilde, user_home};
use hermes_exec::{ProgramRunner, Variables};
use hermes_tools::{FileGuard, ReferenceResolver};
use hermes_types::Clock;

use crate::context::ProgramContext;

pub(crate) use agent_runtime::AgentRuntime;
pub(crate) use command_runtime::CommandRuntime;
pub(crate) use model::{configured_vision, net_config};
pub(crate) use settings::memory_limits;

/// Returns the environment of child processes; the variables in `passed` are always included.
pub(crate) fn child_variables(env: &Env, passed: &[String]) -> Variables {
    Variables::for_commands(env.child_variables(passed), passed, &env.withheld_names())
}

/// Returns the resolver for `@` references of messages typed in `folder`.
pub(crate) fn references(
    folder: PathBuf,
    context: &ProgramContext,
    config: &Config,
    clock: Arc<dyn Clock>,
) -> Result<ReferenceResolver> {
    let user_home = user_home(&context.env)?;
    let settings = TerminalSettings::resolve(config, &context.env);
    let sandbox = sandbox::sandbox(&settings, &user_home, context);
    let guard = FileGuard::new(folder, user_home, &context.home);
    let programs = ProgramRunner::new(child_variables(&context.env, &[]), clock);
    Ok(ReferenceResolver::new(guard, programs).with_sandbox(sandbox))
}

/// Returns the working folder of the tools: `terminal.cwd` if it names a folder of this machine, else the folder
/// the program was started in.
pub(crate) fn working_folder(context: &ProgramContext, config: &Config) -> Result<PathBuf> {
    let settings = TerminalSettings::resolve(config, &context.env);
    let named = settings.cwd.clone().filter(|_| settings.is_local());
    let named = named.and_then(|cwd| expand_tilde(&cwd, &context.env).ok()).filter(|path| path.is_dir());
    match named {
        Some(folder) => Ok(folder),
        None => std::env::current_dir().context("the working directory no longer exists"),
    }
}
