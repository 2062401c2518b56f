//! Channels against emulated platforms that share no code with them.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]
#![expect(clippy::disallowed_methods, reason = "a test may start a task of its own")]

mod dingtalk;
mod discord;
mod email;
mod homeassistant;
mod matrix;
mod mattermost;
mod signal;
mod slack;
mod sms;
mod support;
mod table;
mod telegram;
mod whatsapp;
mod whatsapp_cloud;
