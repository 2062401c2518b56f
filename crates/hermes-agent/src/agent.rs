//! What an agent is made of: ports, limits and habits. It holds no conversation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_store::Store;
use hermes_types::{
    CivilTime, Clock, Completion, Deadline, ExternalMemory, HolderId, Message, Model, ModelError,
    ModelRequest, ReasoningEffort, SideModel, SpendingCap, Timestamp, Tool, ToolSpec, TurnHooks,
};

use crate::log::DeferredSessionLogs;
use crate::prompt::PromptSource;

/// Turns a point in time into a date where the user is.
pub type Calendar = Arc<dyn Fn(Timestamp) -> CivilTime + Send + Sync>;

/// Runs turns. One serves any number of conversations.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Agent {
    pub model: Arc<dyn Model>,
    pub model_name: String,
    /// Where the model is reached, for the session log.
    pub base_url: String,
    pub tools: Vec<Arc<dyn Tool>>,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub calendar: Calendar,
    /// This process, in leases.
    pub holder: HolderId,
    /// The scheduled job it works for, in the ledger.
    pub job: Option<String>,
    pub limits: TurnLimits,
    pub prompt: PromptSource,
    pub request_options: RequestOptions,
    pub compression: Compression,
    pub review_intervals: ReviewIntervals,
    /// Who summarises and names; the model itself when absent.
    pub side_model: Option<SideModel>,
    /// Who answers subagents; the model itself when absent.
    pub subagent_model: Option<SideModel>,
    pub external_memory: Option<Arc<dyn ExternalMemory>>,
    pub hooks: Option<Arc<dyn TurnHooks>>,
    pub folders: AgentFolders,
}

/// How far a turn may go.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits {
    /// Calls to the model.
    pub iterations: u32,
    pub time: Duration,
    pub cap: SpendingCap,
    pub unknown_price: UnknownPricePolicy,
}

/// What is done about a model whose price nobody knows, where there is a limit in dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownPricePolicy {
    /// There is no such limit.
    #[default]
    Ignore,
    /// The user is told, once in a conversation.
    Warn,
    /// The turn ends.
    Refuse,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            iterations: 60,
            time: Duration::from_hours(1),
            cap: SpendingCap::default(),
            unknown_price: UnknownPricePolicy::Ignore,
        }
    }
}

/// What every request of this agent carries, none of it stored.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    pub max_tokens: Option<u64>,
    pub effort: Option<ReasoningEffort>,
    /// Added to the system text of each call.
    pub ephemeral: Option<String>,
    /// Said before the conversation begins.
    pub prefill: Vec<Message>,
}

/// When and how a long conversation is shortened.
#[derive(Debug, Clone, Copy)]
pub struct Compression {
    pub mode: CompressionMode,
    /// The part of the window that may fill up.
    pub threshold: f64,
    /// The part of the threshold that is kept word for word.
    pub target_ratio: f64,
    pub protect_first: usize,
    pub protect_last: usize,
}

/// Whether conversations are shortened at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionMode {
    On,
    Off,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            mode: CompressionMode::On,
            threshold: 0.85,
            target_ratio: 0.20,
            protect_first: 3,
            protect_last: 20,
        }
    }
}

/// When the agent looks back at what it learnt. Zero is never.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReviewIntervals {
    /// User turns without a note between two looks.
    pub memory_every: usize,
    /// Steps without a skill between two looks.
    pub skills_every: usize,
    /// User turns a conversation must have had to be looked at when it ends.
    pub flush_after: usize,
}

/// Where files beside the database go; absent is nowhere.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "logs may hold agents")]
pub struct AgentFolders {
    /// Whole results whose short form is in the conversation.
    pub results: Option<PathBuf>,
    pub logs: SessionLogMode,
}

/// Session logs for other programs.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it may hold agents, and they hold ports")]
pub enum SessionLogMode {
    #[default]
    None,
    /// At the end of each turn.
    Immediate(PathBuf),
    /// Beside the turns, by whoever holds the other end.
    Deferred(Arc<DeferredSessionLogs>),
}

impl Agent {
    /// An agent with the usual habits and no tools.
    pub fn new(
        model: Arc<dyn Model>,
        model_name: impl Into<String>,
        store: Store,
        clock: Arc<dyn Clock>,
        prompt: PromptSource,
    ) -> Self {
        Self {
            model,
            model_name: model_name.into(),
            base_url: String::new(),
            tools: Vec::new(),
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
            side_model: None,
            subagent_model: None,
            external_memory: None,
            hooks: None,
            folders: AgentFolders::default(),
        }
    }

    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec().clone()).collect()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    /// Who answers side questions.
    pub(crate) fn side_model(&self) -> SideModel {
        self.side_model.clone().unwrap_or_else(|| SideModel {
            model: self.model.clone(),
            name: self.model_name.clone(),
            timeout: Duration::from_mins(2),
        })
    }

    /// Asks the side model, and the main one where that fails: the stale key of the one must not cost what the other could do.
    pub(crate) async fn ask_side_model(&self, mut request: ModelRequest) -> Result<Completion, ModelError> {
        let SideModel { model, name, timeout: patience } = self.side_model();
        request.model = name;
        let answer = model.complete(&request, &mut |_| ()).await;
        let Err(error) = answer else { return answer };
        let is_final = matches!(error, ModelError::Cancelled | ModelError::Budget(_));
        if is_final || self.side_model.is_none() {
            return Err(error);
        }
        tracing::warn!(%error, model = request.model, "a side model failed; the main model takes its place");
        request.model.clone_from(&self.model_name);
        request.deadline = Deadline::after(&*self.clock, patience);
        self.model.complete(&request, &mut |_| ()).await
    }

    pub(crate) fn today(&self) -> CivilTime {
        (self.calendar)(self.clock.now())
    }
}
