//! A remote environment in which several tasks may work.
//!
//! A [`ShellHost`] is the container, instance, sandbox or machine; a [`RemoteShellSession`] is one task's
//! shell in it, with a folder and exports of its own. One session affects another only through the files they
//! share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, CommandOutput, Environment, RunError, ShellCommand};

use super::{RemoteShell, script};
use crate::capture::OutputBounds;
use crate::child::Launch;
use crate::credential::CredentialUploader;

const END_LIMIT: Duration = Duration::from_secs(8);

/// Runs a shell's commands. It is made ready at the first of them, and again when it is gone.
pub(crate) trait ShellHost: Send + Sync + fmt::Debug {
    /// Returns a shell that starts in the initial folder of this environment.
    fn new_shell(&self) -> RemoteShell;

    fn run_in<'a>(
        &'a self,
        shell: &'a RemoteShell,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>>;

    /// Returns a client that runs a line on a remote terminal; `None` where there are no terminals.
    fn terminal_launch(&self, _line: &str) -> Option<Launch> {
        None
    }

    /// Removes the files that a shell left behind, where they outlive it.
    fn clean_up<'a>(&'a self, shell: &'a RemoteShell) -> BoxFuture<'a, ()>;

    /// Returns the id of the current instance, if there is one: another id means another file system, or an
    /// emptied one.
    fn instance_id(&self) -> BoxFuture<'_, Option<String>>;

    /// Ends the instance. One that is gone already is no failure; the next command creates it again.
    fn shut_down(&self) -> BoxFuture<'_, ()>;
}

/// A remote environment.
#[derive(Debug, Clone)]
pub struct RemoteEnvironment {
    host: Arc<dyn ShellHost>,
    uploader: Option<Arc<CredentialUploader>>,
}

impl RemoteEnvironment {
    /// Creates an environment. The uploader's files are uploaded before a command that may need them.
    pub(crate) fn new(host: Arc<dyn ShellHost>, uploader: Option<Arc<CredentialUploader>>) -> Self {
        Self { host, uploader }
    }

    /// Opens a shell session for one task.
    pub fn open_session(&self) -> RemoteShellSession {
        RemoteShellSession {
            bare: BareShellSession { shell: self.host.new_shell(), host: Arc::clone(&self.host) },
            uploader: self.uploader.clone(),
        }
    }

    /// Ends the environment. One that is gone already is no failure; the next command creates it again.
    pub async fn close(&self) {
        self.host.shut_down().await;
    }
}

/// One task's shell in a remote environment.
#[derive(Debug)]
pub struct RemoteShellSession {
    bare: BareShellSession,
    uploader: Option<Arc<CredentialUploader>>,
}

/// The shell without the upload of credential files.
#[derive(Debug)]
struct BareShellSession {
    host: Arc<dyn ShellHost>,
    shell: RemoteShell,
}

impl RemoteShellSession {
    /// Returns the folder in which the next command starts, as a remote path.
    pub fn directory(&self) -> String {
        self.bare.shell.directory()
    }

    /// Returns the bounds of an output.
    pub fn bounds(&self) -> OutputBounds {
        self.bare.shell.bounds()
    }

    /// Returns a client that runs a line on a remote terminal; `None` where there are no terminals.
    pub(super) fn terminal_launch(&self, line: &str) -> Option<Launch> {
        self.bare.host.terminal_launch(line)
    }

    /// Ends a remote process group: a termination request, a second of grace, then a kill.
    pub(crate) async fn end_group(&self, group: u32) {
        let shell = format!("( {} )", script::end_group_script(group));
        let command = ShellCommand { shell: &shell, directory: None, stdin: None, timeout: END_LIMIT };
        if let Err(error) = self.bare.run(command, &Cancel::new()).await {
            tracing::warn!(%error, group, "a process over there could not be ended");
        }
    }

    /// Removes the files that the shell left behind. The environment stays.
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
            if let Some(credentials) = &self.uploader {
                credentials.upload(&self.bare, &*self.bare.host, self.bounds(), cancel).await;
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
