//! A running turn: its state, and the loop that calls the model and runs tools until there is an answer or a
//! reason to stop.

use std::collections::BTreeMap;

use hermes_store::{Error as StoreError, NewMessage, PendingResult};
use hermes_types::{
    Cancel, Cost, CostStatus, Deadline, Frontend, Message, MessageContent, ModelError, Role, ToolSpec,
    TurnEvent, TurnId, TurnState, Usage,
};

use super::long_results::{ResultBounds, ResultStore};
use super::model_call::CallUsage;
use super::reply::final_text;
use crate::agent::Agent;
use crate::compress::is_summary;
use crate::conversation::Conversation;
use crate::lease::LeasedSession;
use crate::result::TurnResult;
use crate::settings::UnknownPricePolicy;

const SUM_UP: &str = include_str!("../texts/sum_up.md").trim_ascii();

/// The user's input as the model should read it.
pub(super) struct ModelInput {
    pub(super) content: MessageContent,
    /// Set when the content differs from what is stored and replaces it in this turn's requests.
    pub(super) differs_from_stored: bool,
}

/// The state of a running turn.
pub(crate) struct RunningTurn<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) turn: TurnId,
    /// The turn a person started: this one, or the one it is a part of.
    pub(crate) root: TurnId,
    pub(crate) deadline: Deadline,
    pub(crate) cancel: &'a Cancel,
    pub(crate) frontend: &'a dyn Frontend,
    pub(crate) bounds: ResultBounds,
    pub(crate) result_store: ResultStore,
    pub(crate) result: TurnResult,
    pub(crate) specs: Vec<ToolSpec>,
    /// The session this turn holds the lease of.
    pub(crate) leased_session: LeasedSession,
    /// The index of this turn's first message.
    pub(super) first: usize,
    pub(super) input: ModelInput,
    /// A text added to the system text for this turn.
    pub(super) turn_context: Option<String>,
    pub(super) notices: BTreeMap<usize, String>,
    pub(super) recall: Option<(usize, String)>,
    pub(super) counters: TurnCounters,
    /// The output limit of the next request, where a higher one than usual is tried.
    pub(super) raised_output_limit: Option<u64>,
    /// The text so far of the answer that is streaming.
    pub(super) partial_text: String,
    /// The parts of an answer that came in several pieces.
    pub(super) answer_parts: Vec<String>,
    /// The size of a request the provider rejected as too large in this turn.
    pub(super) rejected_size: Option<u64>,
    /// The units left of the iteration budget.
    pub(super) budget: u32,
    /// Charges that are queued for the database; the turn waits for them before its next step.
    pub(super) pending_charges: Vec<PendingResult<()>>,
}

#[derive(Default)]
pub(super) struct TurnCounters {
    pub(super) unknown_names: u32,
    pub(super) broken_arguments: u32,
    pub(super) empty: u32,
    pub(super) open_scratchpads: u32,
    pub(super) unfinished: u32,
    pub(super) continuations: u32,
    pub(super) announcements: u32,
    pub(super) longer_attempts: u32,
    pub(super) compressions: u32,
}

/// Says whether the loop continues.
pub(super) enum LoopControl {
    Continue,
    Finish,
}

impl<'a> RunningTurn<'a> {
    pub(super) fn new(
        agent: &'a Agent,
        conversation: &'a mut Conversation,
        turn: TurnId,
        input: ModelInput,
        frontend: &'a dyn Frontend,
        cancel: &'a Cancel,
    ) -> Self {
        let deadline = Deadline::after(&*agent.clock, agent.limits.time);
        let window = conversation.window.unwrap_or_else(|| agent.models.window());
        let first = conversation
            .messages
            .iter()
            .rposition(|message| message.role == Role::User)
            .unwrap_or(conversation.messages.len());
        Self {
            result: TurnResult {
                response: None,
                state: TurnState::Running,
                session: conversation.session.clone(),
                turn: turn.clone(),
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
            },
            bounds: ResultBounds::for_window(window),
            result_store: ResultStore::new(agent.folders.results.clone()),
            specs: agent.tools.iter().map(|tool| tool.spec().clone()).collect(),
            budget: agent.limits.iterations,
            pending_charges: Vec::new(),
            turn_context: None,
            notices: BTreeMap::new(),
            recall: None,
            counters: TurnCounters::default(),
            raised_output_limit: None,
            rejected_size: None,
            partial_text: String::new(),
            answer_parts: Vec::new(),
            leased_session: LeasedSession::new(conversation.session.clone()),
            agent,
            root: conversation.root.clone().unwrap_or_else(|| turn.clone()),
            conversation,
            turn,
            deadline,
            cancel,
            frontend,
            first,
            input,
        }
    }

    pub(super) async fn run_loop(&mut self) -> Result<(), StoreError> {
        if let Some(answer) = self.stored_answer() {
            self.finish(answer);
            return Ok(());
        }
        self.prepare().await;
        if let LoopControl::Finish = self.run_waiting_calls().await? {
            return Ok(());
        }
        self.compress_if_full().await?;
        let mut previous_tools = Vec::new();
        while self.result.api_calls < self.agent.limits.iterations && self.budget > 0 {
            if self.cancel.is_cancelled() {
                self.mark_interrupted("Operation interrupted.".to_owned());
                return Ok(());
            }
            self.wait_for_charges().await?;
            self.result.api_calls += 1;
            self.budget -= 1;
            self.frontend.show(TurnEvent::Step {
                iteration: self.result.api_calls,
                previous_tools: std::mem::take(&mut previous_tools),
            });
            let completion = match self.ask_model(self.specs.clone()).await {
                Ok(completion) => completion,
                Err(error) => match self.handle_error(error).await? {
                    LoopControl::Continue => continue,
                    LoopControl::Finish => return Ok(()),
                },
            };
            self.count_usage(CallUsage::from(&completion));
            let before = self.conversation.messages.len();
            if let LoopControl::Finish = self.handle_answer(completion).await? {
                self.check_unknown_price();
                return Ok(());
            }
            if self.is_over_budget() {
                return Ok(());
            }
            previous_tools = self
                .conversation
                .messages
                .iter()
                .skip(before)
                .flat_map(|message| message.tool_calls.iter().map(|call| call.name.clone()))
                .collect();
        }
        self.summarize_at_limit().await
    }

    /// Warns about an unknown price after an answer. `Refuse` does not apply here: an answer that exists is
    /// delivered, and only a further call is refused.
    fn check_unknown_price(&mut self) {
        if self.agent.limits.unknown_price == UnknownPricePolicy::Warn {
            self.is_over_budget();
        }
    }

    /// Returns the answer of a turn that was cut off after its answer was stored; the model need not be asked
    /// again.
    fn stored_answer(&self) -> Option<String> {
        let since = self.conversation.messages.get(self.first..)?;
        final_text(since.last()?)
    }

    /// Collects what the external memory and the hooks add to this turn.
    pub(super) async fn prepare(&mut self) {
        let at = self.first;
        if let Some(memory) = &self.agent.external_memory {
            self.recall = memory.recall(&self.input.content.text()).await.map(|text| (at, text));
        }
        if let Some(hooks) = &self.agent.hooks {
            self.turn_context =
                hooks.before_turn(&self.conversation.session, &self.input.content.text()).await;
        }
    }

    /// Makes one last call without tools, for a summary, when the limit is reached.
    pub(super) async fn summarize_at_limit(&mut self) -> Result<(), StoreError> {
        self.persist(Message::user(SUM_UP)).await?;
        let most = self.agent.limits.iterations;
        for _ in 0..2 {
            let completion = match self.ask_model(Vec::new()).await {
                Ok(completion) => completion,
                Err(ModelError::Cancelled) => return Ok(()),
                Err(error) => {
                    let words = format!(
                        "I reached the maximum iterations ({most}) but couldn't summarize. Error: {error}"
                    );
                    self.persist(Message::assistant(words.clone())).await?;
                    self.finish(words);
                    return Ok(());
                }
            };
            self.count_usage(CallUsage::from(&completion));
            let mut message = completion.message;
            message.tool_calls.clear();
            let text = hermes_text::strip_think(&message.content.text()).trim().to_owned();
            if !text.is_empty() {
                self.persist(message).await?;
                self.finish(text);
                return Ok(());
            }
        }
        let words = "I reached the iteration limit and couldn't generate a summary.".to_owned();
        self.persist(Message::assistant(words.clone())).await?;
        self.finish(words);
        Ok(())
    }

    pub(super) fn finish(&mut self, text: String) {
        self.result.response = Some(text);
        self.result.state = TurnState::Done;
    }

    pub(super) fn fail(&mut self, words: String) {
        self.result.error = Some(words);
        self.result.state = TurnState::Failed;
    }

    /// Ends the turn early with what there is.
    pub(super) fn stop_early(&mut self, response: Option<String>, error: &str) {
        self.result.response = response;
        self.result.error = Some(error.to_owned());
        self.result.partial = true;
        self.result.state = TurnState::Done;
    }

    pub(super) fn mark_interrupted(&mut self, words: String) {
        self.result.response = Some(words);
        self.result.failure = Some(ModelError::Cancelled);
        self.result.state = TurnState::Interrupted;
    }

    /// Stores a message, then adds it to the conversation.
    pub(crate) async fn persist(&mut self, message: Message) -> Result<(), StoreError> {
        self.persist_all(vec![message]).await
    }

    pub(crate) async fn persist_all(&mut self, messages: Vec<Message>) -> Result<(), StoreError> {
        let now = self.agent.clock.now();
        let rows = messages.iter().map(|message| NewMessage::new(message.clone(), now)).collect();
        let kept = self.agent.store.append_all(&self.conversation.session, rows);
        self.wait_for_charges().await?;
        kept.await?;
        self.conversation.messages.extend(messages);
        Ok(())
    }

    /// Recomputes message indexes after a compression has moved them.
    pub(crate) fn reset_positions(&mut self) {
        let messages = &self.conversation.messages;
        let asked = messages.iter().rposition(|m| m.role == Role::User && m.content == self.input.content);
        let summary = || messages.iter().rposition(is_summary).map(|at| at + 1);
        self.first = asked.or_else(summary).unwrap_or(messages.len());
        self.input.differs_from_stored = false;
        self.notices.clear();
        self.recall = None;
    }
}
