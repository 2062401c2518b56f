//! A task's place that is made at the first command and made anew when it is gone: a container, an instance, a sandbox.
//!
//! Holds what all of those have in common: one is made however many ask at once; a command of which nothing was run is run
//! once more in a new one; one that may have run never is. How it is made, reached and ended is the maker's business.

use std::future::{Future, ready};

use hermes_types::{BoxFuture, Cancel, Command, Environment, Finished, RunError};
use tokio::sync::Mutex;

use super::{Called, CliError, INTERRUPTED, INTERRUPTED_NOTE, Line, RemoteShell, Site, lock_unless};

/// A place that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// What it is called by those who made it.
    pub(crate) id: String,
    /// This making of it: another name is another file system, or an emptied one.
    pub(crate) making: String,
}

impl Made {
    /// One that is made anew under another name.
    pub(crate) fn named(name: String) -> Self {
        Self { id: name.clone(), making: name }
    }
}

/// What is left of a place after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    AsItWas,
    /// It is of no more use; the next command gets a new one.
    Nothing,
}

/// Who makes one task's place.
pub(crate) trait Maker: Send + Sync {
    /// What is said when the place ended while a command was running; none where nobody can tell.
    const STOPPED: Option<&'static str>;

    /// A shell that begins where commands begin there.
    fn new_shell(&self) -> RemoteShell;

    fn make(&self, cancel: &Cancel) -> impl Future<Output = Result<Made, CliError>> + Send;

    /// Why there is none, in words.
    fn not_made(&self, error: &CliError) -> String;

    fn line<'a>(&'a self, made: &'a Made) -> impl Line + 'a;

    /// Why no shell could be started in it, in words.
    fn not_begun(&self, said: &str, code: i32) -> String;

    /// Whether one in which nothing could be begun is gone.
    fn is_gone(&self, _made: &Made) -> impl Future<Output = bool> + Send {
        ready(true)
    }

    /// Looks after it when a command was stopped.
    fn look_after(
        &self,
        _made: &Made,
        _stopped: &mut Finished,
        _cancel: &Cancel,
    ) -> impl Future<Output = Left> + Send {
        ready(Left::AsItWas)
    }

    /// Removes what is left of one that is of no more use.
    fn remove(&self, _made: &Made) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Waits for what is still being put in order of those that were removed.
    fn finish(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Ends one in good order. `shell` is the task's own.
    fn close(&self, made: &Made, shell: &RemoteShell) -> impl Future<Output = ()> + Send;

    /// Nobody holds it any more, and nobody can wait for its end.
    fn abandon(&self, _made: &Made) {}
}

/// A task's place, with a shell of its own.
#[derive(Debug)]
#[expect(private_bounds, reason = "the makers are those of this crate")]
pub struct Berth<M: Maker> {
    maker: M,
    shell: RemoteShell,
    /// Once it is made. The lock is held while it is, so that parallel calls share one.
    made: Mutex<Option<Made>>,
}

#[expect(private_bounds, reason = "the makers are those of this crate")]
impl<M: Maker> Berth<M> {
    pub(crate) fn new(maker: M) -> Self {
        Self { shell: maker.new_shell(), maker, made: Mutex::new(None) }
    }

    /// Where the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// Ends it; what is to last stays. One that is gone already is no failure, and the next command makes it anew.
    pub async fn close(&self) {
        if let Some(made) = self.made.lock().await.take() {
            self.maker.close(&made, &self.shell).await;
        }
        self.maker.finish().await;
    }

    pub(crate) async fn made(&self) -> Option<Made> {
        self.made.lock().await.clone()
    }

    async fn execute(
        &self,
        shell: &RemoteShell,
        command: Command<'_>,
        cancel: &Cancel,
    ) -> Result<Finished, RunError> {
        let mut again = true;
        loop {
            let made = match self.get_or_make(cancel).await {
                Ok(made) => made,
                Err(CliError::Interrupted) => {
                    return Ok(Finished { output: INTERRUPTED_NOTE.to_owned(), exit_code: INTERRUPTED });
                }
                Err(error) => return Err(RunError::Unavailable(self.maker.not_made(&error))),
            };
            match shell.call(&self.maker.line(&made), &made.making, command, cancel).await? {
                Called::Finished(finished) => return Ok(self.settle(&made, finished, cancel).await),
                // Nothing was run, so it may be run again.
                Called::NeverBegan { .. } if again && self.maker.is_gone(&made).await => {
                    tracing::warn!(id = made.id, "the place of commands was gone; it is made anew");
                    self.discard(&made).await;
                    again = false;
                }
                Called::NeverBegan { said, code } => {
                    return Err(RunError::Unavailable(self.maker.not_begun(&said, code)));
                }
                Called::Unfinished { mut output, code } => {
                    if let Some(note) = M::STOPPED
                        && self.maker.is_gone(&made).await
                    {
                        output.push_str(note);
                        self.discard(&made).await;
                    }
                    return Ok(Finished { output, exit_code: code });
                }
            }
        }
    }

    async fn settle(&self, made: &Made, mut finished: Finished, cancel: &Cancel) -> Finished {
        if self.maker.look_after(made, &mut finished, cancel).await == Left::Nothing {
            self.discard(made).await;
        }
        finished
    }

    async fn get_or_make(&self, cancel: &Cancel) -> Result<Made, CliError> {
        let mut slot = lock_unless(&self.made, cancel).await.ok_or(CliError::Interrupted)?;
        if let Some(made) = &*slot {
            return Ok(made.clone());
        }
        let made = self.maker.make(cancel).await?;
        *slot = Some(made.clone());
        Ok(made)
    }

    /// Lets go of a place that is of no more use, unless another call has replaced it already.
    async fn discard(&self, gone: &Made) {
        let mut slot = self.made.lock().await;
        if slot.as_ref() == Some(gone) {
            *slot = None;
            self.maker.remove(gone).await;
        }
    }
}

impl<M: Maker> Drop for Berth<M> {
    fn drop(&mut self) {
        if let Some(made) = self.made.get_mut().take() {
            self.maker.abandon(&made);
        }
    }
}

impl<M: Maker> Environment for Berth<M> {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(self.execute(&self.shell, command, cancel))
    }
}

impl<M: Maker + std::fmt::Debug> Site for Berth<M> {
    fn new_shell(&self) -> RemoteShell {
        self.maker.new_shell()
    }

    fn run_in<'a>(
        &'a self,
        shell: &'a RemoteShell,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(self.execute(shell, command, cancel))
    }

    fn leave<'a>(&'a self, shell: &'a RemoteShell) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(made) = self.made().await {
                shell.clean(&self.maker.line(&made), &made.making).await;
            }
        })
    }

    fn current(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { self.made().await.map(|made| made.making) })
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}
