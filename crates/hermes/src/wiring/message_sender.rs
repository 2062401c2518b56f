//! Senders of messages to chats, for the gateway and for commands that run without it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use hermes_config::settings::{SandboxMode, TerminalSettings};
use hermes_config::{Config, user_home};
use hermes_exec::Sandbox;
use hermes_gateway::{ChatMessageSender, DeliveryPorts, FileSendPolicy, LiveSettings};
use hermes_store::Store;
use hermes_types::{Cancel, Clock};

use super::channels::ConfiguredPlatforms;
use super::{sandbox, working_folder};
use crate::context::{ProgramContext, local_time};

/// Creates a sender that is connected to no platform yet.
pub(crate) fn chat_sender(
    live: LiveSettings,
    store: Store,
    clock: Arc<dyn Clock>,
    files: Arc<dyn FileSendPolicy>,
    cancel: &Cancel,
) -> ChatMessageSender {
    let ports = DeliveryPorts { platforms: Arc::new(ConfiguredPlatforms::new(live.clone())), files };
    ChatMessageSender::new(store, clock, Arc::new(local_time), live, ports, cancel)
}

/// Refuses to send files that a conversation may not read, even where no sandbox keeps commands from reading them.
pub(crate) struct SandboxFilePolicy {
    sandbox: Sandbox,
    anchor: PathBuf,
}

impl SandboxFilePolicy {
    pub(crate) fn new(context: &ProgramContext, config: &Config) -> Result<Self> {
        let settings = TerminalSettings::resolve(config, &context.env);
        let settings = TerminalSettings { sandbox: SandboxMode::Auto, ..settings };
        let sandbox = sandbox::sandbox(&settings, &user_home(&context.env)?, context);
        Ok(Self { sandbox, anchor: working_folder(context, config)? })
    }
}

impl FileSendPolicy for SandboxFilePolicy {
    fn refuses(&self, path: &Path) -> bool {
        self.sandbox.read_refusal(&self.anchor, path).is_some()
    }
}
