//! The common parts of remote environments, such as a container or another machine.
//!
//! A command travels to a remote bash through the standard input of a client program (`docker`, `ssh`, …),
//! never through an argument list, so it may be long and hold secrets. The shell frames its output with marks
//! that only this call knows. They separate the client's own messages from the command's output, and carry
//! the exit code, the folder and the process group to end remotely. Nothing here depends on which client it
//! is.

pub(crate) mod base64;
mod cli;
mod environment;
mod files;
mod forwarded_variables;
mod frame_parser;
mod managed_instance;
mod names;
mod per_task;
mod process_handle;
pub(crate) mod records;
mod remote_process;
mod script;
mod script_transport;
pub(crate) mod service;
mod shell;
mod terminal;

use hermes_types::Cancel;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use cli::{
    CliError, CliTransport, ClientProgram, CommandForm, ProfileLoading, ProgramLookup, bash_fed_by_script,
    bash_fed_with_base64, find_program,
};
pub(crate) use environment::ShellHost;
pub use environment::{RemoteEnvironment, RemoteShellSession};
pub use files::{RemoteFileError, RemoteFiles, RemoteLocation, RemotePathInfo, RemotePathKind};
pub use forwarded_variables::ForwardedVariables;
pub(crate) use frame_parser::{FrameParser, FramedOutput};
pub(crate) use managed_instance::{AfterCommand, Instance, InstanceProvider, ManagedInstance};
pub(crate) use names::{fnv, safe_name};
pub(crate) use per_task::PerTaskCache;
pub use process_handle::{RemoteProcessHandle, RemoteProcessState};
pub use remote_process::RemoteProcess;
pub(crate) use script::{end_group_script, payload};
pub(crate) use script_transport::{ScriptRequest, ScriptResponse, ScriptTransport};
pub(crate) use shell::{CallResult, RemoteShell, removal_line};

/// The exit code reported for a command whose time limit expired.
pub(crate) const TIMED_OUT: i32 = 124;
/// The exit code reported for a command that was interrupted.
pub(crate) const INTERRUPTED: i32 = 130;

/// Returns the lock, or `None` if the call is cancelled while it waits for it.
pub(crate) async fn lock_unless_cancelled<'a, T>(
    lock: &'a Mutex<T>,
    cancel: &Cancel,
) -> Option<MutexGuard<'a, T>> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        held = lock.lock() => Some(held),
    }
}

/// The text appended to the output of an interrupted call.
pub(crate) const INTERRUPTED_NOTE: &str = "\n[Command interrupted]";
