//! Commands in a sandbox of Daytona, through its HTTP interface.
//!
//! A `Daytona` is one task's sandbox, found or made at the first command and started again when it has stopped. The
//! interface runs one command line and answers when that has ended; what we say travels inside that line, in a form that
//! needs no quoting, and what comes back is framed as everywhere else. Nothing can be ended over there while it runs, so
//! stopping a command stops the sandbox.

mod api;
mod transport;

use std::sync::Arc;

use hermes_types::{Cancel, Clock, CommandOutput, RunError, Secret, random_hex};

use crate::capture::OutputBounds;
use crate::docker::{InstanceRetention, ResourceLimits};
use crate::remote::service::HttpService;
use crate::remote::{
    AfterCommand, CliError, ForwardedVariables, INTERRUPTED, Instance, InstanceProvider, ManagedInstance,
    PerTaskCache, RemoteShell, ScriptTransport,
};
use api::DaytonaApi;
use transport::DaytonaTransport;

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
    pub exports: ForwardedVariables,
    pub limits: ResourceLimits,
    pub retention: InstanceRetention,
    pub bounds: OutputBounds,
}

/// An account with Daytona.
#[derive(Debug)]
pub struct DaytonaAccount {
    api: DaytonaApi,
    tasks: PerTaskCache<DaytonaEnvironment>,
}

impl DaytonaAccount {
    /// Asks nothing yet. Without an address it is Daytona's own.
    pub fn new(
        client: hermes_net::HttpClient,
        address: Option<&str>,
        key: Secret,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, RunError> {
        if key.is_empty() {
            return Err(RunError::Unavailable("DAYTONA_API_KEY is not set".to_owned()));
        }
        let service = HttpService {
            name: "Daytona",
            setting: "DAYTONA_API_URL",
            client,
            address: address.unwrap_or(USUAL_ADDRESS).to_owned(),
            key,
            clock,
        };
        Ok(Arc::new(Self { api: DaytonaApi(service), tasks: PerTaskCache::default() }))
    }

    /// The task's place; who asks for the same task gets the same one as long as anybody holds it.
    pub fn open(self: &Arc<Self>, options: DaytonaOptions) -> Arc<DaytonaEnvironment> {
        let task = options.task.clone();
        let make = || ManagedInstance::new(DaytonaProvider { account: Arc::clone(self), options });
        self.tasks.get_or_create(&task, make)
    }
}

/// A task's place in a sandbox. One that is to last is stopped when it is closed, another is removed.
pub type DaytonaEnvironment = ManagedInstance<DaytonaProvider>;

/// What finds or makes a sandbox.
#[derive(Debug)]
pub struct DaytonaProvider {
    account: Arc<DaytonaAccount>,
    options: DaytonaOptions,
}

impl InstanceProvider for DaytonaProvider {
    const STOPPED: Option<&'static str> = None;

    fn new_shell(&self) -> RemoteShell {
        let start = match self.options.directory.as_deref() {
            None | Some("/home/daytona") => "~",
            Some(folder) => folder,
        };
        RemoteShell::new(start, &self.options.exports, self.options.bounds)
    }

    async fn create(&self, cancel: &Cancel) -> Result<Instance, CliError> {
        let id = self.account.api.find_or_create(&self.options, cancel).await?;
        // A sandbox that was stopped has lost what shells left in its memory.
        Ok(Instance { id, generation: random_hex(8) })
    }

    fn create_failure(&self, error: &CliError) -> String {
        format!("no Daytona sandbox: {error}")
    }

    fn transport<'a>(&'a self, made: &'a Instance) -> impl ScriptTransport + 'a {
        DaytonaTransport { api: &self.account.api, id: &made.id }
    }

    fn start_failure(&self, said: &str, code: i32) -> String {
        format!("no bash could be started in the Daytona sandbox (exit code {code}): {said}")
    }

    /// Stopping a command stopped the sandbox.
    async fn after_stop(&self, _: &Instance, stopped: &mut CommandOutput, cancel: &Cancel) -> AfterCommand {
        let is_stopped = stopped.exit_code == INTERRUPTED && cancel.is_cancelled();
        if is_stopped { AfterCommand::Unusable } else { AfterCommand::Reusable }
    }

    async fn close(&self, made: &Instance, shell: &RemoteShell) {
        shell.clean(&self.transport(made), &made.generation).await;
        let (id, cancel) = (&made.id, Cancel::new());
        let done = match self.options.retention {
            InstanceRetention::Persistent => self.account.api.stop(id, &cancel).await,
            InstanceRetention::Ephemeral => self.account.api.delete(id, &cancel).await,
        };
        if let Err(error) = done {
            tracing::warn!(%error, id, "the sandbox could not be closed");
        }
    }
}
