//! What is done about an answer: tools are run, what was cut off is gone on with, what is empty is asked for again.

use hermes_store::Error as StoreError;
use hermes_types::{Completion, Event, FinishReason, Message, Role, Work};

use super::running::{Counts, Next, Running};
use crate::calls::{Checked, Ready, check};
use crate::pressure;
use crate::reply::{Reply, judge, only_announces};
use crate::unanswered::open_calls;

const CONTINUE: &str = include_str!("../texts/continue.md").trim_ascii();
const ACT_NOW: &str = include_str!("../texts/act_now.md").trim_ascii();
const THOUGHT_TOO_LONG: &str = include_str!("../texts/thought_too_long.md").trim_ascii();

/// How often each kind of misfortune may happen before the turn ends with it.
const MOST_UNKNOWN_NAMES: u32 = 3;
const MOST_BROKEN_ARGUMENTS: u32 = 3;
const MOST_EMPTY: u32 = 3;
const MOST_OPEN_SCRATCHPADS: u32 = 3;
const MOST_CONTINUATIONS: u32 = 3;
const MOST_ANNOUNCEMENTS: u32 = 2;
const MOST_LONGER_ATTEMPTS: u32 = 4;

impl Running<'_> {
    pub(super) async fn take_answer(&mut self, completion: Completion) -> Result<Next, StoreError> {
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
                    message.finish_reason = Some(FinishReason::Incomplete);
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

    pub(super) async fn take_calls(&mut self, mut message: Message) -> Result<Next, StoreError> {
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

    /// Runs calls a person was being asked about when the process before this one ended, and those that waited behind them.
    pub(super) async fn run_waiting_calls(&mut self) -> Result<Next, StoreError> {
        let mut calls = open_calls(&self.conversation.messages);
        if calls.is_empty() {
            return Ok(Next::Again);
        }
        match check(&mut calls, &self.agent.tools) {
            Checked::Run(batch) => Box::pin(self.run_all(batch)).await,
            // A tool that is no longer there.
            Checked::UnknownName { answers, .. } | Checked::BrokenArguments { answers } => {
                self.answer(&calls, answers).await?;
                Ok(Next::Again)
            }
        }
    }

    pub(super) async fn run_all(&mut self, batch: Vec<Ready>) -> Result<Next, StoreError> {
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
    pub(super) fn ask_for_more(&mut self, output: u64) -> Next {
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

    pub(super) async fn continue_text(&mut self, message: Message, text: String) -> Result<Next, StoreError> {
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
    pub(super) async fn wait_for_more(&mut self, message: Message) -> Result<Next, StoreError> {
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
    pub(super) async fn take_empty(&mut self, message: Message) -> Result<Next, StoreError> {
        if let Some((at, text)) = self.said_beside_calls() {
            self.reword(at).await?;
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
        let why = match message.finish_reason {
            Some(FinishReason::ContentFilter) => "The provider's content filter withheld the answer",
            _ if message.content.text().trim().is_empty() => "The model sent an empty answer three times",
            _ => "The model sent only its thinking, and no answer, three times",
        };
        self.keep(message).await?;
        match thought.filter(|text| !text.trim().is_empty()) {
            Some(thought) => self.finish(thought.trim().to_owned()),
            None => {
                self.stop_short(None, why);
            }
        }
        Ok(Next::Done)
    }

    /// The last words of this turn that stood beside a call, and their place.
    fn said_beside_calls(&self) -> Option<(usize, String)> {
        let messages = self.conversation.messages.iter().enumerate().skip(self.first);
        messages
            .filter(|(_, message)| message.role == Role::Assistant && !message.tool_calls.is_empty())
            .filter_map(|(at, message)| {
                let text = message.content.text();
                let text = hermes_text::strip_think(&text).trim().to_owned();
                (!text.is_empty()).then_some((at, text))
            })
            .next_back()
    }

    /// Words that become the answer do not stay where they were, or they would be said twice.
    async fn reword(&mut self, at: usize) -> Result<(), StoreError> {
        let from_end = self.conversation.messages.len().saturating_sub(at);
        let Some(message) = self.conversation.messages.get_mut(at) else { return Ok(()) };
        let names: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
        let plural = if names.len() == 1 { "tool" } else { "tools" };
        let words = format!("Calling the {} {plural}…", names.join(", "));
        message.content = words.clone().into();
        self.agent.store.reword(&self.conversation.session, from_end, words).await
    }
}
