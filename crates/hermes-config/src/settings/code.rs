//! The settings for scripts that the model runs.

use std::time::Duration;

use crate::Config;

/// The choice of the folder and interpreter for a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeMode {
    Project,
    Strict,
}

/// The `code_execution` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSettings {
    pub mode: CodeMode,
    pub timeout: Duration,
    pub max_tool_calls: usize,
    pub python: Option<String>,
}

impl CodeSettings {
    pub fn from_config(config: &Config) -> Self {
        Self {
            mode: match config.text("code_execution.mode").as_str() {
                "strict" => CodeMode::Strict,
                _ => CodeMode::Project,
            },
            timeout: config.seconds("code_execution.timeout"),
            max_tool_calls: config.count("code_execution.max_tool_calls"),
            python: config.non_empty_text("code_execution.python"),
        }
    }
}
