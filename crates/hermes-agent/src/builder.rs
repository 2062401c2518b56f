//! Builds agents.

use std::sync::Arc;

use hermes_knowledge::MemoryStore;
use hermes_store::Store;
use hermes_types::{CivilTime, Clock, ExternalMemory, HolderId, Tool, TurnHooks};

use crate::agent::{Agent, AgentModels, Calendar, tool_specs};
use crate::prompt::PromptSource;
use crate::settings::{AgentFolders, Compression, RequestOptions, ReviewIntervals, TurnLimits};

/// Builds an [`Agent`]. What is not set keeps its default, or the value of the agent the builder came from.
#[expect(missing_debug_implementations, reason = "it holds ports")]
#[must_use]
pub struct AgentBuilder {
    agent: Agent,
}

impl AgentBuilder {
    pub(crate) fn new(
        models: AgentModels,
        store: Store,
        clock: Arc<dyn Clock>,
        prompt: PromptSource,
    ) -> Self {
        Self::from_agent(Agent {
            models,
            tools: Vec::new(),
            specs: Arc::default(),
            store,
            clock,
            calendar: Arc::new(CivilTime::utc),
            holder: HolderId::generate(),
            job: None,
            limits: TurnLimits::default(),
            prompt,
            request_options: RequestOptions::default(),
            compression: Compression::default(),
            review_intervals: ReviewIntervals::default(),
            external_memory: None,
            hooks: None,
            speaker: None,
            folders: AgentFolders::default(),
        })
    }

    pub(crate) fn from_agent(agent: Agent) -> Self {
        Self { agent }
    }

    pub fn models(mut self, models: AgentModels) -> Self {
        self.agent.models = models;
        self
    }

    /// Replaces all tools.
    pub fn tools(mut self, tools: Vec<Arc<dyn Tool>>) -> Self {
        self.agent.specs = tool_specs(&tools);
        self.agent.tools = tools;
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        let mut tools = std::mem::take(&mut self.agent.tools);
        tools.push(tool);
        self.tools(tools)
    }

    pub fn calendar(mut self, calendar: Calendar) -> Self {
        self.agent.calendar = calendar;
        self
    }

    /// Sets whose profile is part of new prompts.
    pub fn user_profile(mut self, profile: Option<MemoryStore>) -> Self {
        self.agent.prompt.user_profile = profile;
        self
    }

    /// Sets the scheduled job the agent works for.
    pub fn job(mut self, job: impl Into<String>) -> Self {
        self.agent.job = Some(job.into());
        self
    }

    pub fn limits(mut self, limits: TurnLimits) -> Self {
        self.agent.limits = limits;
        self
    }

    pub fn request_options(mut self, options: RequestOptions) -> Self {
        self.agent.request_options = options;
        self
    }

    /// Adds a text to the system text of each call, after those that are there.
    pub fn system_text(mut self, text: &str) -> Self {
        let ephemeral = self.agent.request_options.ephemeral.take();
        let texts: Vec<&str> = ephemeral.as_deref().into_iter().chain([text]).collect();
        self.agent.request_options.ephemeral = Some(texts.join("\n\n"));
        self
    }

    pub fn compression(mut self, compression: Compression) -> Self {
        self.agent.compression = compression;
        self
    }

    pub fn review_intervals(mut self, intervals: ReviewIntervals) -> Self {
        self.agent.review_intervals = intervals;
        self
    }

    pub fn external_memory(mut self, memory: Option<Arc<dyn ExternalMemory>>) -> Self {
        self.agent.external_memory = memory;
        self
    }

    /// Sets who speaks, on a platform with many users.
    pub fn speaker(mut self, user_id: Option<String>) -> Self {
        self.agent.speaker = user_id;
        self
    }

    pub fn hooks(mut self, hooks: Arc<dyn TurnHooks>) -> Self {
        self.agent.hooks = Some(hooks);
        self
    }

    pub fn folders(mut self, folders: AgentFolders) -> Self {
        self.agent.folders = folders;
        self
    }

    pub fn build(self) -> Agent {
        self.agent
    }
}
