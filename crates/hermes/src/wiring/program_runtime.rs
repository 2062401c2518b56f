//! What all agents of a process share: the store, the clock, the command runtime, the sender of messages.
//!
//! It is made once, from the configuration at the start, and before any agent.

use std::sync::Arc;

use anyhow::Result;
use hermes_config::{Config, ProgramSurface, user_home};
use hermes_store::Store;
use hermes_tools::{CheckpointManager, ProcessNotice};
use hermes_types::{Clock, MessageSender, SideModel};
use tokio::sync::mpsc::UnboundedReceiver;

use super::agent_spec::{CheckpointMode, RuntimeSpec};
use super::extensions::Extensions;
use super::mcp::McpRuntime;
use super::{CommandRuntime, tools};
use crate::context::ProgramContext;

/// A configuration, with the home and the environment it was read with.
#[derive(Clone, Copy)]
pub(crate) struct ProgramConfig<'a> {
    pub(crate) context: &'a ProgramContext,
    pub(crate) config: &'a Config,
}

/// What all agents of a process share. Clones refer to the same parts.
#[derive(Clone)]
pub(crate) struct ProgramRuntime {
    pub(crate) surface: ProgramSurface,
    pub(crate) checkpoints: CheckpointMode,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) command_runtime: CommandRuntime,
    pub(crate) mcp: McpRuntime,
    pub(crate) extensions: Extensions,
    /// The sender for messages to chats, if there is one.
    pub(crate) message_sender: Option<Arc<dyn MessageSender>>,
}

impl ProgramRuntime {
    /// Prepares the runtime. Starts no process and makes no request.
    ///
    /// Also returns the receiver for notices of background processes.
    pub(crate) fn open(
        spec: RuntimeSpec,
        from: ProgramConfig<'_>,
        store: Store,
        clock: Arc<dyn Clock>,
        message_sender: Option<Arc<dyn MessageSender>>,
        judge: Option<SideModel>,
    ) -> Result<(Self, UnboundedReceiver<ProcessNotice>)> {
        let (command_runtime, notices) = CommandRuntime::open(spec, from, judge, clock.clone())?;
        let RuntimeSpec { surface, checkpoints, .. } = spec;
        let mcp = McpRuntime::new(surface, store.clone(), clock.clone());
        let extensions = Extensions::open(from, &clock)?;
        let runtime =
            Self { surface, checkpoints, store, clock, command_runtime, mcp, extensions, message_sender };
        Ok((runtime, notices))
    }

    /// Returns the manager of checkpoints, if they are enabled.
    pub(crate) fn checkpoint_manager(
        &self,
        from: ProgramConfig<'_>,
    ) -> Result<Option<Arc<CheckpointManager>>> {
        let user_home = user_home(&from.context.env)?;
        Ok(tools::checkpoints(self.checkpoints, from, user_home, &self.clock))
    }
}
