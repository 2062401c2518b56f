//! Asking the model, and accounting for what it cost.

use hermes_store::{Billing, Charge, Error as StoreError, Tally};
use hermes_types::{
    Completion, Cost, Delta, Event, FinishReason, Message, ModelError, Request, ToolSpec, Usage,
};

use super::room::MOST_COMPRESSIONS;
use super::running::{Next, Running};
use crate::agent::{CompressionMode, Unpriced};
use crate::request::{Additions, copy, interrupted_mark};

/// What one call used and who answered it.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
    pub(crate) provider: String,
    pub(crate) model: String,
}

impl From<&Completion> for Spent {
    fn from(completion: &Completion) -> Self {
        Self {
            usage: completion.usage.unwrap_or_default(),
            cost: completion.cost,
            provider: completion.provider.clone(),
            model: completion.model.clone(),
        }
    }
}

impl Running<'_> {
    pub(super) async fn ask(&mut self, tools: Vec<ToolSpec>) -> Result<Completion, ModelError> {
        let additions = Additions {
            prefill: &self.agent.asking.prefill,
            notices: &self.notices,
            asked: self.asked.spoken.then_some((self.first, &self.asked.content)),
            recall: self.recall.as_ref().map(|(at, text)| (*at, text.as_str())),
        };
        let request = Request {
            model: self.agent.model_name.clone(),
            system: self.system(),
            messages: copy(&self.conversation.messages, &additions),
            tools,
            max_tokens: self.longer.or(self.agent.asking.max_tokens),
            temperature: None,
            effort: self.agent.asking.effort,
            session: Some(self.conversation.session.as_str().to_owned()),
            deadline: self.deadline,
            cancel: self.cancel.clone(),
        };
        let frontend = self.frontend;
        let began = self.agent.clock.monotonic();
        let mut retrying: Option<String> = None;
        let mut heard = String::new();
        let answer = self
            .agent
            .model
            .complete(&request, &mut |delta| {
                retrying = match &delta {
                    Delta::Status(words) => Some(words.clone()),
                    _ => None,
                };
                match &delta {
                    Delta::Text(text) => heard.push_str(text),
                    Delta::Restart => heard.clear(),
                    _ => {}
                }
                frontend.show(Event::Delta(delta));
            })
            .await;
        self.heard = heard;
        if let Err(ModelError::Cancelled) = &answer {
            let elapsed = self.agent.clock.monotonic().saturating_sub(began).as_secs_f64();
            self.interrupted(match retrying {
                Some(words) => format!("Operation interrupted: retrying API call after {words}"),
                None => format!("Operation interrupted: waiting for model response ({elapsed:.1}s elapsed)."),
            });
        }
        answer
    }

    pub(super) fn system(&self) -> String {
        let parts = [
            self.conversation.system.as_deref(),
            self.agent.asking.ephemeral.as_deref(),
            self.turn_context.as_deref(),
        ];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    pub(super) async fn take_error(&mut self, error: ModelError) -> Result<Next, StoreError> {
        match &error {
            ModelError::Cancelled => self.keep_interrupted().await?,
            ModelError::Compress { .. } | ModelError::TooLarge => {
                self.heed(&error);
                self.counts.compressions += 1;
                let may = self.agent.compression.mode == CompressionMode::On
                    && self.counts.compressions <= MOST_COMPRESSIONS;
                if may && self.compress(None).await? {
                    // The pass was for nothing; it is given back.
                    self.result.api_calls -= 1;
                    self.budget += 1;
                    return Ok(Next::Again);
                }
                self.result.partial = true;
                let what = match &error {
                    ModelError::TooLarge => "Request payload too large (413).".to_owned(),
                    _ => format!("Context length exceeded ({} tokens).", self.window()),
                };
                self.fail(format!(
                    "{what} Cannot compress further. Start afresh with /new, or choose a model with a larger window."
                ));
                self.result.failure = Some(error);
            }
            _ => {
                self.keep_heard().await?;
                self.fail(error.to_string());
                self.result.failure = Some(error);
            }
        }
        Ok(Next::Done)
    }

    /// An answer that was interrupted: what was shown of it is kept, and marked.
    async fn keep_interrupted(&mut self) -> Result<(), StoreError> {
        let text = hermes_text::strip_think(&std::mem::take(&mut self.heard)).trim().to_owned();
        if text.is_empty() {
            return Ok(());
        }
        let mut message = Message::assistant(text);
        message.finish_reason = Some(interrupted_mark());
        self.keep(message).await
    }

    /// An answer that was cut off: what came of it is the user's.
    async fn keep_heard(&mut self) -> Result<(), StoreError> {
        let text = hermes_text::strip_think(&std::mem::take(&mut self.heard)).trim().to_owned();
        if text.is_empty() {
            return Ok(());
        }
        let mut message = Message::assistant(text.clone());
        message.finish_reason = Some(FinishReason::Incomplete);
        self.keep(message).await?;
        self.result.response = Some(std::mem::take(&mut self.pieces).concat() + &text);
        self.result.partial = true;
        Ok(())
    }

    /// What a refusal says about the room there is. A number is the provider's word and stays; without one, the
    /// request just made was too large, whatever we thought, and that holds for this turn.
    fn heed(&mut self, error: &ModelError) {
        match error {
            ModelError::Compress { limit: Some(limit) } => {
                self.conversation.window = Some((*limit).min(self.window()));
            }
            _ => self.ceiling = Some(self.size().min(self.window())),
        }
    }

    /// Ends the turn where a call went beyond what it may use. A limit in dollars says nothing about a model without a price.
    pub(super) fn is_over_budget(&mut self) -> bool {
        let limits = self.agent.limits;
        let words = if self.result.cost.micro_usd.is_some() || limits.unpriced == Unpriced::Ignore {
            return false;
        } else if limits.unpriced == Unpriced::Tell {
            if !std::mem::replace(&mut self.conversation.unpriced_told, true) {
                self.tell(format!(
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
        self.fail(words.clone());
        self.result.failure = Some(ModelError::Budget(words));
        true
    }

    /// Adds a call to the turn, to its session's totals and to the ledger that spending limits stand on.
    pub(super) fn count(&mut self, spent: Spent) {
        let Spent { usage, cost, .. } = spent;
        self.result.usage += usage;
        self.conversation.usage += usage;
        self.conversation.gauge.measure(usage, self.conversation.messages.len());
        self.result.last_prompt_tokens = usage.prompt();
        self.result.model.clone_from(&spent.model);
        self.result.provider.clone_from(&spent.provider);
        let sum = self.result.cost.micro_usd.zip(cost.micro_usd).map(|(so_far, more)| so_far + more);
        self.result.cost = Cost { micro_usd: sum, status: cost.status };
        self.charge(spent);
        self.frontend.show(Event::Spent { usage, cost });
    }

    /// Writes a call's use into the session and the ledger, together with what the call said.
    pub(crate) fn charge(&mut self, spent: Spent) {
        let (store, session) = (&self.agent.store, &self.conversation.session);
        let Spent { usage, cost, provider, model } = spent;
        let base_url = Some(self.agent.base_url.clone()).filter(|address| !address.is_empty());
        let billing = Billing {
            provider: Some(provider.clone()),
            model: Some(model.clone()),
            base_url,
            ..Billing::default()
        };
        let totals = store.record_usage(session, Tally::Add, usage, cost, billing);
        let charge = store.record_charge(Charge {
            at: self.agent.clock.now(),
            session: session.clone(),
            turn: Some(self.turn.clone()),
            root_turn: Some(self.root.clone()),
            job: self.agent.job.clone(),
            provider,
            model,
            usage,
            cost,
        });
        self.owed.extend([totals, charge]);
    }

    /// Waits until everything the turn has cost is written down.
    pub(crate) async fn settle(&mut self) -> Result<(), StoreError> {
        for owed in std::mem::take(&mut self.owed) {
            owed.await?;
        }
        Ok(())
    }
}
