//! What tests of the workspace stand on: a scripted model server, a temporary home, a clock that a test moves, and
//! databases as other releases left them.
//!
//! Holds no product code and is used only as a dev-dependency, or as its own binary for trying things by hand. Nothing in
//! it waits on real time unless a script says so: tests meet the server at named gates and counts of requests.

mod channel;
mod client;
mod clock;
mod control_group;
pub mod discord;
mod error;
pub mod fixture;
mod gate;
mod home;
mod http;
mod ledger;
mod load;
mod model;
mod peer;
mod running;
pub mod script;
mod server;
mod site;
pub mod slack;
mod task;
pub mod telegram;
mod watched;
mod wire;
mod witness;

pub use channel::{FakeChannel, Posted, SendFault};
pub use client::{HttpReply, http_get, http_post};
pub use clock::{RealClock, TestClock};
pub use control_group::divisible_group;
pub use error::Error;
pub use fixture::Fixture;
pub use home::{TempHome, TempHomeBuilder};
pub use ledger::{Outcome, RecordedRequest};
pub use load::{Load, Loaded, percentile};
pub use model::{Plain, Risky, Step, TestModel};
pub use peer::{SshServer, peer_is_missing};
pub use script::{Event, Reply, Script};
pub use server::{Arrival, ModelServer, ServerBuilder};
pub use site::Site;
pub use wire::Wire;
pub use witness::Witness;
