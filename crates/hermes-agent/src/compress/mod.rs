//! Shortens a conversation and keeps what it is about.
//!
//! The steps, in order: old tool results move to files and leave one line behind; if that is not enough, the
//! middle is summarized; if that is still not enough, newer results move too. The user's first and latest
//! messages, the open tasks and the files touched always stay. Invariants: every pass makes the conversation
//! strictly smaller or is not applied; nothing is dropped because no summary could be produced; the full
//! conversation stays in the database, in the session this one continues.

mod assemble;
mod cut;
mod digest;
mod files;
mod preview;
mod summary;

use hermes_store::{Error as StoreError, NewMessage, NewSession};
use hermes_types::{MemorySessionChange, Message, MessageContent, ModelError, Role, SessionId, ToolEvent};

use crate::agent::memory_place;
use crate::conversation::collect_carry_over;
use crate::prompt;
use crate::turn::gauge::{Gauge, message_tokens};
use crate::turn::{TurnCapacity, TurnScope, TurnTranscript};
use crate::working_place;

pub use preview::CompressionPreview;
pub(crate) use summary::is_summary;

/// The length below which a result is not moved to a file.
const MIN_ARCHIVED_CHARS: usize = 200;
const MIN_ARCHIVED_CHARS_LATE: usize = 1_000;
/// The divisor that gives the smallest saving worth a new session: one part in this many.
const MIN_SAVING_DIVISOR: u64 = 20;
/// The notice for a pass that would save too little.
const CANNOT_SHRINK: &str =
    "The conversation cannot be made smaller any more. Start afresh with /new when it no longer fits.";
/// Token estimates for the shortest useful summary and for the line that replaces an archived result.
const SHORTEST_SUMMARY: u64 = 150;
const ARCHIVED_RESULT_TOKENS: u64 = 60;
/// The number of newest messages whose results are never archived.
const PROTECTED_MESSAGES: usize = 4;
/// The share of the threshold below which archiving old results is enough.
const SUFFICIENT_RATIO: f64 = 0.6;

/// The result of a compression, for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionReport {
    pub messages_before: usize,
    pub messages_after: usize,
    pub tokens_before: u64,
    pub tokens_after: u64,
}

/// One attempt to shorten the conversation of a turn.
pub(crate) struct CompressionPass<'t, 'a> {
    scope: &'a TurnScope<'a>,
    transcript: &'t mut TurnTranscript<'a>,
    capacity: &'t TurnCapacity<'a>,
}

impl<'t, 'a> CompressionPass<'t, 'a> {
    pub(crate) fn new(transcript: &'t mut TurnTranscript<'a>, capacity: &'t TurnCapacity<'a>) -> Self {
        Self { scope: transcript.scope, transcript, capacity }
    }

    /// Makes the conversation smaller, or leaves it unchanged and returns `None`.
    pub(crate) async fn run(mut self, focus: Option<&str>) -> Result<Option<CompressionReport>, StoreError> {
        let tokens_before = self.capacity.size(self.transcript.conversation);
        let messages_before = self.transcript.conversation.messages.len();
        let sum: u64 = self.transcript.conversation.messages.iter().map(message_tokens).sum();
        if !self.could_shrink(sum, tokens_before) {
            self.scope.show_notice(CANNOT_SHRINK.to_owned());
            return Ok(None);
        }
        self.scope.agent.flush_memories(self.transcript.conversation, self.scope.cancel).await;
        if self.scope.cancel.is_cancelled() {
            return Ok(None);
        }
        let mut shorter = self.archive_results(
            &self.transcript.conversation.messages,
            MIN_ARCHIVED_CHARS,
            self.old_results_end(),
        );
        if !self.is_enough(sum, &shorter, tokens_before) || focus.is_some() {
            let protect = self.scope.agent.compression.protect_last;
            if let Some(summed) = self.summarize_middle(&shorter, protect, focus).await? {
                shorter = summed;
            }
        }
        if self.estimate_with(sum, &shorter, tokens_before) >= self.threshold() {
            let keep = shorter.len().saturating_sub(PROTECTED_MESSAGES);
            shorter = self.archive_results(&shorter, MIN_ARCHIVED_CHARS_LATE, keep);
        }
        if self.estimate_with(sum, &shorter, tokens_before) >= self.threshold()
            && let Some(summed) = self.summarize_middle(&shorter, PROTECTED_MESSAGES, focus).await?
        {
            shorter = summed;
        }
        if self.scope.cancel.is_cancelled() {
            return Ok(None);
        }
        let after = self.estimate_with(sum, &shorter, tokens_before);
        if !is_worth_it(after, tokens_before) {
            self.scope.show_notice(CANNOT_SHRINK.to_owned());
            return Ok(None);
        }
        self.continue_in_new_session(shorter).await?;
        let compressed = CompressionReport {
            messages_before,
            messages_after: self.transcript.conversation.messages.len(),
            tokens_before,
            tokens_after: self.capacity.size(self.transcript.conversation),
        };
        self.scope.show_notice(format!(
            "Context compressed: {messages_before} → {} messages, about {tokens_before} → {} tokens. It goes on as session {}.",
            compressed.messages_after, compressed.tokens_after, self.transcript.conversation.session
        ));
        Ok(Some(compressed))
    }

    fn threshold(&self) -> u64 {
        self.capacity.threshold(self.transcript.conversation)
    }

    /// Tells, without asking a model, whether a pass could save enough in the best case.
    fn could_shrink(&self, sum: u64, measured: u64) -> bool {
        let messages = &self.transcript.conversation.messages;
        let full = measured >= self.threshold();
        let settings = self.scope.agent.compression;
        let (protect, worth, end) = if full {
            let protect = settings.protect_last.min(PROTECTED_MESSAGES);
            (protect, MIN_ARCHIVED_CHARS_LATE, messages.len().saturating_sub(PROTECTED_MESSAGES))
        } else {
            (settings.protect_last, MIN_ARCHIVED_CHARS, self.old_results_end())
        };
        let middle =
            cut::range_to_summarize(messages, settings.protect_first, protect, 0).unwrap_or_default();
        let mut left: u64 = if middle.is_empty() { 0 } else { SHORTEST_SUMMARY };
        for (at, message) in messages.iter().enumerate().filter(|(at, _)| !middle.contains(at)) {
            let retires = message.role == Role::Tool
                && at < end
                && message.content.text().chars().count() > worth.min(MIN_ARCHIVED_CHARS_LATE);
            let tokens = message_tokens(message);
            left += if retires { tokens.min(ARCHIVED_RESULT_TOKENS) } else { tokens };
        }
        is_worth_it(self.scale_estimate(sum, left, measured), measured)
    }

    /// Estimates the size with other messages: the measured size less what was removed.
    fn estimate_with(&self, sum: u64, messages: &[Message], measured: u64) -> u64 {
        self.scale_estimate(sum, messages.iter().map(message_tokens).sum(), measured)
    }

    fn scale_estimate(&self, sum: u64, now: u64, measured: u64) -> u64 {
        let prefix = self.capacity.prefix_size(self.transcript.conversation);
        // The provider may count more tokens than we do; removed messages then save more, in the same proportion.
        let words = measured.saturating_sub(prefix).max(1);
        let scaled = u128::from(words) * u128::from(now) / u128::from(sum.max(1));
        prefix.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    fn is_enough(&self, sum: u64, messages: &[Message], measured: u64) -> bool {
        (self.estimate_with(sum, messages, measured) as f64) < self.threshold() as f64 * SUFFICIENT_RATIO
    }

    /// Returns the index before which results count as old.
    fn old_results_end(&self) -> usize {
        let recent = self.scope.agent.compression.protect_last.saturating_mul(3);
        self.transcript.conversation.messages.len().saturating_sub(recent)
    }

    /// Returns the messages, with results before `end` moved to files.
    fn archive_results(&self, messages: &[Message], worth: usize, end: usize) -> Vec<Message> {
        let mut copies = messages.to_vec();
        for message in copies.iter_mut().take(end).filter(|message| message.role == Role::Tool) {
            let text = message.content.text();
            if text.chars().count() <= worth || text.starts_with("[Old tool output cleared") {
                continue;
            }
            let Some(call) = message.tool_call_id.clone() else { continue };
            let stand_in =
                self.transcript.result_store.archive(&self.transcript.conversation.session, &call, &text);
            message.content = MessageContent::Text(stand_in);
        }
        copies
    }

    /// Returns the messages with their middle replaced by a summary, or `None` when there is no middle.
    async fn summarize_middle(
        &mut self,
        messages: &[Message],
        protect_last: usize,
        focus: Option<&str>,
    ) -> Result<Option<Vec<Message>>, StoreError> {
        let settings = self.scope.agent.compression;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "token counts are far below 2^52, the share is between 0 and 1"
        )]
        let tail_budget = (self.threshold() as f64 * settings.target_ratio) as u64;
        let Some(middle) =
            cut::range_to_summarize(messages, settings.protect_first, protect_last, tail_budget)
        else {
            return Ok(None);
        };
        let within = messages.get(middle.clone()).unwrap_or_default();
        let previous = messages.iter().find(|message| is_summary(message)).cloned();
        let external = match &self.scope.agent.external_memory {
            Some(memory) => {
                let place = memory_place(self.scope.agent, &self.transcript.conversation.session);
                memory.before_compression(place, within).await
            }
            None => None,
        };
        let ask = summary::SummaryRequest {
            messages: within,
            previous: previous.as_ref(),
            focus,
            extra: external.as_deref(),
            cap: (self.capacity.window(self.transcript.conversation) / 20).min(12_000),
        };
        let words = match summary::request_summary(
            self.scope.agent,
            &ask,
            self.scope.deadline,
            self.scope.cancel,
        )
        .await
        {
            Ok((words, completion)) => {
                self.transcript.charges.record(&self.transcript.conversation.session, (&completion).into());
                self.transcript.charges.wait().await?;
                words
            }
            // The caller sees the interrupt and leaves the conversation unchanged.
            Err(ModelError::Cancelled) => return Ok(None),
            Err(error) => {
                self.scope.show_notice(format!(
                    "The summary could not be made ({error}). A digest made here takes its place; nothing was dropped from the database."
                ));
                digest::digest(within, ask.cap)
            }
        };
        let kept_words = instruction_to_keep(messages, &middle);
        let touched = files::touched_paths(previous.as_ref(), within);
        let carried = collect_carry_over(&self.scope.agent.tools, &self.transcript.conversation.task);
        let text = summary::format_summary(&words, kept_words.as_deref(), &touched);
        Ok(Some(assemble::assemble(messages, middle, &text, carried.as_deref())))
    }

    /// Continues in a new session that begins with these messages.
    async fn continue_in_new_session(&mut self, messages: Vec<Message>) -> Result<(), StoreError> {
        let agent = self.scope.agent;
        let old = self.transcript.conversation.session.clone();
        let now = agent.clock.now();
        let id = SessionId::generate(self.transcript.conversation.kind, agent.today());
        let system = prompt::join(&agent.prompt_layers(&id));
        let mut session = NewSession::new(id.clone(), self.transcript.conversation.source.clone(), now);
        session.model = Some(agent.models.name.clone());
        session.user_id.clone_from(&self.transcript.conversation.user_id);
        session.parent = Some(old.clone());
        session.system_prompt = Some(system.clone());
        working_place::record(&mut session, &agent.prompt.folder);
        let rows = messages.iter().map(|message| NewMessage::new(message.clone(), now)).collect();
        agent.store.split_session(&old, session, rows, now).await?;
        self.transcript.leased_session.move_to(id.clone());
        for tool in &agent.tools {
            tool.on_event(&self.transcript.conversation.task, ToolEvent::Compressed);
        }
        if let Some(memory) = &agent.external_memory {
            memory.session_changed(MemorySessionChange::Compressed { from: &old, to: &id });
        }
        self.transcript.conversation.session = id;
        self.transcript.conversation.system = Some(system);
        self.transcript.conversation.messages = messages;
        self.transcript.conversation.gauge = Gauge::default();
        self.transcript.conversation.pressure_reported = false;
        self.transcript.conversation.started_at = now;
        Ok(())
    }
}

/// Returns the user's latest message if it lies in the part to be summarized.
fn instruction_to_keep(messages: &[Message], middle: &std::ops::Range<usize>) -> Option<String> {
    // Messages that Hermes itself writes in the user role all begin with one of these.
    let is_own = |message: &Message| {
        let text = message.content.text();
        text.starts_with("[System:") || text.starts_with("[Your active task list")
    };
    let at = messages.iter().rposition(|message| message.role == Role::User && !is_own(message))?;
    if !middle.contains(&at) {
        return None;
    }
    let message = messages.get(at)?;
    (!is_summary(message)).then(|| message.content.text().into_owned())
}

/// Tells whether a pass saves enough to justify a new session.
fn is_worth_it(after: u64, before: u64) -> bool {
    after.saturating_mul(MIN_SAVING_DIVISOR) <= before.saturating_mul(MIN_SAVING_DIVISOR - 1)
}
