//! A running turn: its state, and the loop that calls the model and runs tools until there is an answer or a
//! reason to stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_store::Error as StoreError;
use hermes_text::head;
use hermes_types::{HookEvent, Message, MessageContent, ModelError, Role, TurnEvent, TurnNoticeKind};

use super::capacity::TurnCapacity;
use super::charges::CallUsage;
use super::long_results::ResultBounds;
use super::reply::final_text;
use super::request::without_marks;
use super::scope::TurnScope;
use super::transcript::TurnTranscript;
use crate::agent::memory_place;
use crate::compress::{CompressionPass, is_summary};
use crate::conversation::Conversation;
use crate::hooks;
use crate::result::TurnResult;
use crate::settings::{CompressionMode, UnknownPricePolicy};

/// The most compressions for one reason in one turn.
pub(super) const MAX_COMPRESSIONS: u32 = 3;
/// The share of the threshold from which the user is told that a compression is near.
const PRESSURE: f64 = 0.85;
/// The most characters that hooks may add to a turn.
const MAX_HOOK_CONTEXT: usize = 20_000;
/// The most characters that a memory may add to a turn.
const MAX_RECALL: usize = 6_000;
const SUM_UP: &str = include_str!("../texts/sum_up.md").trim_ascii();

/// The user's input as the model should read it.
pub(super) struct ModelInput {
    pub(super) content: MessageContent,
    /// Set when the content differs from what is stored and replaces it in this turn's requests.
    pub(super) differs_from_stored: bool,
}

/// The state of a running turn.
pub(super) struct RunningTurn<'a> {
    pub(super) scope: &'a TurnScope<'a>,
    pub(super) transcript: TurnTranscript<'a>,
    pub(super) capacity: TurnCapacity<'a>,
    pub(super) bounds: ResultBounds,
    pub(super) result: TurnResult,
    /// The index of this turn's first message.
    pub(super) first: usize,
    pub(super) input: ModelInput,
    /// The text that hooks added to the message at this index, for this turn.
    pub(super) hook_context: Option<(usize, String)>,
    pub(super) notices: BTreeMap<usize, String>,
    pub(super) recall: Option<(usize, String)>,
    pub(super) counters: TurnCounters,
    /// The output limit of the next request, where a higher one than usual is tried.
    pub(super) raised_output_limit: Option<u64>,
    /// The text so far of the answer that is streaming.
    pub(super) partial_text: String,
    /// The parts of an answer that came in several pieces.
    pub(super) answer_parts: Vec<String>,
    /// The units left of the iteration budget.
    pub(super) budget: u32,
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
        scope: &'a TurnScope<'a>,
        conversation: &'a mut Conversation,
        input: ModelInput,
    ) -> Self {
        let agent = scope.agent;
        let window = conversation.window.unwrap_or_else(|| agent.models.window());
        let first = conversation
            .messages
            .iter()
            .rposition(|message| message.role == Role::User)
            .unwrap_or(conversation.messages.len());
        Self {
            result: TurnResult::begin(agent, scope.turn.clone(), conversation.session.clone()),
            bounds: ResultBounds::for_window(window),
            capacity: TurnCapacity::new(scope),
            budget: agent.limits.iterations,
            hook_context: None,
            notices: BTreeMap::new(),
            recall: None,
            counters: TurnCounters::default(),
            raised_output_limit: None,
            partial_text: String::new(),
            answer_parts: Vec::new(),
            transcript: TurnTranscript::new(scope, conversation),
            scope,
            first,
            input,
        }
    }

    pub(super) async fn run_loop(&mut self) -> Result<(), StoreError> {
        if let Some(answer) = self.stored_answer() {
            self.result.finish(answer);
            return Ok(());
        }
        self.prepare().await;
        if let LoopControl::Finish = self.run_waiting_calls().await? {
            return Ok(());
        }
        self.compress_if_full().await?;
        let mut previous_tools = Vec::new();
        while self.result.api_calls < self.scope.agent.limits.iterations && self.budget > 0 {
            if self.scope.cancel.is_cancelled() {
                self.result.mark_interrupted("Operation interrupted.".to_owned());
                return Ok(());
            }
            self.transcript.charges.wait().await?;
            self.take_remarks().await?;
            self.result.api_calls += 1;
            self.budget -= 1;
            self.scope.frontend.show(TurnEvent::Step {
                iteration: self.result.api_calls,
                previous_tools: std::mem::take(&mut previous_tools),
            });
            let completion = match self.ask_model(self.capacity.specs()).await {
                Ok(completion) => completion,
                Err(error) => match self.handle_error(error).await? {
                    LoopControl::Continue => continue,
                    LoopControl::Finish => return Ok(()),
                },
            };
            self.count_usage(CallUsage::from(&completion));
            let before = self.transcript.conversation.messages.len();
            if let LoopControl::Finish = self.handle_answer(completion).await? {
                self.check_unknown_price();
                return Ok(());
            }
            if self.is_over_budget() {
                return Ok(());
            }
            previous_tools = self
                .transcript
                .conversation
                .messages
                .iter()
                .skip(before)
                .flat_map(|message| message.tool_calls.iter().map(|call| call.name.clone()))
                .collect();
        }
        self.summarize_at_limit().await
    }

    /// Adds what the user said to the running turn. Before the first request nothing is taken: the message that began
    /// the turn stands last.
    async fn take_remarks(&mut self) -> Result<(), StoreError> {
        let begins = self.transcript.conversation.messages.last().is_some_and(|last| last.role == Role::User);
        let remarks = if begins { Vec::new() } else { self.scope.frontend.take_remarks() };
        if remarks.is_empty() {
            Ok(())
        } else {
            self.transcript.persist(Message::user(remarks.join("\n"))).await
        }
    }

    /// Warns about an unknown price after an answer. `Refuse` does not apply here: an answer that exists is
    /// delivered, and only a further call is refused.
    fn check_unknown_price(&mut self) {
        if self.scope.agent.limits.unknown_price == UnknownPricePolicy::Warn {
            self.is_over_budget();
        }
    }

    /// Returns the answer of a turn that was cut off after its answer was stored; the model need not be asked
    /// again.
    fn stored_answer(&self) -> Option<String> {
        let since = self.transcript.conversation.messages.get(self.first..)?;
        final_text(since.last()?)
    }

    /// Collects what the external memory and the hooks add to this turn.
    pub(super) async fn prepare(&mut self) {
        let at = self.first;
        if let Some(memory) = &self.scope.agent.external_memory {
            let place = memory_place(self.scope.agent, &self.transcript.conversation.session);
            let recalled = memory.recall(place, &self.input.content.text()).await;
            self.recall = recalled.map(|text| (at, head(&without_marks(&text), MAX_RECALL).to_owned()));
            if let Some(notice) = memory.take_notice() {
                self.scope.show_notice(notice);
            }
        }
        let (agent, conversation) = (self.scope.agent, &*self.transcript.conversation);
        let context = hooks::ask(agent, HookEvent::PreLlmCall, self.scope.cancel, || {
            hooks::turn_input(agent, conversation, &self.input.content.text())
        })
        .await;
        self.hook_context = context.map(|text| (at, head(&text, MAX_HOOK_CONTEXT).to_owned()));
    }

    /// Makes one last call without tools, for a summary, when the limit is reached.
    pub(super) async fn summarize_at_limit(&mut self) -> Result<(), StoreError> {
        self.transcript.persist(Message::user(SUM_UP)).await?;
        let most = self.scope.agent.limits.iterations;
        for _ in 0..2 {
            let completion = match self.ask_model(Arc::default()).await {
                Ok(completion) => completion,
                Err(ModelError::Cancelled) => return Ok(()),
                Err(error) => {
                    let words = format!(
                        "I reached the maximum iterations ({most}) but couldn't summarize. Error: {error}"
                    );
                    self.transcript.persist(Message::assistant(words.clone())).await?;
                    self.result.finish(words);
                    return Ok(());
                }
            };
            self.count_usage(CallUsage::from(&completion));
            let mut message = completion.message;
            message.tool_calls.clear();
            let text = hermes_text::strip_think(&message.content.text()).trim().to_owned();
            if !text.is_empty() {
                self.transcript.persist(message).await?;
                self.result.finish(text);
                return Ok(());
            }
        }
        let words = "I reached the iteration limit and couldn't generate a summary.".to_owned();
        self.transcript.persist(Message::assistant(words.clone())).await?;
        self.result.finish(words);
        Ok(())
    }

    /// Compresses a conversation that has reached its threshold; tells the user once when it comes near.
    pub(super) async fn compress_if_full(&mut self) -> Result<(), StoreError> {
        if self.scope.agent.compression.mode == CompressionMode::Off {
            return Ok(());
        }
        let threshold = self.capacity.threshold(self.transcript.conversation);
        for _ in 0..MAX_COMPRESSIONS {
            if self.capacity.size(self.transcript.conversation) < threshold || !self.compress().await? {
                break;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let share = self.capacity.size(self.transcript.conversation) as f64 / (threshold.max(1)) as f64;
        let conversation = &mut *self.transcript.conversation;
        if share >= PRESSURE && !conversation.pressure_reported {
            conversation.pressure_reported = true;
            let percent = (share * 100.0).min(100.0);
            let text =
                format!("The conversation fills {percent:.0} % of what it may before it is summarised.");
            self.scope.frontend.show(TurnEvent::Notice { kind: TurnNoticeKind::ContextPressure, text });
        }
        Ok(())
    }

    /// Makes the conversation smaller and returns true, or leaves it unchanged and returns false.
    pub(super) async fn compress(&mut self) -> Result<bool, StoreError> {
        let report = CompressionPass::new(&mut self.transcript, &self.capacity).run(None).await?;
        if report.is_some() {
            self.reset_positions();
        }
        Ok(report.is_some())
    }

    /// Recomputes message indexes after a compression has moved them.
    fn reset_positions(&mut self) {
        let messages = &self.transcript.conversation.messages;
        let asked = messages.iter().rposition(|m| m.role == Role::User && m.content == self.input.content);
        let summary = || messages.iter().rposition(is_summary).map(|at| at + 1);
        self.first = asked.or_else(summary).unwrap_or(messages.len());
        self.input.differs_from_stored = false;
        self.notices.clear();
        self.recall = None;
        self.hook_context = None;
    }
}
