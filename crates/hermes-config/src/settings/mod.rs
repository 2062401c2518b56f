//! The sections of the configuration as plain structs, for code that should not use key paths.
//!
//! They are built from a [`Config`](crate::Config) once per reload and then only read. A section is here when some
//! crate needs it; every other key is read through the getters.

mod agent;
mod chat;
mod code;
mod mcp;
mod model;
mod terminal;

use std::fmt;

pub use agent::{
    AgentSettings, AuxiliaryTaskSettings, BudgetSettings, CheckpointSettings, CompressionSettings,
    DelegationSettings, MemorySettings,
};
pub use chat::{
    ApprovalMode, ApprovalSettings, DisplaySettings, ResetMode, SecuritySettings, SessionResetSettings,
    StreamingSettings, ToolProgress,
};
pub use code::{CodeMode, CodeSettings};
pub use mcp::{McpSampling, McpServer, McpTransport};
pub use model::{CustomProvider, FallbackModel, ModelSettings, ProviderRouting};
pub use terminal::{ModalMode, SandboxMode, SandboxNetwork, TerminalSettings};

use crate::{Config, Env, ProgramSurface};

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

/// The sections most of the program needs.
#[derive(Debug, Clone)]
pub struct ProgramSettings {
    pub model: ModelSettings,
    pub agent: AgentSettings,
    pub terminal: TerminalSettings,
    pub compression: CompressionSettings,
    pub memory: MemorySettings,
    pub delegation: DelegationSettings,
    pub checkpoints: CheckpointSettings,
    pub budget: BudgetSettings,
    pub display: DisplaySettings,
    pub approvals: ApprovalSettings,
    pub security: SecuritySettings,
    pub session_reset: SessionResetSettings,
    pub streaming: StreamingSettings,
    pub mcp_servers: Vec<McpServer>,
}

impl ProgramSettings {
    /// Resolves file, environment and defaults for one program.
    pub fn resolve(config: &Config, env: &Env, surface: ProgramSurface) -> Self {
        Self {
            model: ModelSettings::resolve(config, env, surface),
            agent: AgentSettings::resolve(config, env, surface),
            terminal: TerminalSettings::resolve(config, env),
            compression: CompressionSettings::resolve(config, env),
            memory: MemorySettings::from_config(config),
            delegation: DelegationSettings::from_config(config),
            checkpoints: CheckpointSettings::from_config(config),
            budget: BudgetSettings::from_config(config),
            display: DisplaySettings::resolve(config, env),
            approvals: ApprovalSettings::from_config(config),
            security: SecuritySettings::resolve(config, env),
            session_reset: SessionResetSettings::resolve(config, env),
            streaming: StreamingSettings::from_config(config),
            mcp_servers: McpServer::all(config),
        }
    }
}
