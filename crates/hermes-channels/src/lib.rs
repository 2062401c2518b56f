//! Chat platforms. Each has a module that translates between the platform's protocol and envelopes, and nothing
//! else.
//!
//! Does not know who may use the bot, what a command means or how an answer is made: that belongs to the gateway.
//! Does not read the environment or the home: a channel gets what it needs as [`Options`] and through
//! [`ChannelHost`]. Invariant: a message is acknowledged to a platform only after the intake has accepted it.

mod approval;
mod backoff;
mod choices;
mod dingtalk;
mod discord;
mod email;
mod fetch;
mod homeassistant;
mod host;
mod http_listener;
mod incoming_file;
mod matrix;
mod mattermost;
mod media;
mod multipart;
mod options;
mod platform;
mod rest;
mod signal;
mod slack;
mod sms;
mod socket_text;
mod telegram;
mod webhook_mounts;
mod whatsapp;
mod whatsapp_cloud;

pub use host::{
    ChannelContext, ChannelHost, HelperError, HelperRequest, IncomingFile, MenuCommand, RunningHelper,
};
pub use options::Options;
pub use platform::{OpenChannelFn, PLATFORMS, Platform, PlatformVariable, VariableKind, platform};
pub use webhook_mounts::WebhookMounts;
