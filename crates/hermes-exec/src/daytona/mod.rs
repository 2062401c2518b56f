//! Commands in a sandbox of Daytona, through its HTTP interface.
//!
//! A `Daytona` is one task's sandbox, found or made at the first command and started again when it has stopped. The
//! interface runs one command line and answers when that has ended; what we say travels inside that line, in a form that
//! needs no quoting, and what comes back is framed as everywhere else. Nothing can be ended over there while it runs, so
//! stopping a command stops the sandbox.

mod api;
mod line;

use std::sync::Arc;

use hermes_types::{BoxFuture, Cancel, Clock, Command, Environment, Finished, RunError, Secret, random_hex};
use tokio::sync::Mutex;

use crate::capture::Bounds;
use crate::docker::{Keep, Limits};
use crate::remote::service::Service;
use crate::remote::{
    Called, CliError, Forwarded, INTERRUPTED, INTERRUPTED_NOTE, PerTask, RemoteShell, Site, lock_unless,
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
        let service = Service {
            name: "Daytona",
            setting: "DAYTONA_API_URL",
            client,
            address: address.unwrap_or(USUAL_ADDRESS).to_owned(),
            key,
            clock,
        };
        Ok(Arc::new(Self { api: Api(service), tasks: PerTask::default() }))
    }

    /// The task's place; who asks for the same task gets the same one as long as anybody holds it.
    pub fn open(self: &Arc<Self>, options: DaytonaOptions) -> Arc<Daytona> {
        let task = options.task.clone();
        self.tasks.get_or_make(&task, || {
            let shell = new_shell(&options);
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
    /// Once it runs. The lock is held while it is found or made, so that parallel calls share one.
    sandbox: Mutex<Option<Running>>,
}

/// A sandbox that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    id: String,
    /// This run of it: a sandbox that was stopped has lost what shells left in its memory.
    run: String,
}

impl Daytona {
    /// Where the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// Stops a sandbox that is to last and removes another. One that is gone already is no failure.
    pub async fn close(&self) {
        let Some(Running { id, run }) = self.sandbox.lock().await.take() else { return };
        self.shell.clean(&DaytonaLine { api: &self.account.api, id: &id }, &run).await;
        let cancel = Cancel::new();
        let done = match self.options.keep {
            Keep::Persistent => self.account.api.stop(&id, &cancel).await,
            Keep::Ephemeral => self.account.api.delete(&id, &cancel).await,
        };
        if let Err(error) = done {
            tracing::warn!(%error, id, "the sandbox could not be closed");
        }
    }

    async fn execute(
        &self,
        shell: &RemoteShell,
        command: Command<'_>,
        cancel: &Cancel,
    ) -> Result<Finished, RunError> {
        let mut again = true;
        loop {
            let running = match self.running(cancel).await {
                Ok(running) => running,
                Err(CliError::Interrupted) => {
                    return Ok(Finished { output: INTERRUPTED_NOTE.to_owned(), exit_code: INTERRUPTED });
                }
                Err(error) => return Err(RunError::Unavailable(format!("no Daytona sandbox: {error}"))),
            };
            let line = DaytonaLine { api: &self.account.api, id: &running.id };
            match shell.call(&line, &running.run, command, cancel).await? {
                Called::Finished(finished) => {
                    if finished.exit_code == INTERRUPTED && cancel.is_cancelled() {
                        self.let_go(&running).await;
                    }
                    return Ok(finished);
                }
                // It had stopped; nothing was run, so it may be run again.
                Called::NeverBegan { .. } if again => {
                    self.let_go(&running).await;
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

    async fn running(&self, cancel: &Cancel) -> Result<Running, CliError> {
        let mut sandbox = lock_unless(&self.sandbox, cancel).await.ok_or(CliError::Interrupted)?;
        if let Some(running) = &*sandbox {
            return Ok(running.clone());
        }
        let id = self.account.api.find_or_make(&self.options, cancel).await?;
        let running = Running { id, run: random_hex(8) };
        *sandbox = Some(running.clone());
        Ok(running)
    }

    /// Asks for the state of the sandbox anew at the next call.
    async fn let_go(&self, gone: &Running) {
        let mut sandbox = self.sandbox.lock().await;
        if sandbox.as_ref() == Some(gone) {
            *sandbox = None;
        }
    }
}

impl Environment for Daytona {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(self.execute(&self.shell, command, cancel))
    }
}

impl Site for Daytona {
    fn new_shell(&self) -> RemoteShell {
        new_shell(&self.options)
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
            let running = self.sandbox.lock().await.clone();
            if let Some(Running { id, run }) = running {
                shell.clean(&DaytonaLine { api: &self.account.api, id: &id }, &run).await;
            }
        })
    }

    fn current(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { self.sandbox.lock().await.as_ref().map(|running| running.run.clone()) })
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}

fn new_shell(options: &DaytonaOptions) -> RemoteShell {
    let start = match options.directory.as_deref() {
        None | Some("/home/daytona") => "~",
        Some(folder) => folder,
    };
    RemoteShell::new(start, &options.exports, options.bounds)
}
