//! Calls the model and accounts for the cost.

use std::sync::Arc;

use hermes_store::Error as StoreError;
use hermes_types::{
    Completion, Cost, Delta, FinishReason, HookEvent, Message, ModelError, ModelRequest, ToolSpec, TurnEvent,
};

use super::charges::CallUsage;
use super::request::{RequestAdditions, build_messages, interrupted_mark};
use super::turn_loop::{LoopControl, MAX_COMPRESSIONS, RunningTurn};
use crate::hooks;
use crate::settings::{CompressionMode, UnknownPricePolicy};

impl RunningTurn<'_> {
    pub(super) async fn ask_model(&mut self, tools: Arc<[ToolSpec]>) -> Result<Completion, ModelError> {
        let additions = RequestAdditions {
            prefill: &self.scope.agent.request_options.prefill,
            notices: &self.notices,
            current_input: self.input.differs_from_stored.then_some((self.first, &self.input.content)),
            recall: self.recall.as_ref().map(|(at, text)| (*at, text.as_str())),
            hook_context: self.hook_context.as_ref().map(|(at, text)| (*at, text.as_str())),
        };
        let request = ModelRequest {
            model: self.scope.agent.models.name.clone(),
            system: self.system_prompt(),
            messages: build_messages(&self.transcript.conversation.messages, &additions),
            tools,
            max_tokens: self.raised_output_limit.or(self.scope.agent.request_options.max_tokens),
            temperature: None,
            effort: self.scope.agent.request_options.effort,
            session: Some(self.transcript.conversation.session.as_str().to_owned()),
            deadline: self.scope.deadline,
            cancel: self.scope.cancel.clone(),
        };
        let frontend = self.scope.frontend;
        let began = self.scope.agent.clock.monotonic();
        let mut retrying: Option<String> = None;
        let mut heard = String::new();
        let (agent, iteration) = (self.scope.agent, self.result.api_calls);
        let about_call =
            || hooks::request_input(&self.transcript.conversation.session, &agent.models.name, iteration);
        hooks::notify(agent, HookEvent::PreApiRequest, about_call);
        let answer = self
            .scope
            .agent
            .models
            .main
            .complete(&request, &mut |delta| {
                retrying = match &delta {
                    Delta::Status(words) => Some(words.clone()),
                    _ => None,
                };
                match &delta {
                    Delta::Text(text) => heard.push_str(text),
                    Delta::Restart => heard.clear(),
                    Delta::Reasoning(_) | Delta::ToolStarted { .. } | Delta::Status(_) => {}
                }
                frontend.show(TurnEvent::Delta(delta));
            })
            .await;
        match &answer {
            Ok(completion) => hooks::notify(agent, HookEvent::PostApiRequest, || {
                hooks::with_usage(about_call(), completion.usage)
            }),
            Err(error) => {
                hooks::notify(agent, HookEvent::ApiRequestError, || hooks::with_error(about_call(), error));
            }
        }
        self.partial_text = heard;
        if let Err(ModelError::Cancelled) = &answer {
            let elapsed = self.scope.agent.clock.monotonic().saturating_sub(began).as_secs_f64();
            self.result.mark_interrupted(match retrying {
                Some(words) => format!("Operation interrupted: retrying API call after {words}"),
                None => format!("Operation interrupted: waiting for model response ({elapsed:.1}s elapsed)."),
            });
        }
        answer
    }

    pub(super) fn system_prompt(&self) -> String {
        let parts = [
            self.transcript.conversation.system.as_deref(),
            self.scope.agent.request_options.ephemeral.as_deref(),
        ];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    pub(super) async fn handle_error(&mut self, error: ModelError) -> Result<LoopControl, StoreError> {
        match &error {
            ModelError::Cancelled => self.persist_interrupted().await?,
            ModelError::Compress { .. } | ModelError::TooLarge => {
                self.capacity.note_refusal(self.transcript.conversation, &error);
                self.counters.compressions += 1;
                let may = self.scope.agent.compression.mode == CompressionMode::On
                    && self.counters.compressions <= MAX_COMPRESSIONS;
                if may && self.compress().await? {
                    // The request was refused, so it does not count as an iteration.
                    self.result.api_calls -= 1;
                    self.budget += 1;
                    return Ok(LoopControl::Continue);
                }
                self.result.partial = true;
                let what = match &error {
                    ModelError::TooLarge => "Request payload too large (413).".to_owned(),
                    _ => format!(
                        "Context length exceeded ({} tokens).",
                        self.capacity.window(self.transcript.conversation)
                    ),
                };
                self.result.fail(format!(
                    "{what} Cannot compress further. Start afresh with /new, or choose a model with a larger window."
                ));
                self.result.failure = Some(error);
            }
            _ => {
                self.persist_partial().await?;
                self.result.fail(error.to_string());
                self.result.failure = Some(error);
            }
        }
        Ok(LoopControl::Finish)
    }

    /// Stores the part of an interrupted answer that was shown, and marks it.
    async fn persist_interrupted(&mut self) -> Result<(), StoreError> {
        let text = hermes_text::strip_think(&std::mem::take(&mut self.partial_text)).trim().to_owned();
        if text.is_empty() {
            return Ok(());
        }
        let mut message = Message::assistant(text);
        message.finish_reason = Some(interrupted_mark());
        self.transcript.persist(message).await
    }

    /// Stores the part of a cut-off answer that arrived.
    async fn persist_partial(&mut self) -> Result<(), StoreError> {
        let text = hermes_text::strip_think(&std::mem::take(&mut self.partial_text)).trim().to_owned();
        if text.is_empty() {
            return Ok(());
        }
        let mut message = Message::assistant(text.clone());
        message.finish_reason = Some(FinishReason::Incomplete);
        self.transcript.persist(message).await?;
        self.result.response = Some(std::mem::take(&mut self.answer_parts).concat() + &text);
        self.result.partial = true;
        Ok(())
    }

    /// Ends the turn if a call exceeded its limits. A limit in dollars does not apply to a model without a price.
    pub(super) fn is_over_budget(&mut self) -> bool {
        let limits = self.scope.agent.limits;
        let words = if self.result.cost.micro_usd.is_some()
            || limits.unknown_price == UnknownPricePolicy::Ignore
        {
            return false;
        } else if limits.unknown_price == UnknownPricePolicy::Warn {
            if !std::mem::replace(&mut self.transcript.conversation.unknown_price_reported, true) {
                self.scope.show_notice(format!(
                    "The price of {} is not known, so limits in dollars do not count it. `budget.per_turn_tokens` limits it, \
                     `budget.strict: true` refuses it.",
                    self.result.model
                ));
            }
            return false;
        } else {
            format!(
                "The price of {} is not known, and `budget.strict` refuses such models.",
                self.result.model
            )
        };
        self.result.fail(words.clone());
        self.result.failure = Some(ModelError::Budget(words));
        true
    }

    /// Adds a call to the turn, to its session's totals and to the ledger that spending limits are based on.
    pub(super) fn count_usage(&mut self, spent: CallUsage) {
        let CallUsage { usage, cost, .. } = spent;
        self.result.usage += usage;
        self.transcript.conversation.usage += usage;
        self.transcript.conversation.gauge.measure(usage, self.transcript.conversation.messages.len());
        self.result.last_prompt_tokens = usage.prompt();
        self.result.model.clone_from(&spent.model);
        self.result.provider.clone_from(&spent.provider);
        let sum = self.result.cost.micro_usd.zip(cost.micro_usd).map(|(so_far, more)| so_far + more);
        self.result.cost = Cost { micro_usd: sum, status: cost.status };
        self.transcript.charges.record(&self.transcript.conversation.session, spent);
        self.scope.frontend.show(TurnEvent::Spent { usage, cost });
    }
}
