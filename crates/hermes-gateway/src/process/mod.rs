//! The files by which the gateway's process is known to others: its number, its state, and the locks that keep a second
//! one away.

mod lock;
mod notify;
mod number;
mod sending;
mod state;

pub use lock::{LockError, ScopedLock, lock, lock_folder};
pub use notify::notify_service;
pub use number::{Claim, Taken, claim, running, signal_running};
pub use sending::SendingRight;
pub use state::{PlatformState, StateFile};
