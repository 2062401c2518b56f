//! The files by which the gateway's process is known to others: its number, its state, and the locks that keep a second
//! one away.

mod lock;
mod notify;
mod pid_file;
mod sending_lock;
mod state;

pub use lock::{LockError, ScopedLock, lock, lock_folder};
pub use notify::notify_service;
pub use pid_file::{AlreadyRunning, HomeClaim, claim, running_pid, signal_running};
pub use sending_lock::SendingLock;
pub use state::{PlatformState, StateFile};
