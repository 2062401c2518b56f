//! Tools the model may call, and the registry that finds them.
//!
//! Each tool is one module; what the model is told about it is a text beside it. A tool never fails the turn: what goes
//! wrong is its answer. What may hold secrets is not read, by any path to it.

mod answer;
mod argument;
mod checkpoint;
mod clarify;
mod code;
mod cronjob;
mod delegate;
mod file;
mod folders;
mod memory;
mod off_thread;
mod patch;
mod process;
mod read_file;
mod reference;
mod registry;
mod search_files;
mod send_message;
mod session_search;
mod similar_files;
mod terminal;
mod todo;
mod write_file;

pub use checkpoint::{
    Checkpoint, CheckpointDiff, CheckpointError, Checkpoints, Counts, Restored, is_destructive,
};
pub use clarify::Clarify;
pub use code::{CodeMode, CodeOptions, ExecuteCode, ToolChoice};
pub use cronjob::CronJob;
pub use delegate::Delegate;
pub use file::{FileGuard, FileOptions, FileState, Files, Gutter, Lint, Linter, Secrets};
pub use folders::Folders;
pub use memory::MemoryTool;
pub use patch::Patch;
pub use process::{Announcements, Notice, NoticeKind, Process, Processes, Watch};
pub use read_file::ReadFile;
pub use reference::{References, Referred};
pub use registry::{
    Availability, Check, Registry, Resolved, Selected, Selection, ToolListing, ToolsetListing, coerce,
    toolset_names,
};
pub use search_files::SearchFiles;
pub use send_message::SendMessage;
pub use session_search::{LocalTime, SessionSearch};
pub use terminal::approval::{ApprovalMode, Approvals, Yolo};
pub use terminal::scan::{Installer, InstallerOptions, ScanFailure, ScanOptions, Scanner};
pub use terminal::{RoomOptions, Shells, Tenancy, Terminal, TerminalOptions};
pub use todo::Todo;
pub use write_file::WriteFile;
