//! A request to a model and the pieces of its answer, the same for every provider.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::clock::Deadline;
use crate::message::Message;
use crate::tool::ToolSpec;
use crate::usage::{Cost, Usage};
use crate::{Cancel, raw_json::RawJson};

/// The amount of reasoning requested from the model.
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

    /// Parses a configured value. Newer levels above the strongest known one map to the strongest; an unknown value
    /// gives no level.
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

/// One request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub model: String,
    /// The fixed prefix. It never changes within a session, so that provider caches stay valid.
    pub system: String,
    pub messages: Vec<Message>,
    /// Shared by all requests of an agent.
    pub tools: Arc<[ToolSpec]>,
    pub max_tokens: Option<u64>,
    pub temperature: Option<f32>,
    pub effort: Option<ReasoningEffort>,
    /// The session the request belongs to, for caching and routing by the provider.
    pub session: Option<String>,
    pub deadline: Deadline,
    pub cancel: Cancel,
}

/// A piece of an answer as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    /// The answer shown so far is discarded: it was cut off, and the next attempt replaces it.
    Restart,
    Reasoning(String),
    /// A tool call has begun; its arguments are still streaming.
    ToolStarted {
        name: String,
    },
    /// A status text for people about the provider layer: a retry, or a switch to a fallback.
    Status(String),
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub message: Message,
    pub usage: Option<Usage>,
    pub cost: Cost,
    /// The model that actually answered.
    pub model: String,
    pub provider: String,
    pub response_id: Option<String>,
    /// The answer as the provider sent it, where a later request has to include it.
    pub provider_items: Option<RawJson>,
}

/// The reason why there is no answer. The variants follow what the caller can do about it.
///
/// The provider layer has already tried retries, key rotation and fallbacks when it returns one of these.
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
    /// The provider refused the request or failed permanently.
    #[error("{message}")]
    GiveUp { message: String, status: Option<u16> },
}
