//! Commands in a sandbox of Daytona, through its HTTP interface.
//!
//! A `Daytona` is one task's sandbox, found or made at the first command and started again when it has stopped. The
//! interface runs one command line and answers when that has ended; what we say travels inside that line, in a form that
//! needs no quoting, and what comes back is framed as everywhere else. Nothing can be ended over there while it runs, so
//! stopping a command stops the sandbox.

mod api;
mod line;

use std::sync::Arc;

use hermes_types::{BoxFuture, Cancel, Clock, Command, Environment, Finished, RunError, Secret};
use tokio::sync::Mutex;

use crate::capture::Bounds;
use crate::docker::{Keep, Limits};
use crate::remote::{
    Called, CliError, Forwarded, INTERRUPTED, INTERRUPTED_NOTE, PerTask, RemoteShell, lock_unless,
};
use api::Api;
use line::DaytonaLine;

/// The address if none is configured.
const USUAL_ADDRESS: &str = "https://app.daytona.io/api";

/// One task's sandbox.
#[derive(Debug, Clone)]
pub struct DaytonaOptions {
    pub task: String,
    pub image: String,
    /// Where commands begin; the home over there if not said.
    pub directory: Option<String>,
    /// Variables for commands.
    pub exports: Forwarded,
    pub limits: Limits,
    pub keep: Keep,
    pub bounds: Bounds,
}

/// An account with Daytona.
#[derive(Debug)]
pub struct DaytonaAccount {
    api: Api,
    tasks: PerTask<Daytona>,
}

impl DaytonaAccount {
    /// Asks nothing yet. Without an address it is Daytona's own.
    pub fn new(
        client: hermes_net::Client,
        address: Option<&str>,
        key: Secret,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, RunError> {
        if key.is_empty() {
            return Err(RunError::Unavailable("DAYTONA_API_KEY is not set".to_owned()));
        }
        let address = address.unwrap_or(USUAL_ADDRESS).trim_end_matches('/').to_owned();
        Ok(Arc::new(Self { api: Api { client, address, key, clock }, tasks: PerTask::default() }))
    }

    /// The task's place; who asks for the same task gets the same one as long as anybody holds it.
    pub fn open(self: &Arc<Self>, options: DaytonaOptions) -> Arc<Daytona> {
        let task = options.task.clone();
        self.tasks.get_or_make(&task, || {
            let start = match options.directory.as_deref() {
                None | Some("/home/daytona") => "~",
                Some(folder) => folder,
            };
            let shell = RemoteShell::new(start, &options.exports, options.bounds);
            Daytona { account: Arc::clone(self), options, shell, sandbox: Mutex::new(None) }
        })
    }
}

/// A task's place in a sandbox.
#[derive(Debug)]
pub struct Daytona {
    account: Arc<DaytonaAccount>,
    options: DaytonaOptions,
    shell: RemoteShell,
    /// Its id, once it runs. The lock is held while it is found or made, so that parallel calls share one.
    sandbox: Mutex<Option<String>>,
}

impl Daytona {
    /// Where the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// Stops a sandbox that is to last and removes another. One that is gone already is no failure.
    pub async fn close(&self) {
        let Some(id) = self.sandbox.lock().await.take() else { return };
        self.shell.clean(&DaytonaLine { api: &self.account.api, id: &id }).await;
        let cancel = Cancel::new();
        let done = match self.options.keep {
            Keep::Persistent => self.account.api.stop(&id, &cancel).await,
            Keep::Ephemeral => self.account.api.delete(&id, &cancel).await,
        };
        if let Err(error) = done {
            tracing::warn!(%error, id, "the sandbox could not be closed");
        }
    }

    async fn execute(&self, command: Command<'_>, cancel: &Cancel) -> Result<Finished, RunError> {
        let mut again = true;
        loop {
            let id = match self.running(cancel).await {
                Ok(id) => id,
                Err(CliError::Interrupted) => {
                    return Ok(Finished { output: INTERRUPTED_NOTE.to_owned(), exit_code: INTERRUPTED });
                }
                Err(error) => return Err(RunError::Unavailable(format!("no Daytona sandbox: {error}"))),
            };
            let line = DaytonaLine { api: &self.account.api, id: &id };
            match self.shell.call(&line, command, cancel).await? {
                Called::Finished(finished) => {
                    if finished.exit_code == INTERRUPTED && cancel.is_cancelled() {
                        self.let_go(&id).await;
                    }
                    return Ok(finished);
                }
                // It had stopped; nothing was run, so it may be run again.
                Called::NeverBegan { .. } if again => {
                    self.let_go(&id).await;
                    again = false;
                }
                Called::NeverBegan { said, code } => {
                    let text =
                        format!("no bash could be started in the Daytona sandbox (exit code {code}): {said}");
                    return Err(RunError::Unavailable(text));
                }
                Called::Unfinished { output, code } => return Ok(Finished { output, exit_code: code }),
            }
        }
    }

    async fn running(&self, cancel: &Cancel) -> Result<String, CliError> {
        let mut sandbox = lock_unless(&self.sandbox, cancel).await.ok_or(CliError::Interrupted)?;
        if let Some(id) = &*sandbox {
            return Ok(id.clone());
        }
        let id = self.account.api.find_or_make(&self.options, cancel).await?;
        *sandbox = Some(id.clone());
        Ok(id)
    }

    /// Asks for the state of the sandbox anew at the next call.
    async fn let_go(&self, id: &str) {
        let mut sandbox = self.sandbox.lock().await;
        if sandbox.as_deref() == Some(id) {
            *sandbox = None;
            self.shell.forget().await;
        }
    }
}

impl Environment for Daytona {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(self.execute(command, cancel))
    }
}
