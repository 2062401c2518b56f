//! Acts on an answer: runs its tools, continues one that was cut off, repeats the request for an empty one.

use std::borrow::Cow;

use hermes_store::Error as StoreError;
use hermes_text::strip_recalled;
use hermes_types::{
    CallKind, Completion, Delta, FinishReason, HookEvent, Message, MessageContent, Role, TurnEvent,
};

use super::batch::CallRunner;
use super::calls::{CallCheck, ReadyCall, check};
use super::iteration_notice;
use super::open_calls::open_calls;
use super::reply::{ReplyKind, classify, only_announces};
use super::turn_loop::{LoopControl, RunningTurn, TurnCounters};
use crate::hooks;

const CONTINUE: &str = include_str!("../texts/continue.md").trim_ascii();
const ACT_NOW: &str = include_str!("../texts/act_now.md").trim_ascii();
const THOUGHT_TOO_LONG: &str = include_str!("../texts/thought_too_long.md").trim_ascii();

/// The number of times each kind of failure may happen before it ends the turn.
const MAX_UNKNOWN_NAMES: u32 = 3;
const MAX_BROKEN_ARGUMENTS: u32 = 3;
const MAX_EMPTY_ANSWERS: u32 = 3;
const MAX_OPEN_SCRATCHPADS: u32 = 3;
const MAX_CONTINUATIONS: u32 = 3;
const MAX_ANNOUNCEMENTS: u32 = 2;
const MAX_LONGER_ATTEMPTS: u32 = 4;

impl RunningTurn<'_> {
    pub(super) async fn handle_answer(&mut self, completion: Completion) -> Result<LoopControl, StoreError> {
        let from_responses = completion.provider_items.is_some();
        let output = completion.usage.map_or(0, |usage| usage.output);
        let mut message = completion.message;
        if let MessageContent::Text(text) = &mut message.content
            && let Cow::Owned(kept) = strip_recalled(text)
        {
            *text = kept;
        }
        self.result.last_reasoning.clone_from(&message.reasoning);
        let reply = classify(&message);
        if reply != ReplyKind::TruncatedCall {
            self.raised_output_limit = None;
        }
        match reply {
            ReplyKind::Calls => self.handle_calls(message).await,
            ReplyKind::TruncatedCall => Ok(self.retry_with_longer_output(output)),
            ReplyKind::TruncatedText(text) => self.continue_text(message, text).await,
            ReplyKind::OnlyReasoning => {
                self.transcript.persist(message).await?;
                self.result.stop_early(
                    Some(THOUGHT_TOO_LONG.to_owned()),
                    "The model used its whole output for thinking",
                );
                Ok(LoopControl::Finish)
            }
            ReplyKind::OpenScratchpad => {
                self.counters.open_scratchpads += 1;
                if self.counters.open_scratchpads < MAX_OPEN_SCRATCHPADS {
                    return Ok(LoopControl::Continue);
                }
                self.result.stop_early(None, "Incomplete REASONING_SCRATCHPAD after 2 retries");
                Ok(LoopControl::Finish)
            }
            ReplyKind::Unfinished => self.handle_unfinished(message).await,
            ReplyKind::Empty => self.handle_empty(message).await,
            ReplyKind::Final(text) => {
                let since = self.transcript.conversation.messages.get(self.first..).unwrap_or_default();
                if from_responses
                    && self.counters.announcements < MAX_ANNOUNCEMENTS
                    && only_announces(&text, &self.input.content.text(), since)
                {
                    self.counters.announcements += 1;
                    message.finish_reason = Some(FinishReason::Incomplete);
                    self.transcript.persist_all(vec![message, Message::user(ACT_NOW)]).await?;
                    return Ok(LoopControl::Continue);
                }
                let text = self.transformed_answer(text, &mut message).await;
                self.transcript.persist(message).await?;
                let whole = std::mem::take(&mut self.answer_parts).concat() + &text;
                self.result.finish(whole.trim().to_owned());
                Ok(LoopControl::Finish)
            }
        }
    }

    /// Lets hooks replace an answer. What was shown of it is withdrawn. An answer in several parts stays as it is.
    async fn transformed_answer(&mut self, text: String, message: &mut Message) -> String {
        if !self.answer_parts.is_empty() {
            return text;
        }
        let (agent, conversation) = (self.scope.agent, &*self.transcript.conversation);
        let describe = || {
            let mut facts = hooks::session_input(agent, conversation);
            facts.insert("response_text".to_owned(), text.clone().into());
            facts
        };
        let changed = hooks::ask(agent, HookEvent::TransformLlmOutput, self.scope.cancel, describe).await;
        let Some(changed) = changed.filter(|changed| *changed != text) else { return text };
        message.content = MessageContent::Text(changed.clone());
        self.scope.frontend.show(TurnEvent::Delta(Delta::Restart));
        self.scope.frontend.show(TurnEvent::Delta(Delta::Text(changed.clone())));
        changed
    }

    pub(super) async fn handle_calls(&mut self, mut message: Message) -> Result<LoopControl, StoreError> {
        match check(&mut message.tool_calls, &self.scope.agent.tools) {
            CallCheck::UnknownName { name, answers } => {
                self.counters.unknown_names += 1;
                if self.counters.unknown_names >= MAX_UNKNOWN_NAMES {
                    self.result.stop_early(None, &format!("Model generated invalid tool call: {name}"));
                    return Ok(LoopControl::Finish);
                }
                let calls = message.tool_calls.clone();
                self.transcript.persist(message).await?;
                self.transcript.answer_without_running(&calls, answers).await?;
                Ok(LoopControl::Continue)
            }
            CallCheck::BrokenArguments { answers } => {
                self.counters.broken_arguments += 1;
                if self.counters.broken_arguments < MAX_BROKEN_ARGUMENTS {
                    return Ok(LoopControl::Continue);
                }
                self.counters.broken_arguments = 0;
                let calls = message.tool_calls.clone();
                self.transcript.persist(message).await?;
                self.transcript.answer_without_running(&calls, answers).await?;
                Ok(LoopControl::Continue)
            }
            CallCheck::Run(batch) => {
                self.counters =
                    TurnCounters { compressions: self.counters.compressions, ..TurnCounters::default() };
                self.transcript.persist(message).await?;
                self.scope.frontend.show(TurnEvent::SegmentEnded);
                self.run_all(batch).await
            }
        }
    }

    /// Runs the calls that waited for a person's answer when the previous process ended, and those queued after
    /// them.
    pub(super) async fn run_waiting_calls(&mut self) -> Result<LoopControl, StoreError> {
        let mut calls = open_calls(&self.transcript.conversation.messages);
        if calls.is_empty() {
            return Ok(LoopControl::Continue);
        }
        match check(&mut calls, &self.scope.agent.tools) {
            CallCheck::Run(batch) => Box::pin(self.run_all(batch)).await,
            // The tool no longer exists.
            CallCheck::UnknownName { answers, .. } | CallCheck::BrokenArguments { answers } => {
                self.transcript.answer_without_running(&calls, answers).await?;
                Ok(LoopControl::Continue)
            }
        }
    }

    pub(super) async fn run_all(&mut self, batch: Vec<ReadyCall>) -> Result<LoopControl, StoreError> {
        let only_scripts = batch.iter().all(|ready| ready.manner.kind == CallKind::Script);
        CallRunner::new(&mut self.transcript, self.bounds).run_batch(batch).await?;
        if only_scripts {
            self.budget += 1;
        }
        if self.scope.cancel.is_cancelled() {
            self.result.mark_interrupted("Operation interrupted.".to_owned());
            return Ok(LoopControl::Finish);
        }
        if let Some(words) =
            iteration_notice::notice(self.result.api_calls, self.scope.agent.limits.iterations)
            && let Some(last) = self.transcript.conversation.messages.len().checked_sub(1)
        {
            self.notices.insert(last, words);
        }
        self.compress_if_full().await?;
        Ok(LoopControl::Continue)
    }

    /// Repeats the request with a higher output limit, a few times, after the limit cut a call off.
    pub(super) fn retry_with_longer_output(&mut self, output: u64) -> LoopControl {
        self.counters.longer_attempts += 1;
        if self.counters.longer_attempts <= MAX_LONGER_ATTEMPTS {
            let so_far = self
                .raised_output_limit
                .or(self.scope.agent.request_options.max_tokens)
                .unwrap_or(output)
                .max(1_024);
            self.raised_output_limit = Some(so_far.saturating_mul(2));
            return LoopControl::Continue;
        }
        let is_first =
            !self.transcript.conversation.messages.iter().any(|message| message.role == Role::Assistant);
        if is_first {
            self.result.fail("First response truncated due to output length limit".to_owned());
        } else {
            self.result.stop_early(None, "Response truncated due to output length limit");
        }
        LoopControl::Finish
    }

    pub(super) async fn continue_text(
        &mut self,
        message: Message,
        text: String,
    ) -> Result<LoopControl, StoreError> {
        self.counters.continuations += 1;
        self.answer_parts.push(text);
        if self.counters.continuations >= MAX_CONTINUATIONS {
            self.transcript.persist(message).await?;
            let so_far = std::mem::take(&mut self.answer_parts).concat();
            self.result.stop_early(
                Some(so_far.trim().to_owned()),
                "Response remained truncated after 3 continuation attempts",
            );
            return Ok(LoopControl::Finish);
        }
        self.transcript.persist_all(vec![message, Message::user(CONTINUE)]).await?;
        Ok(LoopControl::Continue)
    }

    /// Continues an answer the provider has not finished; the text so far is kept unless it repeats itself.
    pub(super) async fn handle_unfinished(&mut self, message: Message) -> Result<LoopControl, StoreError> {
        self.counters.unfinished += 1;
        let repeated = self.transcript.conversation.messages.last().is_some_and(|last| {
            last.role == Role::Assistant
                && last.content == message.content
                && last.reasoning == message.reasoning
                && last.codex_reasoning_items == message.codex_reasoning_items
        });
        if !repeated {
            self.transcript.persist(message).await?;
        }
        if self.counters.unfinished >= MAX_CONTINUATIONS {
            self.result.stop_early(None, "Codex response remained incomplete after 3 continuation attempts");
            return Ok(LoopControl::Finish);
        }
        Ok(LoopControl::Continue)
    }

    /// Handles an empty answer. Text beside an earlier call may have been the answer; otherwise the model is
    /// asked again.
    pub(super) async fn handle_empty(&mut self, message: Message) -> Result<LoopControl, StoreError> {
        if let Some((at, text)) = self.transcript.text_beside_calls(self.first) {
            self.transcript.replace_text_beside_calls(at).await?;
            self.transcript.persist(Message::assistant(text.clone())).await?;
            self.result.previewed = true;
            self.result.finish(text);
            return Ok(LoopControl::Finish);
        }
        self.counters.empty += 1;
        if self.counters.empty < MAX_EMPTY_ANSWERS {
            return Ok(LoopControl::Continue);
        }
        let thought = message.reasoning.clone().or_else(|| {
            hermes_text::extract_inline_reasoning(&message.content.text())
                .filter(|text| !text.trim().is_empty())
        });
        let why = match message.finish_reason {
            Some(FinishReason::ContentFilter) => "The provider's content filter withheld the answer",
            _ if message.content.text().trim().is_empty() => "The model sent an empty answer three times",
            _ => "The model sent only its thinking, and no answer, three times",
        };
        self.transcript.persist(message).await?;
        match thought.filter(|text| !text.trim().is_empty()) {
            Some(thought) => self.result.finish(thought.trim().to_owned()),
            None => {
                self.result.stop_early(None, why);
            }
        }
        Ok(LoopControl::Finish)
    }
}
