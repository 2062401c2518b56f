//! Agents for the gateway: one per platform and reading of the configuration, with the hands of the whole process.
//!
//! What `terminal` and `approvals` say is read at the start of the process; everything else follows the files.

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

/// Makes agents, and keeps them while nothing changes.
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
    /// The reading it was made from.
    settings: Arc<GatewaySettings>,
    /// What was spent is counted by the day.
    day: u32,
    runtime: Arc<AgentRuntime>,
}

impl AgentFactory {
    /// The first agent brings the hands; what background processes say comes beside.
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

    /// Who carries messages for the tools, to be told of the gateway.
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
        // Older readings are of no more use.
        made.retain(|_, known| Arc::ptr_eq(&known.settings, &settings));
        made.insert(key, CachedAgent { settings, day, runtime: wired.clone() });
        Ok(wired)
    }
}

impl AgentProvider for AgentFactory {
    fn agent(&self, wish: &AgentRequest<'_>) -> Result<Agent, String> {
        let mut agent = self.runtime(wish)?.agent_for_turn();
        let own = agent.request_options.ephemeral.take();
        let texts: Vec<String> = own.into_iter().chain(wish.context.clone()).collect();
        agent.request_options.ephemeral = (!texts.is_empty()).then(|| texts.join("\n\n"));
        Ok(agent)
    }

    fn set_working_folder(&self, task: &TaskId, folder: &std::path::Path) {
        self.command_runtime.folders.set_start(task, folder.to_owned());
    }
}

/// A context for one reading of the configuration.
pub(crate) fn context(home: &Home, settings: &GatewaySettings) -> ProgramContext {
    ProgramContext { home: home.clone(), env: settings.env.clone() }
}
