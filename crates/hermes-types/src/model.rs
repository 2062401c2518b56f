//! A question to a model and the pieces of its answer, the same for every provider.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::clock::Deadline;
use crate::message::Message;
use crate::tool::ToolSpec;
use crate::usage::{Cost, Usage};
use crate::{Cancel, raw_json::RawJson};

/// How hard the model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

impl ReasoningEffort {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }

    /// Reads a configured value; the strongest newer levels map to the strongest we know, anything else to none given.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "max" | "ultra" => Some(Self::Xhigh),
            _ => [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh]
                .into_iter()
                .find(|effort| effort.as_str() == text),
        }
    }
}

/// One call to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub model: String,
    /// The fixed prefix. Never changes within a session, so that provider caches stay warm.
    pub system: String,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub max_tokens: Option<u64>,
    pub temperature: Option<f32>,
    pub effort: Option<ReasoningEffort>,
    /// Ties the call to its session for provider-side caching and routing.
    pub session: Option<String>,
    pub deadline: Deadline,
    pub cancel: Cancel,
}

/// A piece of an answer as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    /// What was shown of this answer no longer holds: it was cut off, and the next attempt says something else.
    Restart,
    Reasoning(String),
    /// A tool call has begun; its arguments are still streaming.
    ToolStarted {
        name: String,
    },
    /// Words about what the provider layer is doing, for a person: a retry, a switch to a fallback.
    Status(String),
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub message: Message,
    pub usage: Option<Usage>,
    pub cost: Cost,
    /// The model that really answered.
    pub model: String,
    pub provider: String,
    pub response_id: Option<String>,
    /// The answer as the provider sent it, where a later request needs it back.
    pub provider_items: Option<RawJson>,
}

/// Why there is no answer, named for what the caller can do about it.
///
/// Retries, key rotation and fallback have already been tried by the provider layer when one of these comes out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    #[error("the conversation no longer fits the model's context window{}", .limit.map(|n| format!(" of {n} tokens")).unwrap_or_default())]
    Compress { limit: Option<u64> },
    #[error("the request is too large for the provider (HTTP 413)")]
    TooLarge,
    #[error("{0}")]
    Budget(String),
    #[error("interrupted")]
    Cancelled,
    #[error("no answer within the time limit: {0}")]
    DeadlinePassed(String),
    #[error("{0}")]
    Configure(String),
    /// The provider refused or failed for good.
    #[error("{message}")]
    GiveUp { message: String, status: Option<u16> },
}
