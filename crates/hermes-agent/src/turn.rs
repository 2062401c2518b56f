//! The loop of one turn: ask, run tools, ask again, until there is an answer or a reason to stop.

use std::collections::BTreeMap;

use futures_util::future::{Either, select};
use hermes_store::{Billing, Charge, Error as StoreError, Lease, NewMessage, NewSession, Tally};
use hermes_types::{
    Cancel, Completion, Content, Cost, CostStatus, Deadline, Delta, Event, Frontend, Message, ModelError,
    NoticeKind, Request, Role, ToolSpec, Turn, TurnId, TurnState, Usage, Work,
};

use crate::agent::{Agent, CompressionMode};
use crate::calls::{Checked, Ready, check};
use crate::compress::{Compressed, is_summary};
use crate::conversation::{Conversation, CutOff};
use crate::error::Error;
use crate::gauge::prefix_tokens;
use crate::reply::{Reply, judge, only_announces};
use crate::request::{Additions, copy};
use crate::result::TurnResult;
use crate::spill::{Bounds, Shelf};
use crate::{lease, pressure, prompt};

const CONTINUE: &str = include_str!("texts/continue.md").trim_ascii();
const ACT_NOW: &str = include_str!("texts/act_now.md").trim_ascii();
const SUM_UP: &str = include_str!("texts/sum_up.md").trim_ascii();
const THOUGHT_TOO_LONG: &str = include_str!("texts/thought_too_long.md").trim_ascii();

/// How often each kind of misfortune may happen before the turn ends with it.
const MOST_UNKNOWN_NAMES: u32 = 3;
const MOST_BROKEN_ARGUMENTS: u32 = 3;
const MOST_EMPTY: u32 = 3;
const MOST_OPEN_SCRATCHPADS: u32 = 3;
const MOST_CONTINUATIONS: u32 = 3;
const MOST_ANNOUNCEMENTS: u32 = 2;
const MOST_LONGER_ATTEMPTS: u32 = 4;
const MOST_COMPRESSIONS: u32 = 3;
/// Of the threshold: from here on the user is told that a compression is near.
const PRESSURE: f64 = 0.85;

/// What a turn begins with.
#[derive(Debug, Clone)]
pub struct Said {
    /// What the model reads.
    pub content: Content,
    /// What is stored instead, when the words for the model hold more than the user said.
    pub stored: Option<Content>,
}

impl Said {
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Content::Text(text.into()), stored: None }
    }
}

impl Agent {
    /// Runs one turn to its end. Only a database that cannot be written, or somebody else at work in the same
    /// conversation, is an error; everything else is a result.
    pub async fn run(
        &self,
        conversation: &mut Conversation,
        said: Said,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<TurnResult, Error> {
        self.take_lease(conversation).await?;
        let id = TurnId::generate();
        let began = self.open_turn(conversation, &id, &said).await;
        let ended = match began {
            Ok(()) => {
                let asked = Asked { spoken: said.stored.is_some(), content: said.content };
                self.work(conversation, id, asked, frontend, cancel).await
            }
            Err(error) => Err(error.into()),
        };
        self.give_lease_back(conversation).await;
        ended
    }

    /// Goes on with a turn that was cut off. Its calls have their answers already.
    pub async fn resume_turn(
        &self,
        conversation: &mut Conversation,
        cut_off: &CutOff,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<TurnResult, Error> {
        self.take_lease(conversation).await?;
        let asked = conversation.messages.iter().rfind(|message| message.role == Role::User);
        let content = asked.map(|message| message.content.clone()).unwrap_or_default();
        let asked = Asked { content, spoken: false };
        let ended = self.work(conversation, cut_off.turn.id.clone(), asked, frontend, cancel).await;
        self.give_lease_back(conversation).await;
        ended
    }

    /// Lets a cut-off turn be: the user said something else.
    pub async fn drop_turn(&self, cut_off: &CutOff) -> Result<(), Error> {
        let note = Some("cut off, not resumed".to_owned());
        Ok(self.store.close_turn(&cut_off.turn.id, TurnState::Interrupted, note, self.clock.now()).await?)
    }

    /// Shortens a conversation because the user asked for it. Nothing, when it cannot be made shorter.
    pub async fn compress(
        &self,
        conversation: &mut Conversation,
        focus: Option<&str>,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<Option<Compressed>, Error> {
        self.take_lease(conversation).await?;
        let ended = {
            let asked = Asked { content: Content::default(), spoken: false };
            let mut running = Running::new(self, conversation, TurnId::generate(), asked, frontend, cancel);
            running.compress_with(Some(focus.unwrap_or_default())).await
        };
        self.give_lease_back(conversation).await;
        Ok(ended?)
    }

    async fn take_lease(&self, conversation: &Conversation) -> Result<(), Error> {
        let key = conversation.session.as_str();
        match self.store.take_lease(key, &self.holder, self.clock.now(), lease::SPAN).await? {
            Lease::Granted => Ok(()),
            Lease::HeldBy { holder, .. } if !hermes_task::may_live(&holder) => {
                let now = self.clock.now();
                let taken = self.store.take_lease_from(key, &holder, &self.holder, now, lease::SPAN).await?;
                if taken { Ok(()) } else { Err(Error::Busy { holder }) }
            }
            Lease::HeldBy { holder, .. } => Err(Error::Busy { holder }),
        }
    }

    async fn give_lease_back(&self, conversation: &Conversation) {
        if let Err(error) = self.store.release_lease(conversation.session.as_str(), &self.holder).await {
            tracing::warn!(%error, "a lease was not given back; it runs out by itself");
        }
    }

    /// Writes down the turn and what began it, in one step.
    async fn open_turn(
        &self,
        conversation: &mut Conversation,
        id: &TurnId,
        said: &Said,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        if conversation.system.is_none() {
            conversation.system = Some(prompt::join(&self.prompt_layers(&conversation.session)));
            if let Some(hooks) = &self.hooks {
                hooks.session_started(&conversation.session);
            }
        }
        let mut session = NewSession::new(
            conversation.session.clone(),
            conversation.source.clone(),
            conversation.started_at,
        );
        session.model = Some(self.model_name.clone());
        session.user_id.clone_from(&conversation.user_id);
        session.system_prompt.clone_from(&conversation.system);
        session.model_config = Some(self.model_config());
        let message = Message::user(said.stored.as_ref().unwrap_or(&said.content).clone());
        let turn = Turn {
            id: id.clone(),
            session: conversation.session.clone(),
            inbox: None,
            state: TurnState::Running,
            started_at: now,
            deadline_at: Some(now.plus(self.limits.time)),
            cap: self.limits.cap,
            cut_offs: 0,
            prefix_hash: None,
        };
        let rows = vec![NewMessage::new(message.clone(), now)];
        self.store.begin_turn(session, rows, turn, self.holder.clone()).await?;
        conversation.messages.push(message);
        Ok(())
    }

    fn model_config(&self) -> String {
        serde_json::json!({
            "max_iterations": self.limits.iterations,
            "reasoning_config": self.asking.effort.map(|effort| serde_json::json!({"effort": effort.as_str()})),
            "max_tokens": self.asking.max_tokens,
        })
        .to_string()
    }

    /// The turn itself, with its lease kept alive beside it.
    async fn work(
        &self,
        conversation: &mut Conversation,
        id: TurnId,
        asked: Asked,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<TurnResult, Error> {
        frontend.show(Event::TurnStarted { session: conversation.session.clone() });
        let key = conversation.session.clone();
        let mut running = Running::new(self, conversation, id, asked, frontend, cancel);
        let ended = {
            let turn = std::pin::pin!(running.go());
            let renewal = std::pin::pin!(lease::keep(self, key.as_str()));
            match select(turn, renewal).await {
                Either::Left((ended, _)) => ended,
                Either::Right((never, _)) => match never {},
            }
        };
        let mut result = running.result;
        if ended.is_err() {
            result.state = TurnState::Failed;
        }
        let turn = running.turn;
        result.session = conversation.session.clone();
        self.store.close_turn(&turn, result.state, result.error.clone(), self.clock.now()).await?;
        ended?;
        self.after(conversation, &result).await;
        frontend.show(Event::TurnEnded { session: conversation.session.clone() });
        Ok(result)
    }

    /// What is done when an answer is there; none of it can spoil the turn.
    async fn after(&self, conversation: &Conversation, result: &TurnResult) {
        self.write_log(conversation);
        if let Some(hooks) = &self.hooks {
            hooks.after_turn(&conversation.session, result.response.as_deref());
        }
        if let (Some(memory), Some(answer), TurnState::Done) =
            (&self.external_memory, &result.response, result.state)
        {
            let asked = conversation.messages.iter().rfind(|message| message.role == Role::User);
            let asked = asked.map(|message| message.content.text().into_owned()).unwrap_or_default();
            memory.keep_turn(&asked, answer).await;
        }
    }
}

/// What the user said, as the model is to read it.
struct Asked {
    content: Content,
    /// It differs from what is stored, so it takes the stored words' place in this turn's requests.
    spoken: bool,
}

/// A turn under way.
pub(crate) struct Running<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) turn: TurnId,
    pub(crate) deadline: Deadline,
    pub(crate) cancel: &'a Cancel,
    pub(crate) frontend: &'a dyn Frontend,
    pub(crate) bounds: Bounds,
    pub(crate) shelf: Shelf,
    pub(crate) result: TurnResult,
    pub(crate) specs: Vec<ToolSpec>,
    /// Where this turn's messages begin.
    first: usize,
    asked: Asked,
    /// Added to the system text for this turn.
    turn_context: Option<String>,
    notices: BTreeMap<usize, String>,
    recall: Option<(usize, String)>,
    counts: Counts,
    /// The output limit of the next request, where a longer one than usual is tried.
    longer: Option<u64>,
    /// Pieces of an answer that came in several.
    pieces: Vec<String>,
    /// Units of the iteration budget that are left.
    budget: u32,
}

#[derive(Default)]
struct Counts {
    unknown_names: u32,
    broken_arguments: u32,
    empty: u32,
    open_scratchpads: u32,
    unfinished: u32,
    continuations: u32,
    announcements: u32,
    longer: u32,
    compressions: u32,
}

/// Whether the loop goes on.
enum Next {
    Again,
    Done,
}

impl<'a> Running<'a> {
    fn new(
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
            turn_context: None,
            notices: BTreeMap::new(),
            recall: None,
            counts: Counts::default(),
            longer: None,
            pieces: Vec::new(),
            agent,
            conversation,
            turn,
            deadline,
            cancel,
            frontend,
            first,
            asked,
        }
    }

    async fn go(&mut self) -> Result<(), StoreError> {
        self.prepare().await;
        self.compress_if_full().await?;
        let mut previous_tools = Vec::new();
        while self.result.api_calls < self.agent.limits.iterations && self.budget > 0 {
            if self.cancel.is_cancelled() {
                self.interrupted("Operation interrupted.".to_owned());
                return Ok(());
            }
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
            self.count(&completion).await?;
            let before = self.conversation.messages.len();
            if let Next::Done = self.take_answer(completion).await? {
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

    /// What others add to this turn.
    async fn prepare(&mut self) {
        let at = self.first;
        if let Some(memory) = &self.agent.external_memory {
            self.recall = memory.recall(&self.asked.content.text()).await.map(|text| (at, text));
        }
        if let Some(hooks) = &self.agent.hooks {
            self.turn_context =
                hooks.before_turn(&self.conversation.session, &self.asked.content.text()).await;
        }
    }

    async fn ask(&mut self, tools: Vec<ToolSpec>) -> Result<Completion, ModelError> {
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
        let answer = self
            .agent
            .model
            .complete(&request, &mut |delta| {
                retrying = match &delta {
                    Delta::Status(words) => Some(words.clone()),
                    _ => None,
                };
                frontend.show(Event::Delta(delta));
            })
            .await;
        if let Err(ModelError::Cancelled) = &answer {
            let elapsed = self.agent.clock.monotonic().saturating_sub(began).as_secs_f64();
            self.interrupted(match retrying {
                Some(words) => format!("Operation interrupted: retrying API call after {words}"),
                None => format!("Operation interrupted: waiting for model response ({elapsed:.1}s elapsed)."),
            });
        }
        answer
    }

    fn system(&self) -> String {
        let parts = [
            self.conversation.system.as_deref(),
            self.agent.asking.ephemeral.as_deref(),
            self.turn_context.as_deref(),
        ];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    async fn take_error(&mut self, error: ModelError) -> Result<Next, StoreError> {
        match &error {
            ModelError::Cancelled => {}
            ModelError::Compress { limit } => {
                if let Some(limit) = limit {
                    let known = self.window();
                    self.conversation.window = Some((*limit).min(known));
                }
                self.counts.compressions += 1;
                if self.counts.compressions <= MOST_COMPRESSIONS && self.compress(None).await? {
                    // The pass was for nothing; it is given back.
                    self.result.api_calls -= 1;
                    self.budget += 1;
                    return Ok(Next::Again);
                }
                self.result.partial = true;
                self.fail(format!(
                    "Context length exceeded ({} tokens). Cannot compress further. Start afresh with /new, or choose a model with a larger window.",
                    self.window()
                ));
                self.result.failure = Some(error);
            }
            _ => {
                self.fail(error.to_string());
                self.result.failure = Some(error);
            }
        }
        Ok(Next::Done)
    }

    async fn take_answer(&mut self, completion: Completion) -> Result<Next, StoreError> {
        let from_responses = completion.provider_items.is_some();
        let output = completion.usage.map_or(0, |usage| usage.output);
        let mut message = completion.message;
        self.result.last_reasoning.clone_from(&message.reasoning);
        let reply = judge(&message);
        if reply != Reply::CallCutOff {
            self.longer = None;
        }
        match reply {
            Reply::Calls => self.take_calls(message).await,
            Reply::CallCutOff => Ok(self.ask_for_more(output)),
            Reply::TextCutOff(text) => self.continue_text(message, text).await,
            Reply::OnlyThought => {
                self.keep(message).await?;
                self.stop_short(
                    Some(THOUGHT_TOO_LONG.to_owned()),
                    "The model used its whole output for thinking",
                );
                Ok(Next::Done)
            }
            Reply::OpenScratchpad => {
                self.counts.open_scratchpads += 1;
                if self.counts.open_scratchpads < MOST_OPEN_SCRATCHPADS {
                    return Ok(Next::Again);
                }
                self.stop_short(None, "Incomplete REASONING_SCRATCHPAD after 2 retries");
                Ok(Next::Done)
            }
            Reply::Unfinished => self.wait_for_more(message).await,
            Reply::Empty => self.take_empty(message).await,
            Reply::Final(text) => {
                let since = self.conversation.messages.get(self.first..).unwrap_or_default();
                if from_responses
                    && self.counts.announcements < MOST_ANNOUNCEMENTS
                    && only_announces(&text, &self.asked.content.text(), since)
                {
                    self.counts.announcements += 1;
                    message.finish_reason = Some(hermes_types::FinishReason::Incomplete);
                    self.keep_all(vec![message, Message::user(ACT_NOW)]).await?;
                    return Ok(Next::Again);
                }
                self.keep(message).await?;
                let whole = std::mem::take(&mut self.pieces).concat() + &text;
                self.finish(whole.trim().to_owned());
                Ok(Next::Done)
            }
        }
    }

    async fn take_calls(&mut self, mut message: Message) -> Result<Next, StoreError> {
        match check(&mut message.tool_calls, &self.agent.tools) {
            Checked::UnknownName { name, answers } => {
                self.counts.unknown_names += 1;
                if self.counts.unknown_names >= MOST_UNKNOWN_NAMES {
                    self.stop_short(None, &format!("Model generated invalid tool call: {name}"));
                    return Ok(Next::Done);
                }
                let calls = message.tool_calls.clone();
                self.keep(message).await?;
                self.answer(&calls, answers).await?;
                Ok(Next::Again)
            }
            Checked::BrokenArguments { answers } => {
                self.counts.broken_arguments += 1;
                if self.counts.broken_arguments < MOST_BROKEN_ARGUMENTS {
                    return Ok(Next::Again);
                }
                self.counts.broken_arguments = 0;
                let calls = message.tool_calls.clone();
                self.keep(message).await?;
                self.answer(&calls, answers).await?;
                Ok(Next::Again)
            }
            Checked::Run(batch) => {
                self.counts = Counts { compressions: self.counts.compressions, ..Counts::default() };
                self.keep(message).await?;
                self.frontend.show(Event::SegmentEnded);
                self.run_all(batch).await
            }
        }
    }

    async fn run_all(&mut self, batch: Vec<Ready>) -> Result<Next, StoreError> {
        let only_scripts = batch.iter().all(|ready| ready.manner.work == Work::Script);
        self.run_batch(batch).await?;
        if only_scripts {
            self.budget += 1;
        }
        if self.cancel.is_cancelled() {
            self.interrupted("Operation interrupted.".to_owned());
            return Ok(Next::Done);
        }
        if let Some(words) = pressure::notice(self.result.api_calls, self.agent.limits.iterations)
            && let Some(last) = self.conversation.messages.len().checked_sub(1)
        {
            self.notices.insert(last, words);
        }
        self.compress_if_full().await?;
        Ok(Next::Again)
    }

    /// A call was cut off by the output limit: the same request with a higher one, a few times.
    fn ask_for_more(&mut self, output: u64) -> Next {
        self.counts.longer += 1;
        if self.counts.longer <= MOST_LONGER_ATTEMPTS {
            let so_far = self.longer.or(self.agent.asking.max_tokens).unwrap_or(output).max(1_024);
            self.longer = Some(so_far.saturating_mul(2));
            return Next::Again;
        }
        let is_first = !self.conversation.messages.iter().any(|message| message.role == Role::Assistant);
        if is_first {
            self.fail("First response truncated due to output length limit".to_owned());
        } else {
            self.stop_short(None, "Response truncated due to output length limit");
        }
        Next::Done
    }

    async fn continue_text(&mut self, message: Message, text: String) -> Result<Next, StoreError> {
        self.counts.continuations += 1;
        self.pieces.push(text);
        if self.counts.continuations >= MOST_CONTINUATIONS {
            self.keep(message).await?;
            let so_far = std::mem::take(&mut self.pieces).concat();
            self.stop_short(
                Some(so_far.trim().to_owned()),
                "Response remained truncated after 3 continuation attempts",
            );
            return Ok(Next::Done);
        }
        self.keep_all(vec![message, Message::user(CONTINUE)]).await?;
        Ok(Next::Again)
    }

    /// The provider has more to say; what it said so far is kept unless it repeats itself.
    async fn wait_for_more(&mut self, message: Message) -> Result<Next, StoreError> {
        self.counts.unfinished += 1;
        let repeated = self.conversation.messages.last().is_some_and(|last| {
            last.role == Role::Assistant
                && last.content == message.content
                && last.reasoning == message.reasoning
                && last.codex_reasoning_items == message.codex_reasoning_items
        });
        if !repeated {
            self.keep(message).await?;
        }
        if self.counts.unfinished >= MOST_CONTINUATIONS {
            self.stop_short(None, "Codex response remained incomplete after 3 continuation attempts");
            return Ok(Next::Done);
        }
        Ok(Next::Again)
    }

    /// Nothing to read. What was said beside an earlier call may have been the answer; else it is asked again.
    async fn take_empty(&mut self, message: Message) -> Result<Next, StoreError> {
        if let Some(text) = self.said_beside_calls() {
            self.keep(Message::assistant(text.clone())).await?;
            self.result.previewed = true;
            self.finish(text);
            return Ok(Next::Done);
        }
        self.counts.empty += 1;
        if self.counts.empty < MOST_EMPTY {
            return Ok(Next::Again);
        }
        let thought = message.reasoning.clone().or_else(|| {
            hermes_text::extract_inline_reasoning(&message.content.text())
                .filter(|text| !text.trim().is_empty())
        });
        self.keep(message).await?;
        match thought.filter(|text| !text.trim().is_empty()) {
            Some(thought) => self.finish(thought.trim().to_owned()),
            None => {
                self.stop_short(
                    None,
                    "Model generated only think blocks with no actual response after 3 retries",
                );
            }
        }
        Ok(Next::Done)
    }

    fn said_beside_calls(&self) -> Option<String> {
        self.conversation
            .messages
            .iter()
            .skip(self.first)
            .filter(|message| message.role == Role::Assistant && !message.tool_calls.is_empty())
            .filter_map(|message| {
                let text = message.content.text();
                let text = hermes_text::strip_think(&text).trim().to_owned();
                (!text.is_empty()).then_some(text)
            })
            .next_back()
    }

    /// The limit is reached: one last call without tools, for a summary.
    async fn sum_up(&mut self) -> Result<(), StoreError> {
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
            self.count(&completion).await?;
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

    fn finish(&mut self, text: String) {
        self.result.response = Some(text);
        self.result.state = TurnState::Done;
    }

    fn fail(&mut self, words: String) {
        self.result.error = Some(words);
        self.result.state = TurnState::Failed;
    }

    /// Ends early with what there is.
    fn stop_short(&mut self, response: Option<String>, error: &str) {
        self.result.response = response;
        self.result.error = Some(error.to_owned());
        self.result.partial = true;
        self.result.state = TurnState::Done;
    }

    fn interrupted(&mut self, words: String) {
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
        self.agent.store.append_all(&self.conversation.session, rows).await?;
        self.conversation.messages.extend(messages);
        Ok(())
    }

    /// Adds a call to the turn, to its session's totals and to the ledger that spending limits stand on.
    async fn count(&mut self, completion: &Completion) -> Result<(), StoreError> {
        let usage = completion.usage.unwrap_or_default();
        self.result.usage += usage;
        self.conversation.usage += usage;
        self.conversation.gauge.measure(usage, self.conversation.messages.len());
        self.result.last_prompt_tokens = usage.prompt();
        self.result.model.clone_from(&completion.model);
        self.result.provider.clone_from(&completion.provider);
        let sum =
            self.result.cost.micro_usd.zip(completion.cost.micro_usd).map(|(so_far, more)| so_far + more);
        self.result.cost = Cost { micro_usd: sum, status: completion.cost.status };
        self.charge(completion).await?;
        self.frontend.show(Event::Spent { usage, cost: completion.cost });
        Ok(())
    }

    /// Writes a call's use into the session and the ledger, together.
    pub(crate) async fn charge(&self, completion: &Completion) -> Result<(), StoreError> {
        let (store, session) = (&self.agent.store, &self.conversation.session);
        let usage = completion.usage.unwrap_or_default();
        let billing = Billing {
            provider: Some(completion.provider.clone()),
            model: Some(completion.model.clone()),
            ..Billing::default()
        };
        let totals = store.record_usage(session, Tally::Add, usage, completion.cost, billing);
        let charge = store.record_charge(Charge {
            at: self.agent.clock.now(),
            session: session.clone(),
            turn: Some(self.turn.clone()),
            root_turn: Some(self.turn.clone()),
            job: None,
            provider: completion.provider.clone(),
            model: completion.model.clone(),
            usage,
            cost: completion.cost,
        });
        totals.await?;
        charge.await
    }

    pub(crate) fn window(&self) -> u64 {
        let known = self.agent.model.context_window(&self.agent.model_name);
        self.conversation.window.map_or(known, |found| found.min(known))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52, the share is between 0 and 1"
    )]
    pub(crate) fn threshold(&self) -> u64 {
        (self.window() as f64 * self.agent.compression.threshold) as u64
    }

    pub(crate) fn size(&self) -> u64 {
        let prefix = prefix_tokens(self.conversation.system.as_deref().unwrap_or_default(), &self.specs);
        self.conversation.gauge.estimate(prefix, &self.conversation.messages)
    }

    /// Shortens a conversation that has grown to its threshold; tells the user once when it comes near.
    async fn compress_if_full(&mut self) -> Result<(), StoreError> {
        if self.agent.compression.mode == CompressionMode::Off {
            return Ok(());
        }
        let threshold = self.threshold();
        for _ in 0..MOST_COMPRESSIONS {
            if self.size() < threshold || !self.compress(None).await? {
                break;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let share = self.size() as f64 / (threshold.max(1)) as f64;
        if share >= PRESSURE && !self.conversation.pressure_told {
            self.conversation.pressure_told = true;
            let percent = (share * 100.0).min(100.0);
            let text =
                format!("The conversation fills {percent:.0} % of what it may before it is summarised.");
            self.frontend.show(Event::Notice { kind: NoticeKind::ContextPressure, text });
        }
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
