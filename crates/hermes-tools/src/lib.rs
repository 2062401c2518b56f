//! The tools that a model may call, and the registry that finds them.
//!
//! Each tool is one module; its description for the model is a text file in the same folder. Invariants: a tool
//! never fails the turn, because its errors are returned as its result; files that may hold secrets are not
//! read by any path that leads to them.

mod answer;
mod argument;
mod browser;
mod built_in;
mod checkpoint;
mod clarify;
mod code;
mod cronjob;
mod delegate;
mod edge_voice;
mod file;
mod folders;
mod homeassistant;
mod image;
mod memory;
mod mixture;
mod off_thread;
mod patch;
mod process;
mod read_file;
mod reference;
mod registry;
mod rl;
mod search_files;
mod send_message;
mod session_search;
mod similar_files;
mod skills;
mod speech;
mod task_variables;
mod terminal;
mod todo;
mod tool_reference;
mod tool_search;
mod transcription;
mod vision;
mod web;
mod write_file;

pub use browser::{BrowserAccess, BrowserTool};
pub use built_in::BUILT_IN_TOOLS;
pub use checkpoint::{
    ChangeCounts, Checkpoint, CheckpointDiff, CheckpointError, CheckpointManager, CheckpointProject,
    CheckpointRetention, CheckpointStorage, OrphanedProjects, RestoreReport, is_destructive,
};
pub use clarify::ClarifyTool;
pub use code::{CallableTools, CodeExecutionMode, CodeOptions, ExecuteCodeTool};
pub use cronjob::CronJobTool;
pub use delegate::DelegateTool;
pub use file::{
    FileGuard, FileOptions, FileTools, LineNumberStyle, LintResult, Linter, SecretMasking, TaskFileState,
};
pub use folders::TaskFolders;
pub use homeassistant::{HomeAssistantAccess, HomeAssistantTool};
pub use image::{ImageMaker, ImageTool};
pub use memory::{MemoryRules, MemoryTool};
pub use mixture::{MixtureModels, MixtureTool};
pub use patch::PatchTool;
pub use process::{
    ProcessNotice, ProcessNoticeKind, ProcessNoticeSink, ProcessNotificationLevel, ProcessRegistry,
    ProcessTool, RunningProcess,
};
pub use read_file::ReadFileTool;
pub use reference::{RUNS_NOTHING, ReferenceResolver, ReferenceResult};
pub use registry::{
    Availability, AvailabilityCheck, InPresets, PlatformToolsets, SelectedTools, TOOLSETS, ToolListing,
    ToolRegistry, ToolSelection, Toolset, ToolsetListing, ToolsetSwitch, coerce, is_of_server,
};
pub use rl::{MetricsService, RlSession, RlTool, TrainerAccess, describe_trainer_environments};
pub use search_files::SearchFilesTool;
pub use send_message::SendMessageTool;
pub use session_search::{LocalTime, SessionSearchTool};
pub use skills::{InlineShell, SkillManageTool, SkillSource, SkillViewTool, SkillsListTool};
pub use speech::{Speaker, SpeechTool, SpokenFile};
pub use task_variables::TaskVariables;
pub use terminal::approval::{Approvals, CommandApprovalMode, Yolo};
pub use terminal::scan::{
    CommandScanner, ScanFailurePolicy, ScanOptions, ScannerInstaller, ScannerInstallerOptions,
};
pub use terminal::{EnvironmentPoolOptions, EnvironmentSharing, TaskShells, TerminalOptions, TerminalTool};
pub use todo::TodoTool;
pub use tool_reference::tools_markdown;
pub use tool_search::{TOOL_SEARCH_TOOLSET, ToolSearchMode, ToolSearchOptions, defer_tools};
pub use transcription::Transcriber;
pub use vision::{PictureFailure, PictureReader, VisionTool, data_url, load_picture};
pub use web::{LazyHttpClient, WebAccess, WebAddresses, WebExtractTool, WebSearchTool, WebsitePolicy};
pub use write_file::WriteFileTool;
