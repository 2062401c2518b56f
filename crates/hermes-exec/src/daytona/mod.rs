//! Commands in a sandbox of Daytona, through its HTTP interface.
//!
//! A `Daytona` is one task's sandbox, found or made at the first command and started again when it has stopped. The
//! interface runs one command line and answers when that has ended; what we say travels inside that line, in a form that
//! needs no quoting, and what comes back is framed as everywhere else. Nothing can be ended over there while it runs, so
//! stopping a command stops the sandbox.

mod api;
mod line;

use std::sync::Arc;

use hermes_types::{Cancel, Clock, Finished, RunError, Secret, random_hex};

use crate::capture::Bounds;
use crate::docker::{Keep, Limits};
use crate::remote::service::Service;
use crate::remote::{Berth, CliError, Forwarded, INTERRUPTED, Left, Line, Made, Maker, PerTask, RemoteShell};
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
        let make = || Berth::new(DaytonaSandbox { account: Arc::clone(self), options });
        self.tasks.get_or_make(&task, make)
    }
}

/// A task's place in a sandbox. One that is to last is stopped when it is closed, another is removed.
pub type Daytona = Berth<DaytonaSandbox>;

/// What finds or makes a sandbox.
#[derive(Debug)]
pub struct DaytonaSandbox {
    account: Arc<DaytonaAccount>,
    options: DaytonaOptions,
}

impl Maker for DaytonaSandbox {
    const STOPPED: Option<&'static str> = None;

    fn new_shell(&self) -> RemoteShell {
        let start = match self.options.directory.as_deref() {
            None | Some("/home/daytona") => "~",
            Some(folder) => folder,
        };
        RemoteShell::new(start, &self.options.exports, self.options.bounds)
    }

    async fn make(&self, cancel: &Cancel) -> Result<Made, CliError> {
        let id = self.account.api.find_or_make(&self.options, cancel).await?;
        // A sandbox that was stopped has lost what shells left in its memory.
        Ok(Made { id, making: random_hex(8) })
    }

    fn not_made(&self, error: &CliError) -> String {
        format!("no Daytona sandbox: {error}")
    }

    fn line<'a>(&'a self, made: &'a Made) -> impl Line + 'a {
        DaytonaLine { api: &self.account.api, id: &made.id }
    }

    fn not_begun(&self, said: &str, code: i32) -> String {
        format!("no bash could be started in the Daytona sandbox (exit code {code}): {said}")
    }

    /// Stopping a command stopped the sandbox.
    async fn look_after(&self, _: &Made, stopped: &mut Finished, cancel: &Cancel) -> Left {
        let is_stopped = stopped.exit_code == INTERRUPTED && cancel.is_cancelled();
        if is_stopped { Left::Nothing } else { Left::AsItWas }
    }

    async fn close(&self, made: &Made, shell: &RemoteShell) {
        shell.clean(&self.line(made), &made.making).await;
        let (id, cancel) = (&made.id, Cancel::new());
        let done = match self.options.keep {
            Keep::Persistent => self.account.api.stop(id, &cancel).await,
            Keep::Ephemeral => self.account.api.delete(id, &cancel).await,
        };
        if let Err(error) = done {
            tracing::warn!(%error, id, "the sandbox could not be closed");
        }
    }
}
