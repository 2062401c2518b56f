//! Builds agents from a configuration: their models, tools, prompt and settings.

use std::sync::Arc;

use anyhow::Result;
use hermes_agent::{Agent, AgentFolders, ContextFiles, SessionLogMode};
use hermes_config::user_home;
use hermes_tools::{CheckpointManager, ToolRegistry};
use hermes_types::{ExternalMemory, Tool, chat_platforms};

use super::agent_spec::AgentSpec;
use super::model::{ModelSet, choose_models};
use super::program_runtime::{ProgramConfig, ProgramRuntime};
use super::settings::{self, MemoryStores};
use super::tools::{self, ToolParts};
use super::{person, prompt, working_folder};
use crate::context::local_time;

/// Builds the agents of a process.
pub(crate) struct AgentFactory {
    pub(crate) runtime: ProgramRuntime,
    /// The destination of session logs.
    logs: SessionLogMode,
}

/// An agent, and what its frontend shows of it.
pub(crate) struct BuiltAgent {
    /// The agent with the budget of one turn.
    pub(crate) agent: Agent,
    pub(crate) models: ModelSet,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
    /// Every available tool, selected for this agent or not.
    pub(crate) all_tools: ToolRegistry,
    /// The requested toolsets that do not exist.
    pub(crate) unknown_toolsets: Vec<String>,
}

impl AgentFactory {
    pub(crate) fn new(runtime: ProgramRuntime, logs: SessionLogMode) -> Self {
        Self { runtime, logs }
    }

    /// Builds an agent. Makes no network request.
    pub(crate) fn build(&self, spec: &AgentSpec, from: ProgramConfig<'_>) -> Result<BuiltAgent> {
        self.build_with(self.models(spec, from)?, spec, from)
    }

    /// Chooses the models of an agent.
    pub(crate) fn models(&self, spec: &AgentSpec, from: ProgramConfig<'_>) -> Result<ModelSet> {
        let ProgramRuntime { surface, clock, store, .. } = &self.runtime;
        choose_models(&spec.provider_choice(), from, *surface, clock, store)
    }

    /// Returns the memory of past conversations of an agent that the owner talks to on this machine.
    fn recall(&self, spec: &AgentSpec, from: ProgramConfig<'_>) -> Option<Arc<dyn ExternalMemory>> {
        let is_own = spec.rules == ContextFiles::Load && person::is_own_source(&spec.platform);
        is_own.then(|| person::owner_memory(&self.runtime, from)).flatten()
    }

    /// Returns the tools of the memory service. An agent for chats gets those of each person later, in their place.
    fn service_tools(
        &self,
        spec: &AgentSpec,
        memory: Option<&Arc<dyn ExternalMemory>>,
        from: ProgramConfig<'_>,
    ) -> Vec<Arc<dyn Tool>> {
        match memory {
            Some(memory) => memory.tools(),
            None if spec.rules == ContextFiles::Load && is_chat_platform(&spec.platform) => {
                person::owner_memory(&self.runtime, from).map(|memory| memory.tools()).unwrap_or_default()
            }
            None => Vec::new(),
        }
    }

    /// Builds an agent whose models are chosen.
    pub(crate) fn build_with(
        &self,
        models: ModelSet,
        spec: &AgentSpec,
        from: ProgramConfig<'_>,
    ) -> Result<BuiltAgent> {
        let runtime = &self.runtime;
        let folder = working_folder(from.context, from.config)?;
        let of_turn = models.for_turn();
        let memory_stores = MemoryStores::open(spec.rules, from);
        let checkpoints = runtime.checkpoint_manager(from)?;
        let memory = self.recall(spec, from);
        let parts = ToolParts {
            folder: folder.clone(),
            user_home: user_home(&from.context.env)?,
            memory_stores: &memory_stores,
            service_tools: self.service_tools(spec, memory.as_ref(), from),
            checkpoints: checkpoints.clone(),
            side: of_turn.side.clone(),
            vision: models.vision(),
            mixture: models.mixture(),
        };
        let tools = tools::select_tools(runtime, spec, parts, from);
        let prompt = prompt::source(spec, folder, from, &memory_stores, &tools.registry);
        let logs = self.logs.clone();
        let agent = Agent::builder(of_turn, runtime.store.clone(), runtime.clock.clone(), prompt)
            .tools(tools.registry.tools().to_vec())
            .calendar(Arc::new(local_time))
            .limits(settings::limits(spec.max_turns, from, models.cap))
            .request_options(settings::request_options(runtime.surface, from))
            .compression(settings::compression(from))
            .review_intervals(settings::review_intervals(from.config))
            .hooks(Arc::new(runtime.extensions.hooks.clone()))
            .folders(AgentFolders { results: Some(from.context.home.join("results")), logs })
            .external_memory(memory)
            .build();
        let (all_tools, unknown_toolsets) = (tools.all, tools.unknown_toolsets);
        Ok(BuiltAgent { agent, models, checkpoints, all_tools, unknown_toolsets })
    }
}

/// Tells whether conversations of a platform are chats of accounts.
fn is_chat_platform(platform: &str) -> bool {
    chat_platforms().any(|known| known == platform)
}
