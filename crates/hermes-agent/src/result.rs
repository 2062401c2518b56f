//! The result of a turn, for its caller.

use hermes_types::{Cost, CostStatus, ModelError, SessionId, TurnId, TurnState, Usage};
use serde_json::{Map, Value, json};

use crate::agent::Agent;

/// The result of a turn.
#[derive(Debug, Clone)]
pub struct TurnResult {
    /// The text for the user. Absent when there is only an error.
    pub response: Option<String>,
    pub state: TurnState,
    /// The conversation's current session; a different one after a compression.
    pub session: SessionId,
    pub turn: TurnId,
    /// A description of why the turn did not end normally.
    pub error: Option<String>,
    /// The model error that ended the turn.
    pub failure: Option<ModelError>,
    /// Set when the turn stopped early with a partial answer.
    pub partial: bool,
    /// Set when the answer was already shown with an earlier tool call.
    pub previewed: bool,
    pub last_reasoning: Option<String>,
    pub api_calls: u32,
    pub max_iterations: u32,
    /// The tokens used by this turn.
    pub usage: Usage,
    pub cost: Cost,
    /// The prompt tokens of the last request, as the provider counted them.
    pub last_prompt_tokens: u64,
    pub model: String,
    pub provider: String,
}

/// What a caller shows in the place of an answer when there is none and no reason is known.
pub const NO_RESPONSE: &str = "(No response generated)";

/// How a turn ended, as its caller tells it. Texts are never blank.
#[derive(Debug, Clone, Copy)]
pub enum TurnEnding<'a> {
    Answered(&'a str),
    /// The turn ended early, at a limit, with a part of the answer.
    CutShort(&'a str),
    /// The turn ended with neither text nor a failure.
    Silent {
        reason: Option<&'a str>,
    },
    /// The user interrupted the turn.
    Interrupted {
        text: Option<&'a str>,
    },
    /// The turn failed, perhaps after some text.
    Failed {
        text: Option<&'a str>,
        reason: Option<&'a str>,
        failure: Option<&'a ModelError>,
    },
}

impl TurnResult {
    /// Classifies how the turn ended.
    pub fn ending(&self) -> TurnEnding<'_> {
        let text = self.response.as_deref().filter(|text| !text.trim().is_empty());
        let reason = self.error.as_deref();
        if self.interrupted() {
            return TurnEnding::Interrupted { text };
        }
        if self.failed() || self.failure.is_some() {
            return TurnEnding::Failed { text, reason, failure: self.failure.as_ref() };
        }
        match text {
            Some(text) if self.partial => TurnEnding::CutShort(text),
            Some(text) => TurnEnding::Answered(text),
            None => TurnEnding::Silent { reason },
        }
    }

    /// Returns the result of a turn that has just begun.
    pub(crate) fn begin(agent: &Agent, turn: TurnId, session: SessionId) -> Self {
        Self {
            response: None,
            state: TurnState::Running,
            session,
            turn,
            error: None,
            failure: None,
            partial: false,
            previewed: false,
            last_reasoning: None,
            api_calls: 0,
            max_iterations: agent.limits.iterations,
            usage: Usage::default(),
            cost: Cost { micro_usd: Some(0), status: CostStatus::Estimated },
            last_prompt_tokens: 0,
            model: agent.models.name.clone(),
            provider: agent.models.provider.clone(),
        }
    }

    /// Ends the turn with its answer.
    pub(crate) fn finish(&mut self, text: String) {
        self.response = Some(text);
        self.state = TurnState::Done;
    }

    /// Ends the turn with an error.
    pub(crate) fn fail(&mut self, words: String) {
        self.error = Some(words);
        self.state = TurnState::Failed;
    }

    /// Ends the turn early with what there is.
    pub(crate) fn stop_early(&mut self, response: Option<String>, error: &str) {
        self.response = response;
        self.error = Some(error.to_owned());
        self.partial = true;
        self.state = TurnState::Done;
    }

    /// Ends the turn as interrupted by the user.
    pub(crate) fn mark_interrupted(&mut self, words: String) {
        self.response = Some(words);
        self.failure = Some(ModelError::Cancelled);
        self.state = TurnState::Interrupted;
    }

    /// Tells whether there is an answer and no limit ended the turn.
    pub fn completed(&self) -> bool {
        self.state == TurnState::Done
            && !self.partial
            && self.response.is_some()
            && self.api_calls < self.max_iterations
    }

    pub fn interrupted(&self) -> bool {
        self.state == TurnState::Interrupted
    }

    pub fn failed(&self) -> bool {
        self.state == TurnState::Failed
    }

    /// Returns the JSON object that library callers and other programs expect. Its token counts are the
    /// session's, which the caller passes in.
    pub fn to_json(&self, messages: &[hermes_types::Message], session_usage: Usage) -> Map<String, Value> {
        #[expect(clippy::cast_precision_loss, reason = "millionths of a dollar stay far below 2^52")]
        let dollars = self.cost.micro_usd.map(|micro| micro as f64 / 1e6);
        let mut map = Map::new();
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        set("final_response", json!(self.response));
        set("messages", json!(messages));
        set("api_calls", json!(self.api_calls));
        set("completed", json!(self.completed()));
        set("last_reasoning", json!(self.last_reasoning));
        set("partial", json!(self.partial));
        set("interrupted", json!(self.interrupted()));
        set("response_previewed", json!(self.previewed));
        set("model", json!(self.model));
        set("provider", json!(self.provider));
        set("input_tokens", json!(session_usage.input));
        set("output_tokens", json!(session_usage.output));
        set("cache_read_tokens", json!(session_usage.cache_read));
        set("cache_write_tokens", json!(session_usage.cache_write));
        set("reasoning_tokens", json!(session_usage.reasoning));
        set("prompt_tokens", json!(session_usage.prompt()));
        set("completion_tokens", json!(session_usage.output));
        set("total_tokens", json!(session_usage.total()));
        set("last_prompt_tokens", json!(self.last_prompt_tokens));
        set("estimated_cost_usd", json!(dollars));
        set("cost_status", json!(self.cost.status.as_str()));
        set("session_id", json!(self.session.as_str()));
        if let Some(error) = &self.error {
            set("error", json!(error));
        }
        if self.failed() {
            set("failed", json!(true));
        }
        map
    }
}
