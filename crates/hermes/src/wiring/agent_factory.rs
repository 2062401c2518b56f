//! Agents for the gateway: one per platform and configuration snapshot, all with the command runtime of the
//! process.
//!
//! The `terminal` and `approvals` sections are read when the process starts; everything else follows the files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::{Agent, DeferredSessionLogs, SessionLogMode};
use hermes_config::{Home, ProgramSurface};
use hermes_gateway::{AgentProvider, AgentRequest, GatewaySettings, LiveSettings};
use hermes_model::provider::ProviderChoice;
use hermes_store::Store;
use hermes_types::{Clock, TaskId};

use super::message_sender::DeferredMessageSender;
use super::{AgentRuntime, AgentSpec, CommandRuntime, build_agent};
use crate::cli::ChatArguments;
use crate::context::{ProgramContext, local_time};
use crate::output::Console;

/// Builds agents, and caches them while nothing changes.
pub(crate) struct AgentFactory {
    live: LiveSettings,
    store: Store,
    clock: Arc<dyn Clock>,
    command_runtime: CommandRuntime,
    logs: Arc<DeferredSessionLogs>,
    message_sender: Arc<DeferredMessageSender>,
    cache: Mutex<HashMap<String, CachedAgent>>,
}

struct CachedAgent {
    /// The configuration snapshot the agent was built from.
    settings: Arc<GatewaySettings>,
    /// The day of the spending limit; spending is counted per day.
    day: u32,
    runtime: Arc<AgentRuntime>,
}

impl AgentFactory {
    /// Creates a factory without agents; the agents it builds share `command_runtime`.
    pub(crate) fn new(
        live: LiveSettings,
        store: Store,
        clock: Arc<dyn Clock>,
        command_runtime: CommandRuntime,
        logs: Arc<DeferredSessionLogs>,
    ) -> Self {
        Self {
            live,
            store,
            clock,
            command_runtime,
            logs,
            message_sender: Arc::default(),
            cache: Mutex::default(),
        }
    }

    /// Returns the message sender of the tools, which needs the gateway once that exists.
    pub(crate) fn message_sender(&self) -> &DeferredMessageSender {
        &self.message_sender
    }

    fn runtime(&self, wish: &AgentRequest<'_>) -> Result<Arc<AgentRuntime>, String> {
        let settings = self.live.current();
        let day = local_time(self.clock.now()).day;
        let key = format!(
            "{} {:?} {:?} {:?} {:?} {:?}",
            wish.platform, wish.excluded_toolsets, wish.model, wish.provider, wish.base_url, wish.toolsets
        );
        let mut made = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&key)
            && Arc::ptr_eq(&known.settings, &settings)
            && known.day == day
        {
            return Ok(known.runtime.clone());
        }
        let context = context(self.live.home(), &settings);
        let toolsets = wish.toolsets.map(|names| names.join(","));
        let arguments = ChatArguments { toolsets, ..ChatArguments::default() };
        let choice = ProviderChoice {
            model: wish.model.map(str::to_owned),
            provider: wish.provider.map(str::to_owned),
            base_url: wish.base_url.map(str::to_owned),
            ..ProviderChoice::default()
        };
        let order = AgentSpec {
            arguments: &arguments,
            platform: wish.platform,
            surface: ProgramSurface::Gateway,
            choice,
            command_runtime: Some(self.command_runtime.clone()),
            excluded_toolsets: wish.excluded_toolsets,
            logs: SessionLogMode::Deferred(self.logs.clone()),
            message_sender: Some(self.message_sender.clone()),
        };
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let wired = build_agent(&order, &context, settings.config.clone(), store, clock, &Console::new())
            .map_err(|error| format!("{error:#}"))?;
        let wired = Arc::new(wired);
        // Agents of older snapshots are not needed any more.
        made.retain(|_, known| Arc::ptr_eq(&known.settings, &settings));
        made.insert(key, CachedAgent { settings, day, runtime: wired.clone() });
        Ok(wired)
    }
}

impl AgentProvider for AgentFactory {
    fn agent(&self, wish: &AgentRequest<'_>) -> Result<Agent, String> {
        let agent = self.runtime(wish)?.agent_for_turn();
        Ok(match &wish.context {
            Some(text) => agent.into_builder().system_text(text).build(),
            None => agent,
        })
    }

    fn set_working_folder(&self, task: &TaskId, folder: &std::path::Path) {
        self.command_runtime.folders.set_start(task, folder.to_owned());
    }
}

/// Builds a context for one configuration snapshot.
pub(crate) fn context(home: &Home, settings: &GatewaySettings) -> ProgramContext {
    ProgramContext { home: home.clone(), env: settings.env.clone() }
}
