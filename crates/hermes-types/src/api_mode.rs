//! The wire formats of model providers, by the names that configuration files use.

/// An API format of a model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApiMode {
    Chat,
    Responses,
    Anthropic,
    Converse,
}

impl ApiMode {
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Converse];

    /// Returns the name used in configuration files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat_completions",
            Self::Responses => "codex_responses",
            Self::Anthropic => "anthropic_messages",
            Self::Converse => "bedrock_converse",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}
