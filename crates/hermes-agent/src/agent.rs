//! The agent's parts: its ports, limits and settings. It holds no conversation.

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

/// Converts a point in time to the date and time in the user's time zone.
pub type Calendar = Arc<dyn Fn(Timestamp) -> CivilTime + Send + Sync>;

/// Runs turns. One agent serves any number of conversations.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Agent {
    pub model: Arc<dyn Model>,
    pub model_name: String,
    /// The base URL of the model's endpoint, for the session log.
    pub base_url: String,
    pub tools: Vec<Arc<dyn Tool>>,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub calendar: Calendar,
    /// The id under which this process holds leases.
    pub holder: HolderId,
    /// The scheduled job the agent works for, recorded in the ledger.
    pub job: Option<String>,
    pub limits: TurnLimits,
    pub prompt: PromptSource,
    pub request_options: RequestOptions,
    pub compression: Compression,
    pub review_intervals: ReviewIntervals,
    /// The model that writes summaries and titles; the main model when absent.
    pub side_model: Option<SideModel>,
    /// The model that answers subagents; the main model when absent.
    pub subagent_model: Option<SideModel>,
    pub external_memory: Option<Arc<dyn ExternalMemory>>,
    pub hooks: Option<Arc<dyn TurnHooks>>,
    pub folders: AgentFolders,
}

/// Limits one turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits {
    /// The most model calls of one turn.
    pub iterations: u32,
    pub time: Duration,
    pub cap: SpendingCap,
    pub unknown_price: UnknownPricePolicy,
}

/// Says what happens when there is a limit in dollars and the model's price is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownPricePolicy {
    /// Does nothing; used where no limit in dollars is set.
    #[default]
    Ignore,
    /// Warns the user once per conversation.
    Warn,
    /// Ends the turn.
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

/// The options every request of this agent carries; none of them is stored.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    pub max_tokens: Option<u64>,
    pub effort: Option<ReasoningEffort>,
    /// A text added to the system text of each call.
    pub ephemeral: Option<String>,
    /// Messages sent before the conversation's own.
    pub prefill: Vec<Message>,
}

/// Settings for shortening a long conversation.
#[derive(Debug, Clone, Copy)]
pub struct Compression {
    pub mode: CompressionMode,
    /// The share of the context window at which compression starts.
    pub threshold: f64,
    /// The share of the threshold that is kept word for word.
    pub target_ratio: f64,
    pub protect_first: usize,
    pub protect_last: usize,
}

/// Turns compression on or off.
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

/// The intervals at which the agent reviews what it learned. Zero means never.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReviewIntervals {
    /// User turns without a memory entry between two reviews.
    pub memory_every: usize,
    /// Model calls without a skill change between two reviews.
    pub skills_every: usize,
    /// User turns a conversation needs to be reviewed when it ends.
    pub flush_after: usize,
}

/// The folders for files outside the database; without one, no such files are written.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "logs may hold agents")]
pub struct AgentFolders {
    /// The folder for full results whose short form is in the conversation.
    pub results: Option<PathBuf>,
    pub logs: SessionLogMode,
}

/// Says when session logs for other programs are written.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it may hold agents, and they hold ports")]
pub enum SessionLogMode {
    #[default]
    None,
    /// Writes the log at the end of each turn.
    Immediate(PathBuf),
    /// Records the changed session; the owner of [`DeferredSessionLogs`] writes the log later.
    Deferred(Arc<DeferredSessionLogs>),
}

impl Agent {
    /// Creates an agent with default settings and no tools.
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

    /// Returns the model for side tasks.
    pub(crate) fn side_model(&self) -> SideModel {
        self.side_model.clone().unwrap_or_else(|| SideModel {
            model: self.model.clone(),
            name: self.model_name.clone(),
            timeout: Duration::from_mins(2),
        })
    }

    /// Asks the side model, and the main one if that fails: a stale key for the side model must not stop what the
    /// main model can do.
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
