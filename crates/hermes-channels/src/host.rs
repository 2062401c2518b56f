//! What a channel asks of the program it lives in.

use std::sync::Arc;

use hermes_net::HttpClient;
use hermes_types::{Attachment, AttachmentKind, BoxFuture, Clock};
use serde_json::Value;

/// Everything a channel reaches that is not its platform.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ChannelContext {
    pub client: HttpClient,
    pub clock: Arc<dyn Clock>,
    pub host: Arc<dyn ChannelHost>,
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
pub struct IncomingFile<'a> {
    pub kind: AttachmentKind,
    /// As its sender called it; not to be trusted.
    pub name: Option<&'a str>,
    /// With its dot.
    pub extension: &'a str,
    pub mime: Option<&'a str>,
    pub bytes: &'a [u8],
}

/// The program around the channels.
pub trait ChannelHost: Send + Sync {
    /// Puts a file where the agent finds it.
    fn save_file<'a>(&'a self, file: IncomingFile<'a>) -> BoxFuture<'a, Result<Attachment, String>>;

    /// A small document of a channel's own, by the name of its file in the home.
    fn load_document(&self, name: &str) -> Option<Value>;

    /// Writes it, whole or not at all. Losing it is no disaster; a failure is logged.
    fn save_document(&self, name: &str, value: &Value);

    /// `platforms.<platform>.extra.<key>` as it is now.
    fn setting(&self, platform: &str, key: &str) -> Option<Value>;

    /// Writes that setting into config.yaml.
    fn save_setting(&self, platform: &str, key: &str, value: &Value) -> Result<(), String>;
}
