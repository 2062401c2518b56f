//! The interface between a channel and the program.

use std::sync::Arc;

use hermes_net::HttpClient;
use hermes_types::{Attachment, AttachmentKind, BoxFuture, Clock};
use serde_json::Value;

use crate::webhook_mounts::WebhookMounts;

/// The services and settings a channel uses apart from its platform.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ChannelContext {
    pub client: HttpClient,
    pub clock: Arc<dyn Clock>,
    pub host: Arc<dyn ChannelHost>,
    /// The paths at which platforms receive requests on the gateway's server.
    pub mounts: WebhookMounts,
    /// The commands for the platform's menu.
    pub commands: Arc<[MenuCommand]>,
}

/// A command as a menu shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MenuCommand {
    /// The name without its slash.
    pub name: String,
    pub description: String,
    /// The usage of its arguments, such as `[name]`; empty when there are none.
    pub arguments: String,
}

/// A file that came with a message.
#[derive(Debug, Clone, Copy)]
pub struct IncomingFile<'a> {
    pub kind: AttachmentKind,
    /// The name its sender gave; not to be trusted.
    pub name: Option<&'a str>,
    /// The extension, with its dot.
    pub extension: &'a str,
    pub mime: Option<&'a str>,
    pub bytes: &'a [u8],
}

/// A program that a channel needs beside it. Where it is and what it may access is the business of the one who starts it.
#[derive(Debug, Clone)]
pub struct HelperRequest<'a> {
    /// The platform it belongs to.
    pub name: &'a str,
    pub arguments: Vec<String>,
    /// Variables besides those that every program gets.
    pub variables: Vec<(String, String)>,
    /// The line written to its input, which may hold a secret.
    pub first_line: &'a str,
}

/// The reason why a helper program does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelperError {
    /// Something has to be installed first.
    Missing(String),
    /// Another attempt may succeed.
    Failed(String),
}

/// A running helper program.
pub trait RunningHelper: Send {
    /// Returns the next line of its output, or `None` once it has ended. Dropping the future loses nothing.
    fn next_line(&mut self) -> BoxFuture<'_, Option<String>>;

    /// Ends it.
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// The services the program provides to channels.
pub trait ChannelHost: Send + Sync {
    /// Stores a file where the agent can read it.
    fn save_file<'a>(&'a self, file: IncomingFile<'a>) -> BoxFuture<'a, Result<Attachment, String>>;

    /// Loads a small JSON document of a channel, by the name of its file in the home.
    fn load_document(&self, name: &str) -> Option<Value>;

    /// Writes the document atomically. Losing it is acceptable; a failure is logged.
    fn save_document(&self, name: &str, value: &Value);

    /// Returns a folder that only the user can access, for files that a channel writes itself. It is created if there is none.
    fn private_folder(&self, platform: &str) -> Result<std::path::PathBuf, String>;

    /// Returns the current value of `platforms.<platform>.extra.<key>`.
    fn setting(&self, platform: &str, key: &str) -> Option<Value>;

    /// Starts a program that runs beside a channel. It ends when the value is dropped, and with the gateway.
    fn start_helper<'a>(
        &'a self,
        request: HelperRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn RunningHelper>, HelperError>> {
        let why = format!("there is no helper program for {}", request.name);
        Box::pin(std::future::ready(Err(HelperError::Missing(why))))
    }

    /// Writes that setting into config.yaml.
    fn save_setting(&self, platform: &str, key: &str, value: &Value) -> Result<(), String>;
}
