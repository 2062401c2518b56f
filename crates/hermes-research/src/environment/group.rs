//! The scored rollouts of one item, as the trainer takes them.

use hermes_text::JsonTree;
use serde_json::{Map, Value, json};

use super::agent_loop::AgentLoopResult;
use super::sequence::{MASKED, TokenSequence};
use super::tokenizer::{ChatTokenizer, SpecialTokens};

/// The tokens that stand for a conversation whose tokens are not known.
const PLACEHOLDERS: usize = 128;

/// A rollout with its score.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ScoredRollout {
    pub(crate) tokens: Vec<u32>,
    pub(crate) masks: Vec<i64>,
    pub(crate) logprobs: Option<Vec<f64>>,
    pub(crate) score: f64,
    pub(crate) messages: Vec<Value>,
}

impl ScoredRollout {
    /// Builds a scored rollout. Without known tokens, some stand for them.
    pub(crate) fn new(
        result: &AgentLoopResult,
        sequence: Option<TokenSequence>,
        score: f64,
        tokenizer: Option<&dyn ChatTokenizer>,
    ) -> Self {
        // A score that is not finite would spoil a whole batch of the trainer.
        let score = if score.is_finite() { score } else { 0.0 };
        let messages: Vec<Value> = result.messages.iter().map(with_content).collect();
        if let Some(sequence) = sequence {
            let logprobs = Some(sequence.logprobs);
            return Self { tokens: sequence.tokens, masks: sequence.masks, logprobs, score, messages };
        }
        let texts: Vec<&str> =
            messages.iter().filter_map(|message| message.get("content")?.as_str()).collect();
        let text = texts.join("\n");
        let tokens = tokenizer.and_then(|tokenizer| tokenizer.encode(&text, SpecialTokens::Include).ok());
        let tokens = tokens.filter(|tokens| !tokens.is_empty()).unwrap_or_else(|| {
            let count = (text.chars().count() / 4).clamp(1, PLACEHOLDERS);
            (0..u32::try_from(count).unwrap_or_default()).collect()
        });
        let masks = std::iter::once(MASKED).chain(tokens.iter().skip(1).map(|token| i64::from(*token)));
        Self { masks: masks.collect(), tokens, logprobs: None, score, messages }
    }
}

/// Returns a message that has a content, as the trainer's server wants it.
fn with_content(message: &Value) -> Value {
    let mut message = message.clone();
    if let Value::Object(members) = &mut message {
        members.entry("content").or_insert(Value::Null);
    }
    message
}

/// The rollouts of one item.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ScoredGroup {
    pub(crate) rollouts: Vec<ScoredRollout>,
}

/// Why a group is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupRefusal {
    /// It has fewer or more rollouts than a group is to have.
    Size,
    /// All scores are the same, so that there is nothing to learn.
    SameScores,
    /// A sequence is as long as the trainer's limit, or longer.
    Length,
}

impl ScoredGroup {
    /// Decides whether a group is worth sending.
    pub(crate) fn check(
        &self,
        size: usize,
        distinct: bool,
        max_length: Option<u64>,
    ) -> Result<(), GroupRefusal> {
        if self.rollouts.len() != size {
            return Err(GroupRefusal::Size);
        }
        let mut scores = self.rollouts.iter().map(|rollout| rollout.score.to_bits());
        let first = scores.next();
        if distinct && scores.all(|score| Some(score) == first) {
            return Err(GroupRefusal::SameScores);
        }
        let is_long =
            |rollout: &ScoredRollout| max_length.is_some_and(|most| rollout.tokens.len() as u64 >= most);
        if self.rollouts.iter().any(is_long) { Err(GroupRefusal::Length) } else { Ok(()) }
    }

    /// Returns the group as the trainer's server takes it.
    pub(crate) fn to_value(&self) -> Value {
        let mut group = Map::new();
        let mut put = |name: &str, value: Value| {
            group.insert(name.to_owned(), value);
        };
        let each =
            |part: &dyn Fn(&ScoredRollout) -> Value| -> Value { self.rollouts.iter().map(part).collect() };
        put("tokens", each(&|rollout| json!(rollout.tokens)));
        put("masks", each(&|rollout| json!(rollout.masks)));
        put("scores", each(&|rollout| json!(rollout.score)));
        put("advantages", json!([]));
        put("ref_logprobs", json!([]));
        put("messages", each(&|rollout| json!(rollout.messages)));
        let are_known = self.rollouts.iter().all(|rollout| rollout.logprobs.is_some());
        put(
            "inference_logprobs",
            if are_known { each(&|rollout| json!(rollout.logprobs)) } else { json!([]) },
        );
        put("group_overrides", json!({}));
        put("overrides", json!([]));
        put("images", json!([]));
        Value::Object(group)
    }

    /// Returns the group as a line of a file, without its end.
    pub(crate) fn to_line(&self) -> String {
        let text = self.to_value().to_string();
        JsonTree::parse(&text).map_or(text, |tree| tree.to_string())
    }

    pub(crate) fn mean_score(&self) -> f64 {
        super::definition::ratio(self.rollouts.iter().map(|rollout| rollout.score).sum(), self.rollouts.len())
    }
}
