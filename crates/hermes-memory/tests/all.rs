//! Memory services, against emulators of them.

#[path = "all/engines.rs"]
mod engines;
#[path = "all/failures.rs"]
mod failures;
#[path = "all/honcho.rs"]
mod honcho;
#[path = "all/peers.rs"]
mod peers;
#[path = "all/support.rs"]
mod support;
