//! A task's place that is made at the first command and made anew when it is gone: a container, an instance, a sandbox.
//!
//! Holds what all of those have in common: one is made however many ask at once; a command of which nothing was run is run
//! once more in a new one; one that may have run never is. How it is made, reached and ended is the maker's business.

use std::future::{Future, ready};

use hermes_types::{BoxFuture, Cancel, CommandOutput, Environment, RunError, ShellCommand};
use tokio::sync::Mutex;

use super::{
    CallResult, CliError, INTERRUPTED, INTERRUPTED_NOTE, RemoteShell, ScriptTransport, ShellHost,
    lock_unless_cancelled,
};

/// A place that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// What it is called by those who made it.
    pub(crate) id: String,
    /// This making of it: another name is another file system, or an emptied one.
    pub(crate) generation: String,
}

impl Instance {
    /// One that is made anew under another name.
    pub(crate) fn named(name: String) -> Self {
        Self { id: name.clone(), generation: name }
    }
}

/// What is left of a place after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCommand {
    Reusable,
    /// It is of no more use; the next command gets a new one.
    Unusable,
}

/// Who makes one task's place.
pub(crate) trait InstanceProvider: Send + Sync {
    /// What is said when the place ended while a command was running; none where nobody can tell.
    const STOPPED: Option<&'static str>;

    /// A shell that begins where commands begin there.
    fn new_shell(&self) -> RemoteShell;

    fn create(&self, cancel: &Cancel) -> impl Future<Output = Result<Instance, CliError>> + Send;

    /// Why there is none, in words.
    fn create_failure(&self, error: &CliError) -> String;

    fn transport<'a>(&'a self, made: &'a Instance) -> impl ScriptTransport + 'a;

    /// Why no shell could be started in it, in words.
    fn start_failure(&self, said: &str, code: i32) -> String;

    /// Whether one in which nothing could be begun is gone.
    fn is_gone(&self, _made: &Instance) -> impl Future<Output = bool> + Send {
        ready(true)
    }

    /// Looks after it when a command was stopped.
    fn after_stop(
        &self,
        _made: &Instance,
        _stopped: &mut CommandOutput,
        _cancel: &Cancel,
    ) -> impl Future<Output = AfterCommand> + Send {
        ready(AfterCommand::Reusable)
    }

    /// Removes what is left of one that is of no more use.
    fn remove(&self, _made: &Instance) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Waits for what is still being put in order of those that were removed.
    fn finish(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Ends one in good order. `shell` is the task's own.
    fn close(&self, made: &Instance, shell: &RemoteShell) -> impl Future<Output = ()> + Send;

    /// Nobody holds it any more, and nobody can wait for its end.
    fn abandon(&self, _made: &Instance) {}
}

/// A task's place, with a shell of its own.
#[derive(Debug)]
#[expect(private_bounds, reason = "the makers are those of this crate")]
pub struct ManagedInstance<M: InstanceProvider> {
    provider: M,
    shell: RemoteShell,
    /// Once it is made. The lock is held while it is, so that parallel calls share one.
    instance: Mutex<Option<Instance>>,
}

#[expect(private_bounds, reason = "the makers are those of this crate")]
impl<M: InstanceProvider> ManagedInstance<M> {
    pub(crate) fn new(provider: M) -> Self {
        Self { shell: provider.new_shell(), provider, instance: Mutex::new(None) }
    }

    /// Where the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// Ends it; what is to last stays. One that is gone already is no failure, and the next command makes it anew.
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
                // Nothing was run, so it may be run again.
                CallResult::NotStarted { .. } if again && self.provider.is_gone(&made).await => {
                    tracing::warn!(id = made.id, "the place of commands was gone; it is made anew");
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

    /// Lets go of a place that is of no more use, unless another call has replaced it already.
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
