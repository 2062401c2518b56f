//! The agent: its ports and settings. It holds no conversation.
//!
//! Invariant: an agent does not change. Another model, another limit or a further tool is another agent, made from
//! this one by [`Agent::into_builder`].

use std::sync::Arc;
use std::time::Duration;

use hermes_store::Store;
use hermes_types::{
    CivilTime, Clock, Completion, Deadline, ExternalMemory, HolderId, MemoryPlace, Model, ModelError,
    ModelRequest, SessionId, SideModel, Timestamp, Tool, ToolSpec, TurnHooks,
};

use crate::builder::AgentBuilder;
use crate::prompt::PromptSource;
use crate::settings::{AgentFolders, Compression, RequestOptions, ReviewIntervals, TurnLimits};

/// Converts a point in time to the date and time in the user's time zone.
pub type Calendar = Arc<dyn Fn(Timestamp) -> CivilTime + Send + Sync>;

/// Runs turns. One agent serves any number of conversations.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Agent {
    pub(crate) models: AgentModels,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// The descriptions of the tools, as requests hold them.
    pub(crate) specs: Arc<[ToolSpec]>,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) calendar: Calendar,
    /// The id under which this process holds leases.
    pub(crate) holder: HolderId,
    /// The scheduled job the agent works for, recorded in the ledger.
    pub(crate) job: Option<String>,
    pub(crate) limits: TurnLimits,
    pub(crate) prompt: PromptSource,
    pub(crate) request_options: RequestOptions,
    pub(crate) compression: Compression,
    pub(crate) review_intervals: ReviewIntervals,
    pub(crate) external_memory: Option<Arc<dyn ExternalMemory>>,
    pub(crate) hooks: Option<Arc<dyn TurnHooks>>,
    /// Who speaks, on a platform with many users.
    pub(crate) speaker: Option<String>,
    pub(crate) folders: AgentFolders,
}

/// The models of an agent.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct AgentModels {
    pub main: Arc<dyn Model>,
    /// The name of the main model.
    pub name: String,
    pub provider: String,
    /// The base URL of the main model's endpoint.
    pub base_url: String,
    pub identity: ModelIdentityLine,
    /// The model that writes summaries and titles; the main model when absent.
    pub side: Option<SideModel>,
    /// The model that answers subagents; the main model when absent.
    pub subagents: Option<SideModel>,
    /// The main model with the budget of a review, which a turn cannot use up; absent where there is one budget.
    pub reviews: Option<Arc<dyn Model>>,
}

/// Says whether the prompt tells the model to answer with its name when asked who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelIdentityLine {
    #[default]
    Omit,
    /// For providers whose models give another name.
    Include,
}

impl AgentModels {
    /// Returns one model for everything.
    pub fn new(main: Arc<dyn Model>, name: impl Into<String>) -> Self {
        Self {
            main,
            name: name.into(),
            provider: String::new(),
            base_url: String::new(),
            identity: ModelIdentityLine::Omit,
            side: None,
            subagents: None,
            reviews: None,
        }
    }

    /// Returns the context window of the main model, as far as it is known without a request.
    pub fn window(&self) -> u64 {
        self.main.context_window(&self.name)
    }

    /// Returns the model for side tasks.
    pub(crate) fn side(&self) -> SideModel {
        self.side.clone().unwrap_or_else(|| SideModel {
            model: self.main.clone(),
            name: self.name.clone(),
            timeout: Duration::from_mins(2),
        })
    }

    /// Asks the side model, and the main one if that fails: a stale key for the side model must not stop what the
    /// main model can do.
    pub(crate) async fn ask_side(
        &self,
        clock: &dyn Clock,
        mut request: ModelRequest,
    ) -> Result<Completion, ModelError> {
        let SideModel { model, name, timeout: patience } = self.side();
        request.model = name;
        let answer = model.complete(&request, &mut |_| ()).await;
        let Err(error) = answer else { return answer };
        let is_final = matches!(error, ModelError::Cancelled | ModelError::Budget(_));
        if is_final || self.side.is_none() {
            return Err(error);
        }
        tracing::warn!(%error, model = request.model, "a side model failed; the main model takes its place");
        request.model.clone_from(&self.name);
        request.deadline = Deadline::after(clock, patience);
        self.main.complete(&request, &mut |_| ()).await
    }
}

impl Agent {
    /// Begins an agent with default settings and no tools.
    pub fn builder(
        models: AgentModels,
        store: Store,
        clock: Arc<dyn Clock>,
        prompt: PromptSource,
    ) -> AgentBuilder {
        AgentBuilder::new(models, store, clock, prompt)
    }

    /// Begins another agent that differs from this one in what is set next.
    pub fn into_builder(self) -> AgentBuilder {
        AgentBuilder::from_agent(self)
    }

    pub fn models(&self) -> &AgentModels {
        &self.models
    }

    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn request_options(&self) -> &RequestOptions {
        &self.request_options
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    pub(crate) fn today(&self) -> CivilTime {
        (self.calendar)(self.clock.now())
    }
}

/// Describes where something is said, for a memory.
pub(crate) fn memory_place<'a>(agent: &'a Agent, session: &'a SessionId) -> MemoryPlace<'a> {
    MemoryPlace { session, folder: &agent.prompt.folder }
}

/// Returns the descriptions of tools, as requests hold them.
pub(crate) fn tool_specs(tools: &[Arc<dyn Tool>]) -> Arc<[ToolSpec]> {
    tools.iter().map(|tool| tool.spec().clone()).collect()
}
