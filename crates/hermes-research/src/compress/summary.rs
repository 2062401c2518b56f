//! Asks a model for the summary of some turns.

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock, Deadline, Message, Model, ModelRequest};

use super::config::TrajectoryLimits;
use super::sample::SampleGenerator;
use crate::trajectory::TrajectoryTurn;

const REQUEST: &str = include_str!("request.md").trim_ascii_end();
const PREFIX: &str = "[CONTEXT SUMMARY]:";
const UNAVAILABLE: &str =
    "[The summary of this part of the conversation could not be produced; its turns were removed.]";
/// The length from which a turn is cut, and what is kept of its beginning and its end.
const LONG: usize = 3000;
const HEAD: usize = 1500;
const TAIL: usize = 500;
/// The longest wait between two requests.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Limits one request.
const REQUEST_LIMIT: Duration = Duration::from_mins(10);

/// A model that writes summaries.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SummaryModel {
    pub model: Arc<dyn Model>,
    pub name: String,
    pub clock: Arc<dyn Clock>,
}

/// A summary, and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrittenSummary {
    pub(super) text: String,
    pub(super) calls: u64,
    pub(super) errors: u64,
}

/// Returns the turns as the model reads them. `first` is the number of the first one.
pub fn summary_input(turns: &[TrajectoryTurn], first: usize) -> String {
    let parts = turns.iter().enumerate().map(|(at, turn)| {
        let role = turn.from.to_uppercase();
        format!("[Turn {} - {role}]:\n{}", first + at, shortened(&turn.value))
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

fn shortened(value: &str) -> String {
    let count = value.chars().count();
    if count <= LONG {
        return value.to_owned();
    }
    let head: String = value.chars().take(HEAD).collect();
    let tail: String = value.chars().skip(count - TAIL).collect();
    format!("{head}\n...[truncated]...\n{tail}")
}

/// Puts the prefix before a summary, exactly once.
fn with_prefix(text: &str) -> String {
    let text = text.trim();
    match text {
        "" => PREFIX.to_owned(),
        text if text.starts_with(PREFIX) => text.to_owned(),
        text => format!("{PREFIX} {text}"),
    }
}

impl SummaryModel {
    /// Asks for a summary, again after a failure. When all requests failed, a sentence says so.
    pub(super) async fn summarize(
        &self,
        turns: &[TrajectoryTurn],
        first: usize,
        settings: &TrajectoryLimits,
        cancel: &Cancel,
    ) -> WrittenSummary {
        let tokens = settings.summary_tokens;
        let text =
            REQUEST.replace("{tokens}", &tokens.to_string()).replace("{turns}", &summary_input(turns, first));
        // Models of this family have a temperature of their own.
        let has_own =
            self.name.to_lowercase().contains("kimi") || self.name.to_lowercase().contains("moonshot");
        let request = ModelRequest {
            model: self.name.clone(),
            system: String::new(),
            messages: vec![Message::user(text)],
            tools: Arc::default(),
            max_tokens: Some(tokens.saturating_mul(2)),
            temperature: (!has_own).then_some(settings.summary.temperature),
            effort: None,
            session: None,
            deadline: Deadline::after(&*self.clock, REQUEST_LIMIT),
            cancel: cancel.clone(),
        };
        let mut errors = 0;
        for attempt in 0..settings.summary.attempts {
            if attempt > 0 {
                self.clock.sleep(wait(attempt, settings.summary.retry_delay)).await;
            }
            let request =
                ModelRequest { deadline: Deadline::after(&*self.clock, REQUEST_LIMIT), ..request.clone() };
            match self.model.complete(&request, &mut |_| ()).await {
                Ok(completion) => {
                    let said = completion.message.content.text();
                    let text = hermes_text::strip_think(&said);
                    return WrittenSummary {
                        text: with_prefix(&text),
                        calls: u64::from(attempt) + 1,
                        errors,
                    };
                }
                Err(error) => {
                    errors += 1;
                    tracing::warn!(%error, "a summary was not written");
                    if cancel.is_cancelled() {
                        break;
                    }
                }
            }
        }
        let calls = u64::from(settings.summary.attempts);
        WrittenSummary { text: with_prefix(UNAVAILABLE), calls, errors }
    }
}

/// Returns the wait before a further request: it doubles, up to a limit, with up to a half more by chance.
fn wait(attempt: u32, first: Duration) -> Duration {
    let doubled = first.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX)).min(MAX_WAIT);
    let seed = u32::from_str_radix(&hermes_types::random_hex(8), 16).unwrap_or_default();
    doubled + doubled.mul_f64(SampleGenerator::new(seed).unit() / 2.0)
}
