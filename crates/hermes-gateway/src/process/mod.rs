//! The files by which other programs recognize the gateway's process: its pid, its state, and the locks that
//! prevent a second one.

mod lock;
mod notify;
mod pid_file;
mod sending_lock;
mod state;

pub use lock::{LockError, ScopedLock, lock, lock_folder};
pub use notify::notify_service;
pub use pid_file::{AlreadyRunning, HomeClaim, claim, running_pid, signal_running};
pub use sending_lock::SendingLock;
pub use state::{GatewayInstance, PlatformState, StateFile, instance};
