//! Agents for the gateway: one per description and configuration snapshot, all with the runtime of the process.
//!
//! The `terminal` and `approvals` sections are read when the process starts; everything else follows the files.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::Agent;
use hermes_config::Home;
use hermes_gateway::{AgentProvider, AgentRequest, GatewaySettings, LiveSettings};
use hermes_types::{Secret, TaskId};

use super::agent_factory::{AgentFactory, BuiltAgent};
use super::agent_spec::AgentSpec;
use super::person;
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
    /// The state of the connections to MCP servers that the tools follow.
    mcp_revision: u64,
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
        let context = context(self.live.home(), &settings);
        let from = ProgramConfig { context: &context, config: &settings.config };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mcp = &self.factory.runtime.mcp;
        let is_new = cache.iter().all(|known| !Arc::ptr_eq(&known.settings, &settings));
        if is_new && settings.config.flag("mcp.auto_reload_on_config_change") {
            mcp.follow(from);
        }
        let mcp_revision = mcp.revision();
        // Agents of older snapshots are not needed any more.
        cache.retain(|known| {
            Arc::ptr_eq(&known.settings, &settings) && known.day == day && known.mcp_revision == mcp_revision
        });
        if let Some(known) = cache.iter().find(|known| known.spec == spec) {
            return Ok(known.built.clone());
        }
        let built = self.factory.build(&spec, from).map_err(|error| format!("{error:#}"))?;
        let built = Arc::new(built);
        cache.push(CachedAgent { spec, settings, day, mcp_revision, built: built.clone() });
        Ok(built)
    }
}

impl AgentProvider for LiveAgents {
    fn agent(&self, request: &AgentRequest<'_>) -> Result<Agent, String> {
        let built = self.built(request)?;
        let mut agent = built.models.renew_budget(built.agent.clone());
        if let Some(account) = request.account {
            let settings = self.live.current();
            let context = context(self.live.home(), &settings);
            let from = ProgramConfig { context: &context, config: &settings.config };
            agent = person::for_account(agent, account, &self.factory.runtime, from);
        }
        Ok(match &request.context {
            Some(text) => agent.into_builder().system_text(text).build(),
            None => agent,
        })
    }

    fn set_working_folder(&self, task: &TaskId, folder: &Path) {
        self.factory.runtime.command_runtime.folders.set_start(task, folder.to_owned());
    }

    fn pass_variables(&self, task: &TaskId, variables: Vec<(&'static str, String)>) {
        let passed = self.factory.runtime.command_runtime.shells.variables();
        for (name, value) in variables {
            passed.pass(task, name, Secret::new(value));
        }
    }
}

/// Builds a context for one configuration snapshot.
pub(crate) fn context(home: &Home, settings: &GatewaySettings) -> ProgramContext {
    ProgramContext { home: home.clone(), env: settings.env.clone() }
}
