//! A place elsewhere at which several tasks may work.
//!
//! The site is the container, instance, sandbox or machine; a seat is one task's shell there, with a folder and exports of
//! its own. Nothing of one seat reaches another but through the files they share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, CommandOutput, Environment, RunError, ShellCommand};

use super::{RemoteShell, script};
use crate::capture::OutputBounds;
use crate::child::Launch;
use crate::credential::CredentialUploader;

const END_LIMIT: Duration = Duration::from_secs(8);

/// What can run a shell's commands. Made ready at the first of them, and anew when it is gone.
pub(crate) trait ShellHost: Send + Sync + fmt::Debug {
    /// A shell that begins where commands begin here.
    fn new_shell(&self) -> RemoteShell;

    fn run_in<'a>(
        &'a self,
        shell: &'a RemoteShell,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>>;

    /// A client that runs a line on a terminal over there; none where there are no terminals.
    fn terminal_launch(&self, _line: &str) -> Option<Launch> {
        None
    }

    /// Removes what a shell left behind, where that outlives it.
    fn clean_up<'a>(&'a self, shell: &'a RemoteShell) -> BoxFuture<'a, ()>;

    /// Which making of the place it is, if it is made: another name is another file system, or an emptied one.
    fn instance_id(&self) -> BoxFuture<'_, Option<String>>;

    /// Ends it. One that is gone already is no failure; the next command makes it anew.
    fn shut_down(&self) -> BoxFuture<'_, ()>;
}

/// A place elsewhere.
#[derive(Debug, Clone)]
pub struct RemoteEnvironment {
    host: Arc<dyn ShellHost>,
    uploader: Option<Arc<CredentialUploader>>,
}

impl RemoteEnvironment {
    /// Files in the luggage are brought before a command that may need them.
    pub(crate) fn new(host: Arc<dyn ShellHost>, uploader: Option<Arc<CredentialUploader>>) -> Self {
        Self { host, uploader }
    }

    /// A task's own shell.
    pub fn open_session(&self) -> RemoteShellSession {
        RemoteShellSession {
            bare: BareShellSession { shell: self.host.new_shell(), host: Arc::clone(&self.host) },
            uploader: self.uploader.clone(),
        }
    }

    /// Ends it. One that is gone already is no failure; the next command makes it anew.
    pub async fn close(&self) {
        self.host.shut_down().await;
    }
}

/// One task's shell in a room.
#[derive(Debug)]
pub struct RemoteShellSession {
    bare: BareShellSession,
    uploader: Option<Arc<CredentialUploader>>,
}

/// The shell alone.
#[derive(Debug)]
struct BareShellSession {
    host: Arc<dyn ShellHost>,
    shell: RemoteShell,
}

impl RemoteShellSession {
    /// Where the next command starts, as it is called over there.
    pub fn directory(&self) -> String {
        self.bare.shell.directory()
    }

    /// How much of an output is kept.
    pub fn bounds(&self) -> OutputBounds {
        self.bare.shell.bounds()
    }

    /// A client that runs a line on a terminal over there; none where there are no terminals.
    pub(super) fn terminal_launch(&self, line: &str) -> Option<Launch> {
        self.bare.host.terminal_launch(line)
    }

    /// Ends a process group over there: a request, a second's grace, then the kill.
    pub(crate) async fn end_group(&self, group: u32) {
        let shell = format!("( {} )", script::end_group_script(group));
        let command = ShellCommand { shell: &shell, directory: None, stdin: None, timeout: END_LIMIT };
        if let Err(error) = self.bare.run(command, &Cancel::new()).await {
            tracing::warn!(%error, group, "a process over there could not be ended");
        }
    }

    /// Removes what the shell left behind. The room stays.
    pub async fn clean_up(&self) {
        self.bare.host.clean_up(&self.bare.shell).await;
    }
}

impl Environment for RemoteShellSession {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        Box::pin(async move {
            if let Some(luggage) = &self.uploader {
                luggage.upload(&self.bare, &*self.bare.host, self.bounds(), cancel).await;
            }
            self.bare.run(command, cancel).await
        })
    }
}

impl Environment for BareShellSession {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        self.host.run_in(&self.shell, command, cancel)
    }
}
