//! The sections of the configuration as plain structs, for code that should not use key paths.
//!
//! They are built from a [`Config`](crate::Config) once per reload and then only read. A section is here when some
//! crate needs it; every other key is read through the getters.

mod agent;
mod browser;
mod chat;
mod code;
mod image;
mod mcp;
mod model;
mod secrets;
mod speech;
mod terminal;
mod transcription;
mod voice;
mod web;

pub use agent::{
    AuxiliaryTaskSettings, BudgetSettings, CheckpointSettings, CompressionSettings, DelegationSettings,
    MemorySettings,
};
pub use browser::{BrowserBackend, BrowserDialogs, BrowserSettings, BrowserbaseSettings};
pub use chat::{
    ApprovalMode, ApprovalSettings, DisplaySettings, RecapSettings, ResetMode, SecuritySettings,
    SessionResetSettings, StreamingSettings, ToolProgress,
};
pub use code::{CodeMode, CodeSettings};
pub use image::{ImageProvider, ImageSettings};
pub use mcp::{McpSampling, McpServer, McpTransport};
pub use model::{CustomProvider, FallbackModel, ProviderRouting};
pub use secrets::{BitwardenSettings, OnePasswordSettings};
pub use speech::{SpeechProvider, SpeechSettings};
pub use terminal::{
    BACKEND_FACTS, BackendFacts, CommandBackend, ModalMode, SandboxMode, SandboxNetwork, TerminalSettings,
};
pub use transcription::{TranscriptionProvider, TranscriptionSettings};
pub use voice::VoiceSettings;
pub use web::{WebKeys, WebService, WebSettings};
