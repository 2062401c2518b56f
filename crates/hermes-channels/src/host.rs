//! What a channel asks of the program it lives in.

use std::sync::Arc;

use hermes_net::Client;
use hermes_types::{Attachment, AttachmentKind, BoxFuture, Clock};
use serde_json::Value;

/// Everything a channel reaches that is not its platform.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Surroundings {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub host: Arc<dyn Host>,
    /// Commands people can call, for the platform's menu.
    pub commands: Arc<[MenuCommand]>,
}

/// A command as a menu shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MenuCommand {
    /// Without its slash.
    pub name: String,
    pub description: String,
    /// What follows it, in words: `[name]`. Empty when nothing does.
    pub arguments: String,
}

/// A file that came with a message.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    pub kind: AttachmentKind,
    /// As its sender called it; not to be trusted.
    pub name: Option<&'a str>,
    /// With its dot.
    pub extension: &'a str,
    pub mime: Option<&'a str>,
    pub bytes: &'a [u8],
}

/// The program around the channels.
pub trait Host: Send + Sync {
    /// Puts a file where the agent finds it.
    fn keep<'a>(&'a self, file: Incoming<'a>) -> BoxFuture<'a, Result<Attachment, String>>;

    /// A small document of a channel's own, by the name of its file in the home.
    fn recall(&self, name: &str) -> Option<Value>;

    /// Writes it, whole or not at all. Losing it is no disaster; a failure is logged.
    fn remember(&self, name: &str, value: &Value);

    /// `platforms.<platform>.extra.<key>` as it is now.
    fn setting(&self, platform: &str, key: &str) -> Option<Value>;

    /// Writes that setting into config.yaml.
    fn save_setting(&self, platform: &str, key: &str, value: &Value) -> Result<(), String>;
}
