//! The origin of a piece of context. Every text a model reads carries this mark.

use serde::{Deserialize, Serialize};

/// The origin of a text. Only a person's text may instruct; all other text is material.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    Person,
    Model,
    Tool,
    Web,
    Memory,
    Skill,
    System,
}

/// A bounded piece of context with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextItem {
    pub provenance: Provenance,
    /// The name of the item in breakdowns: a file name, a layer, a tool.
    pub label: String,
    pub text: String,
}

impl Provenance {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Web => "web",
            Self::Memory => "memory",
            Self::Skill => "skill",
            Self::System => "system",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Person, Self::Model, Self::Tool, Self::Web, Self::Memory, Self::Skill, Self::System]
            .into_iter()
            .find(|origin| origin.as_str() == text)
    }
}
