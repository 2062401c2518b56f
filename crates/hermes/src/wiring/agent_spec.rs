//! What an agent and the process it runs in are to be like. Command-line arguments and the requests of chats, jobs
//! and API clients are both turned into these values; nothing below knows where they came from.

use hermes_agent::{ContextFiles, SessionIdLine};
use hermes_config::ProgramSurface;
use hermes_gateway::AgentRequest;
use hermes_model::provider::ProviderChoice;
use hermes_tools::{EnvironmentSharing, Yolo};
use hermes_types::ToolUser;

use crate::cli::ChatArguments;

/// Describes an agent to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentSpec {
    pub(crate) platform: String,
    /// The provider, where it is not the configured one.
    pub(crate) provider: Option<String>,
    /// The model, where it is not the configured one.
    pub(crate) model: Option<String>,
    pub(crate) base_url: Option<String>,
    /// The toolsets to use instead of the platform's; empty for those of the platform.
    pub(crate) toolsets: Vec<String>,
    /// The kind of conversation, where it does not get every tool of its platform.
    pub(crate) tool_user: Option<ToolUser>,
    /// The most model calls of a turn, where it is not the configured number.
    pub(crate) max_turns: Option<usize>,
    /// Says whether context files, memory and skills are used.
    pub(crate) rules: ContextFiles,
    pub(crate) session_id: SessionIdLine,
}

impl AgentSpec {
    /// Describes the configured agent of a platform.
    pub(crate) fn for_platform(platform: &str) -> Self {
        Self {
            platform: platform.to_owned(),
            provider: None,
            model: None,
            base_url: None,
            toolsets: Vec::new(),
            tool_user: None,
            max_turns: None,
            rules: ContextFiles::Load,
            session_id: SessionIdLine::Omit,
        }
    }

    pub(crate) fn from_arguments(arguments: &ChatArguments, platform: &str) -> Self {
        let toolsets = arguments.toolsets.as_deref().unwrap_or_default();
        Self {
            provider: arguments.provider.clone(),
            model: arguments.model.clone(),
            toolsets: trimmed(toolsets.split(',')),
            max_turns: arguments.max_turns,
            rules: if arguments.ignore_rules || arguments.safe_mode {
                ContextFiles::Skip
            } else {
                ContextFiles::Load
            },
            session_id: if arguments.pass_session_id { SessionIdLine::Include } else { SessionIdLine::Omit },
            ..Self::for_platform(platform)
        }
    }

    pub(crate) fn from_request(request: &AgentRequest<'_>) -> Self {
        let toolsets = request.toolsets.unwrap_or_default();
        Self {
            provider: request.provider.map(str::to_owned),
            model: request.model.map(str::to_owned),
            base_url: request.base_url.map(str::to_owned),
            toolsets: trimmed(toolsets.iter().map(String::as_str)),
            tool_user: request.tool_user,
            ..Self::for_platform(request.platform)
        }
    }

    pub(crate) fn provider_choice(&self) -> ProviderChoice {
        ProviderChoice {
            provider: self.provider.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            ..ProviderChoice::default()
        }
    }
}

fn trimmed<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Describes the runtime of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuntimeSpec {
    pub(crate) surface: ProgramSurface,
    /// Says whether dangerous commands run without approval, whatever the configuration says.
    pub(crate) yolo: Yolo,
    pub(crate) checkpoints: CheckpointMode,
    pub(crate) scanner: ScannerInstallation,
    /// Says which tasks share a remote environment.
    pub(crate) sharing: EnvironmentSharing,
}

/// Says whether files are saved before they are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointMode {
    Configured,
    On,
}

/// Says whether the command scanner may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScannerInstallation {
    Allowed,
    /// Not for a process that ends soon.
    Never,
}

impl RuntimeSpec {
    /// Describes the runtime of the gateway and of scheduled jobs.
    pub(crate) fn service() -> Self {
        Self {
            surface: ProgramSurface::Gateway,
            yolo: Yolo::Off,
            checkpoints: CheckpointMode::Configured,
            scanner: ScannerInstallation::Allowed,
            sharing: EnvironmentSharing::Shared,
        }
    }

    /// Describes the runtime of conversations that make training data: nobody approves anything, and each has a remote
    /// environment of its own.
    pub(crate) fn research() -> Self {
        Self {
            surface: ProgramSurface::Cli,
            scanner: ScannerInstallation::Never,
            sharing: EnvironmentSharing::PerTask,
            ..Self::service()
        }
    }

    pub(crate) fn from_arguments(arguments: &ChatArguments) -> Self {
        let is_short = arguments.query.is_some();
        let is_unasked = arguments.yolo || arguments.oneshot.is_some();
        Self {
            surface: ProgramSurface::Cli,
            yolo: if is_unasked { Yolo::On } else { Yolo::Off },
            checkpoints: if arguments.checkpoints { CheckpointMode::On } else { CheckpointMode::Configured },
            scanner: if is_short { ScannerInstallation::Never } else { ScannerInstallation::Allowed },
            sharing: EnvironmentSharing::Shared,
        }
    }
}
