//! What environments elsewhere have in common: a container, another machine.
//!
//! A command travels to a bash there through the standard input of a client program (`docker`, `ssh`, …), never through
//! an argument list, so it may be long and hold secrets. The shell frames what it says with marks only this call knows;
//! by them we tell the client's own words from the command's, learn the exit code and folder, and know which process
//! group to end over there. Nothing here knows which client it is.

pub(crate) mod base64;
mod berth;
mod cli;
mod converse;
mod distant;
mod files;
mod forward;
mod frames;
mod names;
mod per_task;
mod process;
pub(crate) mod records;
mod script;
pub(crate) mod service;
mod shell;
mod site;
mod terminal;

use hermes_types::Cancel;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use berth::{Berth, Left, Made, Maker};
pub(crate) use cli::{
    Cli, CliError, Form, Found, Profile, Reach, bash_fed_by_script, bash_fed_with_base64, find_program,
};
pub(crate) use converse::{Heard, Line, Speech};
pub use distant::Distant;
pub use files::{Bearings, FileError, Look, RemoteFiles, Survey};
pub use forward::Forwarded;
pub(crate) use frames::{Framed, Frames};
pub(crate) use names::{fnv, safe_name};
pub(crate) use per_task::PerTask;
pub use process::{RemoteProcess, RemoteState};
pub(crate) use script::{end_group, payload};
pub(crate) use shell::{Called, RemoteShell, removal};
pub(crate) use site::Site;
pub use site::{Room, Seat};

/// What a command is said to have ended with when its time was up.
pub(crate) const TIMED_OUT: i32 = 124;
/// And when somebody stopped it.
pub(crate) const INTERRUPTED: i32 = 130;

/// The lock, or none if the call is stopped while it waits for it.
pub(crate) async fn lock_unless<'a, T>(lock: &'a Mutex<T>, cancel: &Cancel) -> Option<MutexGuard<'a, T>> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        held = lock.lock() => Some(held),
    }
}

/// What a stopped call adds to its output.
pub(crate) const INTERRUPTED_NOTE: &str = "\n[Command interrupted]";
