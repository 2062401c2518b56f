//! Decides which models are told to act instead of announcing work.

/// Says which models are told so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolUseEnforcement {
    Always,
    #[default]
    Never,
    /// Applies to models whose names contain one of these.
    Names(Vec<String>),
}

impl ToolUseEnforcement {
    pub(crate) fn applies(&self, model: &str) -> bool {
        let model = model.to_lowercase();
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Names(names) => names.iter().any(|name| model.contains(&name.to_lowercase())),
        }
    }
}
