//! Agents for the gateway: one per description and configuration snapshot, all with the runtime of the process.
//!
//! The `terminal` and `approvals` sections are read when the process starts; everything else follows the files.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::Agent;
use hermes_config::Home;
use hermes_gateway::{AgentProvider, AgentRequest, GatewaySettings, LiveSettings};
use hermes_types::TaskId;

use super::agent_factory::{AgentFactory, BuiltAgent};
use super::agent_spec::AgentSpec;
use super::program_runtime::ProgramConfig;
use crate::context::{ProgramContext, local_time};

/// Builds agents on request, and keeps them while nothing changes.
pub(crate) struct LiveAgents {
    live: LiveSettings,
    factory: AgentFactory,
    cache: Mutex<Vec<CachedAgent>>,
}

struct CachedAgent {
    spec: AgentSpec,
    /// The configuration snapshot the agent was built from.
    settings: Arc<GatewaySettings>,
    /// The day of the spending limit; spending is counted per day.
    day: u32,
    built: Arc<BuiltAgent>,
}

impl LiveAgents {
    /// Creates a source without agents.
    pub(crate) fn new(live: LiveSettings, factory: AgentFactory) -> Self {
        Self { live, factory, cache: Mutex::default() }
    }

    fn built(&self, request: &AgentRequest<'_>) -> Result<Arc<BuiltAgent>, String> {
        let settings = self.live.current();
        let day = local_time(self.factory.runtime.clock.now()).day;
        let spec = AgentSpec::from_request(request);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // Agents of older snapshots are not needed any more.
        cache.retain(|known| Arc::ptr_eq(&known.settings, &settings) && known.day == day);
        if let Some(known) = cache.iter().find(|known| known.spec == spec) {
            return Ok(known.built.clone());
        }
        let context = context(self.live.home(), &settings);
        let from = ProgramConfig { context: &context, config: &settings.config };
        let built = self.factory.build(&spec, from).map_err(|error| format!("{error:#}"))?;
        let built = Arc::new(built);
        cache.push(CachedAgent { spec, settings, day, built: built.clone() });
        Ok(built)
    }
}

impl AgentProvider for LiveAgents {
    fn agent(&self, request: &AgentRequest<'_>) -> Result<Agent, String> {
        let built = self.built(request)?;
        let agent = built.models.renew_budget(built.agent.clone());
        Ok(match &request.context {
            Some(text) => agent.into_builder().system_text(text).build(),
            None => agent,
        })
    }

    fn set_working_folder(&self, task: &TaskId, folder: &Path) {
        self.factory.runtime.command_runtime.folders.set_start(task, folder.to_owned());
    }
}

/// Builds a context for one configuration snapshot.
pub(crate) fn context(home: &Home, settings: &GatewaySettings) -> ProgramContext {
    ProgramContext { home: home.clone(), env: settings.env.clone() }
}
