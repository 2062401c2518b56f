//! What turns messages into the tokens of a model and back.

use serde_json::Value;

/// The tokenizer and the chat template of a model.
pub trait ChatTokenizer: Send + Sync {
    /// Returns the tokens of a text, with those that the tokenizer puts around a whole text or without.
    fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>, String>;

    /// Returns the text of tokens.
    fn decode(&self, tokens: &[u32], special: SpecialTokens) -> Result<String, String>;

    /// Writes a conversation the way the model reads it; with `generation`, up to where its answer begins.
    fn render(&self, messages: &[Value], tools: &[Value], generation: bool) -> Result<String, String>;

    /// Returns the token with which every text begins, if there is one.
    fn first_token(&self) -> Option<u32>;
}

/// Says whether tokens that are no text are added, or kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    Include,
    Omit,
}
