//! An instance for one task that is created at the first command and created again when it is gone: a
//! container, an Apptainer instance, a sandbox.
//!
//! Holds what all of those have in common: only one is created however many calls need it at once; a command
//! of which nothing was run is run once more in a new instance; a command that may have run is not repeated.
//! How an instance is created, reached and ended is decided by the [`InstanceProvider`].

use std::future::{Future, ready};

use hermes_types::{BoxFuture, Cancel, CommandOutput, Environment, RunError, ShellCommand};
use tokio::sync::Mutex;

use super::{
    CallResult, CliError, INTERRUPTED, INTERRUPTED_NOTE, RemoteShell, ScriptTransport, ShellHost,
    lock_unless_cancelled,
};

/// An instance that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// The name by which its provider knows it.
    pub(crate) id: String,
    /// The identifier of this creation of the instance: another one means another file system, or an emptied
    /// one.
    pub(crate) generation: String,
}

impl Instance {
    /// Returns an instance whose name is different each time it is created.
    pub(crate) fn named(name: String) -> Self {
        Self { id: name.clone(), generation: name }
    }
}

/// The state of an instance after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCommand {
    Reusable,
    /// The instance can no longer be used; the next command gets a new one.
    Unusable,
}

/// Creates one task's instances.
pub(crate) trait InstanceProvider: Send + Sync {
    /// The message for an instance that ended while a command was running; `None` where that cannot be
    /// detected.
    const STOPPED: Option<&'static str>;

    /// Returns a shell that starts in the initial folder of the instance.
    fn new_shell(&self) -> RemoteShell;

    fn create(&self, cancel: &Cancel) -> impl Future<Output = Result<Instance, CliError>> + Send;

    /// Describes why no instance could be created.
    fn create_failure(&self, error: &CliError) -> String;

    fn transport<'a>(&'a self, made: &'a Instance) -> impl ScriptTransport + 'a;

    /// Describes why no shell could be started in the instance.
    fn start_failure(&self, said: &str, code: i32) -> String;

    /// Tells whether an instance in which nothing could be started is gone.
    fn is_gone(&self, _made: &Instance) -> impl Future<Output = bool> + Send {
        ready(true)
    }

    /// Handles the instance after a command was stopped.
    fn after_stop(
        &self,
        _made: &Instance,
        _stopped: &mut CommandOutput,
        _cancel: &Cancel,
    ) -> impl Future<Output = AfterCommand> + Send {
        ready(AfterCommand::Reusable)
    }

    /// Removes what is left of an instance that can no longer be used.
    fn remove(&self, _made: &Instance) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Waits until removed instances are completely cleaned up.
    fn finish(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Ends an instance in an orderly way. `shell` is the task's own.
    fn close(&self, made: &Instance, shell: &RemoteShell) -> impl Future<Output = ()> + Send;

    /// Ends an instance that was dropped without being closed, so that no caller can wait for it.
    fn abandon(&self, _made: &Instance) {}
}

/// A task's instance, with a shell of its own.
#[derive(Debug)]
#[expect(private_bounds, reason = "the makers are those of this crate")]
pub struct ManagedInstance<M: InstanceProvider> {
    provider: M,
    shell: RemoteShell,
    /// The instance once it is created. The lock is held during its creation, so that parallel calls share
    /// one.
    instance: Mutex<Option<Instance>>,
}

#[expect(private_bounds, reason = "the makers are those of this crate")]
impl<M: InstanceProvider> ManagedInstance<M> {
    pub(crate) fn new(provider: M) -> Self {
        Self { shell: provider.new_shell(), provider, instance: Mutex::new(None) }
    }

    /// Returns the folder in which the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// Ends the instance; persistent data stays. One that is gone already is no failure, and the next command
    /// creates it again.
    pub async fn close(&self) {
        if let Some(made) = self.instance.lock().await.take() {
            self.provider.close(&made, &self.shell).await;
        }
        self.provider.finish().await;
    }

    pub(crate) async fn instance(&self) -> Option<Instance> {
        self.instance.lock().await.clone()
    }

    async fn execute(
        &self,
        shell: &RemoteShell,
        command: ShellCommand<'_>,
        cancel: &Cancel,
    ) -> Result<CommandOutput, RunError> {
        let mut again = true;
        loop {
            let made = match self.get_or_create(cancel).await {
                Ok(made) => made,
                Err(CliError::Interrupted) => {
                    return Ok(CommandOutput { output: INTERRUPTED_NOTE.to_owned(), exit_code: INTERRUPTED });
                }
                Err(error) => return Err(RunError::Unavailable(self.provider.create_failure(&error))),
            };
            match shell.call(&self.provider.transport(&made), &made.generation, command, cancel).await? {
                CallResult::Finished(finished) => {
                    return Ok(self.finish_command(&made, finished, cancel).await);
                }
                // Nothing was run, so the command may be run again.
                CallResult::NotStarted { .. } if again && self.provider.is_gone(&made).await => {
                    tracing::warn!(
                        id = made.id,
                        "the remote environment no longer exists; creating a new one"
                    );
                    self.discard(&made).await;
                    again = false;
                }
                CallResult::NotStarted { said, code } => {
                    return Err(RunError::Unavailable(self.provider.start_failure(&said, code)));
                }
                CallResult::Unfinished { mut output, code } => {
                    if let Some(note) = M::STOPPED
                        && self.provider.is_gone(&made).await
                    {
                        output.push_str(note);
                        self.discard(&made).await;
                    }
                    return Ok(CommandOutput { output, exit_code: code });
                }
            }
        }
    }

    async fn finish_command(
        &self,
        made: &Instance,
        mut finished: CommandOutput,
        cancel: &Cancel,
    ) -> CommandOutput {
        if self.provider.after_stop(made, &mut finished, cancel).await == AfterCommand::Unusable {
            self.discard(made).await;
        }
        finished
    }

    async fn get_or_create(&self, cancel: &Cancel) -> Result<Instance, CliError> {
        let mut slot = lock_unless_cancelled(&self.instance, cancel).await.ok_or(CliError::Interrupted)?;
        if let Some(made) = &*slot {
            return Ok(made.clone());
        }
        let made = self.provider.create(cancel).await?;
        *slot = Some(made.clone());
        Ok(made)
    }

    /// Discards an instance that can no longer be used, unless another call has replaced it already.
    async fn discard(&self, gone: &Instance) {
        let mut slot = self.instance.lock().await;
        if slot.as_ref() == Some(gone) {
            *slot = None;
            self.provider.remove(gone).await;
        }
    }
}

impl<M: InstanceProvider> Drop for ManagedInstance<M> {
    fn drop(&mut self) {
        if let Some(made) = self.instance.get_mut().take() {
            self.provider.abandon(&made);
        }
    }
}

impl<M: InstanceProvider> Environment for ManagedInstance<M> {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        Box::pin(self.execute(&self.shell, command, cancel))
    }
}

impl<M: InstanceProvider + std::fmt::Debug> ShellHost for ManagedInstance<M> {
    fn new_shell(&self) -> RemoteShell {
        self.provider.new_shell()
    }

    fn run_in<'a>(
        &'a self,
        shell: &'a RemoteShell,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        Box::pin(self.execute(shell, command, cancel))
    }

    fn clean_up<'a>(&'a self, shell: &'a RemoteShell) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(made) = self.instance().await {
                shell.clean(&self.provider.transport(&made), &made.generation).await;
            }
        })
    }

    fn instance_id(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { self.instance().await.map(|made| made.generation) })
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}
