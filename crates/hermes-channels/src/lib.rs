//! Chat platforms. One module each, which translates between the platform's wire and envelopes, and nothing else.
//!
//! Does not know who may speak, what a command means or how an answer is made: that is the gateway's. Does not read the
//! environment or the home: what a channel needs comes in as [`Options`] and through [`Host`]. Invariant: a platform is
//! told that a message was taken only after the intake said so.

mod approval;
mod backoff;
mod discord;
mod fetch;
mod host;
mod http_listener;
mod media;
mod multipart;
mod options;
mod platform;
mod slack;
mod telegram;

pub use host::{ChannelContext, ChannelHost, IncomingFile, MenuCommand};
pub use options::Options;
pub use platform::{OpenChannelFn, PLATFORMS, Platform, PlatformVariable, VariableKind, platform};
