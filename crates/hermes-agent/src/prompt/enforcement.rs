//! Decides which models are told to act instead of announcing work.

/// Parts of the names of models that tend to announce work instead of doing it.
const DEFAULT_MODEL_NAMES: [&str; 8] = ["gpt", "codex", "gemini", "gemma", "grok", "glm", "qwen", "deepseek"];

/// The setting `agent.tool_use_enforcement`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolUseEnforcement {
    /// Decides by the model's name.
    #[default]
    Auto,
    Always,
    Never,
    /// Applies to models whose names contain one of these.
    Names(Vec<String>),
}

impl ToolUseEnforcement {
    /// Parses the setting's value.
    pub fn parse(text: &str) -> Self {
        match text.trim().to_lowercase().as_str() {
            "true" | "always" | "yes" | "on" => Self::Always,
            "false" | "never" | "no" | "off" => Self::Never,
            _ => Self::Auto,
        }
    }

    pub(crate) fn applies(&self, model: &str) -> bool {
        let model = model.to_lowercase();
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => DEFAULT_MODEL_NAMES.iter().any(|name| model.contains(name)),
            Self::Names(names) => names.iter().any(|name| model.contains(&name.to_lowercase())),
        }
    }
}
