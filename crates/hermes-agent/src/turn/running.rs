//! A turn under way: its state, and the loop that asks, runs tools, and asks again until there is an answer or a reason
//! to stop.

use std::collections::BTreeMap;

use hermes_store::{Error as StoreError, NewMessage, Pending};
use hermes_types::{
    Cancel, Content, Cost, CostStatus, Deadline, Event, Frontend, Message, ModelError, Role, ToolSpec,
    TurnId, TurnState, Usage,
};

use super::asking::Spent;
use crate::agent::{Agent, Unpriced};
use crate::compress::is_summary;
use crate::conversation::Conversation;
use crate::lease::Leased;
use crate::reply::last_words;
use crate::result::TurnResult;
use crate::spill::{Bounds, Shelf};

const SUM_UP: &str = include_str!("../texts/sum_up.md").trim_ascii();

/// What the user said, as the model is to read it.
pub(super) struct Asked {
    pub(super) content: Content,
    /// It differs from what is stored, so it takes the stored words' place in this turn's requests.
    pub(super) spoken: bool,
}

/// A turn under way.
pub(crate) struct Running<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) turn: TurnId,
    /// The turn a person started: this one, or the one it is a part of.
    pub(crate) root: TurnId,
    pub(crate) deadline: Deadline,
    pub(crate) cancel: &'a Cancel,
    pub(crate) frontend: &'a dyn Frontend,
    pub(crate) bounds: Bounds,
    pub(crate) shelf: Shelf,
    pub(crate) result: TurnResult,
    pub(crate) specs: Vec<ToolSpec>,
    /// The session this turn holds.
    pub(crate) leased: Leased,
    /// Where this turn's messages begin.
    pub(super) first: usize,
    pub(super) asked: Asked,
    /// Added to the system text for this turn.
    pub(super) turn_context: Option<String>,
    pub(super) notices: BTreeMap<usize, String>,
    pub(super) recall: Option<(usize, String)>,
    pub(super) counts: Counts,
    /// The output limit of the next request, where a longer one than usual is tried.
    pub(super) longer: Option<u64>,
    /// What the answer that is being written has said so far.
    pub(super) heard: String,
    /// Pieces of an answer that came in several.
    pub(super) pieces: Vec<String>,
    /// The size of a request the provider found too large in this turn.
    pub(super) ceiling: Option<u64>,
    /// Units of the iteration budget that are left.
    pub(super) budget: u32,
    /// Costs that are on their way to the database; they are there before anything else happens.
    pub(super) owed: Vec<Pending<()>>,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) unknown_names: u32,
    pub(super) broken_arguments: u32,
    pub(super) empty: u32,
    pub(super) open_scratchpads: u32,
    pub(super) unfinished: u32,
    pub(super) continuations: u32,
    pub(super) announcements: u32,
    pub(super) longer: u32,
    pub(super) compressions: u32,
}

/// Whether the loop goes on.
pub(super) enum Next {
    Again,
    Done,
}

impl<'a> Running<'a> {
    pub(super) fn new(
        agent: &'a Agent,
        conversation: &'a mut Conversation,
        turn: TurnId,
        asked: Asked,
        frontend: &'a dyn Frontend,
        cancel: &'a Cancel,
    ) -> Self {
        let deadline = Deadline::after(&*agent.clock, agent.limits.time);
        let window = conversation.window.unwrap_or_else(|| agent.model.context_window(&agent.model_name));
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
                model: agent.model_name.clone(),
                provider: agent.prompt.provider.clone(),
            },
            bounds: Bounds::for_window(window),
            shelf: Shelf::new(agent.folders.results.clone()),
            specs: agent.specs(),
            budget: agent.limits.iterations,
            owed: Vec::new(),
            turn_context: None,
            notices: BTreeMap::new(),
            recall: None,
            counts: Counts::default(),
            longer: None,
            ceiling: None,
            heard: String::new(),
            pieces: Vec::new(),
            leased: Leased::new(conversation.session.clone()),
            agent,
            root: conversation.root.clone().unwrap_or_else(|| turn.clone()),
            conversation,
            turn,
            deadline,
            cancel,
            frontend,
            first,
            asked,
        }
    }

    pub(super) async fn go(&mut self) -> Result<(), StoreError> {
        if let Some(answer) = self.stored_answer() {
            self.finish(answer);
            return Ok(());
        }
        self.prepare().await;
        if let Next::Done = self.run_waiting_calls().await? {
            return Ok(());
        }
        self.compress_if_full().await?;
        let mut previous_tools = Vec::new();
        while self.result.api_calls < self.agent.limits.iterations && self.budget > 0 {
            if self.cancel.is_cancelled() {
                self.interrupted("Operation interrupted.".to_owned());
                return Ok(());
            }
            self.settle().await?;
            self.result.api_calls += 1;
            self.budget -= 1;
            self.frontend.show(Event::Step {
                iteration: self.result.api_calls,
                previous_tools: std::mem::take(&mut previous_tools),
            });
            let completion = match self.ask(self.specs.clone()).await {
                Ok(completion) => completion,
                Err(error) => match self.take_error(error).await? {
                    Next::Again => continue,
                    Next::Done => return Ok(()),
                },
            };
            self.count(Spent::from(&completion));
            let before = self.conversation.messages.len();
            if let Next::Done = self.take_answer(completion).await? {
                self.tell_unpriced();
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
        self.sum_up().await
    }

    /// An answer that is there is given; only what would come after it is refused.
    fn tell_unpriced(&mut self) {
        if self.agent.limits.unpriced == Unpriced::Tell {
            self.is_over_budget();
        }
    }

    /// A turn that was cut off after its last word was written down has nothing left to ask.
    fn stored_answer(&self) -> Option<String> {
        let since = self.conversation.messages.get(self.first..)?;
        last_words(since.last()?)
    }

    /// What others add to this turn.
    pub(super) async fn prepare(&mut self) {
        let at = self.first;
        if let Some(memory) = &self.agent.external_memory {
            self.recall = memory.recall(&self.asked.content.text()).await.map(|text| (at, text));
        }
        if let Some(hooks) = &self.agent.hooks {
            self.turn_context =
                hooks.before_turn(&self.conversation.session, &self.asked.content.text()).await;
        }
    }

    /// The limit is reached: one last call without tools, for a summary.
    pub(super) async fn sum_up(&mut self) -> Result<(), StoreError> {
        self.keep(Message::user(SUM_UP)).await?;
        let most = self.agent.limits.iterations;
        for _ in 0..2 {
            let completion = match self.ask(Vec::new()).await {
                Ok(completion) => completion,
                Err(ModelError::Cancelled) => return Ok(()),
                Err(error) => {
                    let words = format!(
                        "I reached the maximum iterations ({most}) but couldn't summarize. Error: {error}"
                    );
                    self.keep(Message::assistant(words.clone())).await?;
                    self.finish(words);
                    return Ok(());
                }
            };
            self.count(Spent::from(&completion));
            let mut message = completion.message;
            message.tool_calls.clear();
            let text = hermes_text::strip_think(&message.content.text()).trim().to_owned();
            if !text.is_empty() {
                self.keep(message).await?;
                self.finish(text);
                return Ok(());
            }
        }
        let words = "I reached the iteration limit and couldn't generate a summary.".to_owned();
        self.keep(Message::assistant(words.clone())).await?;
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

    /// Ends early with what there is.
    pub(super) fn stop_short(&mut self, response: Option<String>, error: &str) {
        self.result.response = response;
        self.result.error = Some(error.to_owned());
        self.result.partial = true;
        self.result.state = TurnState::Done;
    }

    pub(super) fn interrupted(&mut self, words: String) {
        self.result.response = Some(words);
        self.result.failure = Some(ModelError::Cancelled);
        self.result.state = TurnState::Interrupted;
    }

    /// Writes a message down, then takes it into the conversation.
    pub(crate) async fn keep(&mut self, message: Message) -> Result<(), StoreError> {
        self.keep_all(vec![message]).await
    }

    pub(crate) async fn keep_all(&mut self, messages: Vec<Message>) -> Result<(), StoreError> {
        let now = self.agent.clock.now();
        let rows = messages.iter().map(|message| NewMessage::new(message.clone(), now)).collect();
        let kept = self.agent.store.append_all(&self.conversation.session, rows);
        self.settle().await?;
        kept.await?;
        self.conversation.messages.extend(messages);
        Ok(())
    }

    /// Places in the conversation have moved.
    pub(crate) fn start_over(&mut self) {
        let messages = &self.conversation.messages;
        let asked = messages.iter().rposition(|m| m.role == Role::User && m.content == self.asked.content);
        let summary = || messages.iter().rposition(is_summary).map(|at| at + 1);
        self.first = asked.or_else(summary).unwrap_or(messages.len());
        self.asked.spoken = false;
        self.notices.clear();
        self.recall = None;
    }
}
