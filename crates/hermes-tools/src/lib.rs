//! Tools the model may call, and the registry that finds them.
//!
//! So far the two that only read: files and searching in them. Each tool is one module; what the model is told about it
//! is a text beside it. A tool never fails the turn: what goes wrong is its answer.

mod file_guard;
mod read_file;
mod registry;
mod search_files;

pub use file_guard::FileGuard;
pub use read_file::ReadFile;
pub use registry::Registry;
pub use search_files::SearchFiles;
