//! The files by which the gateway's process is known to others: its number, its state, and the lock that keeps a second
//! one away.

mod notify;
mod number;
mod state;

pub use notify::notify_service;
pub use number::{Claim, Taken, claim, running, signal_running};
pub use state::{PlatformState, StateFile};
