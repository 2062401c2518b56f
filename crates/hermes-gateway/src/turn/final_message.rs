//! Composes the final message of a turn.

use hermes_agent::{NO_RESPONSE, TurnEnding, TurnResult};
use hermes_types::ModelError;

use crate::active_conversations::StopReason;

/// The most lines of reasoning that are shown.
const LONGEST_THOUGHTS: usize = 15;

/// Returns the final message of a turn; none for one that was stopped.
pub(super) fn final_message(
    result: &TurnResult,
    stopped: Option<StopReason>,
    show_reasoning: bool,
) -> Option<String> {
    let without_text = |reason: Option<&str>| match reason {
        Some(reason) => format!("{NO_RESPONSE}\n\n{reason}"),
        None => NO_RESPONSE.to_owned(),
    };
    Some(match result.ending() {
        TurnEnding::Interrupted { .. } if stopped.is_some() => return None,
        TurnEnding::Answered(text)
        | TurnEnding::CutShort(text)
        | TurnEnding::Interrupted { text: Some(text) }
        | TurnEnding::Failed { text: Some(text), failure: None, .. } => {
            let thoughts =
                result.last_reasoning.as_deref().filter(|_| show_reasoning).and_then(format_reasoning);
            thoughts.map_or_else(|| text.to_owned(), |thoughts| format!("{thoughts}\n\n{text}"))
        }
        TurnEnding::Failed { text, reason, failure: Some(failure) } => {
            let words = describe_failure(failure, reason);
            text.map_or_else(|| words.clone(), |text| format!("{text}\n\n{words}"))
        }
        TurnEnding::Silent { reason } | TurnEnding::Failed { reason, .. } => without_text(reason),
        TurnEnding::Interrupted { text: None } => without_text(result.error.as_deref()),
    })
}

/// Formats the model's reasoning as a block, cut after [`LONGEST_THOUGHTS`] lines.
fn format_reasoning(reasoning: &str) -> Option<String> {
    let lines: Vec<&str> = reasoning.trim().lines().collect();
    let shown = lines.get(..lines.len().min(LONGEST_THOUGHTS))?.join("\n").replace("```", "'''");
    let left = lines.len().saturating_sub(LONGEST_THOUGHTS);
    let more = if left > 0 { format!("\n... ({left} more lines)") } else { String::new() };
    (!shown.is_empty()).then(|| format!("💭 **Reasoning:**\n```\n{shown}{more}\n```"))
}

/// Describes a model failure and what the user can do about it.
fn describe_failure(failure: &ModelError, error: Option<&str>) -> String {
    let detail: String = error.unwrap_or_default().chars().take(300).collect();
    match failure {
        ModelError::TooLarge | ModelError::Compress { .. } => {
            "⚠️ Session too large for the model's context window. /compact shortens it, /reset starts a new conversation."
                .to_owned()
        }
        ModelError::Configure(_) => format!("⚠️ Provider authentication failed: {detail}"),
        ModelError::Budget(_) => format!("⚠️ {detail}"),
        ModelError::GiveUp { status: Some(401 | 403), .. } => {
            format!("⚠️ Provider authentication failed: {detail}\n\nCheck the provider's key.")
        }
        ModelError::GiveUp { status, .. } => {
            let hint = match status {
                Some(429) => "The provider's rate limit is reached; try again in a while.",
                Some(529 | 503) => "The provider is overloaded; try again in a while.",
                Some(400) => "The provider rejected the request.",
                _ => "Try again in a while.",
            };
            let kind = status_kind(*status);
            format!("Sorry, I encountered an error ({kind}).\n{detail}\n\n{hint} /reset starts a new conversation.")
        }
        ModelError::Cancelled | ModelError::DeadlinePassed(_) => {
            format!(
                "Sorry, I encountered an error (Timeout).\n{detail}\n\nTry again, or /reset to start a new conversation."
            )
        }
    }
}

/// Returns the kind of a failure in one word.
fn status_kind(status: Option<u16>) -> &'static str {
    match status {
        Some(429) => "RateLimit",
        Some(503 | 529) => "Overloaded",
        Some(400..=499) => "Rejected",
        Some(_) => "ServerError",
        None => "ConnectionError",
    }
}
