//! Runs commands in a Daytona sandbox, through Daytona's HTTP interface.
//!
//! A [`DaytonaEnvironment`] is one task's sandbox, found or created at the first command and started again
//! when it has stopped. The interface runs one command line and responds when that has ended. The script
//! travels inside that line, in a form that needs no quoting, and the output is framed as in all remote
//! environments. A running line cannot be ended through the interface, so stopping a command stops the
//! sandbox.

mod api;
mod transport;

use std::sync::Arc;

use hermes_types::{Cancel, Clock, CommandOutput, RunError, Secret, random_hex};

use crate::capture::OutputBounds;
use crate::credential::CredentialFiles;
use crate::docker::{InstanceRetention, ResourceLimits};
use crate::remote::service::HttpService;
use crate::remote::{
    AfterCommand, CliError, ForwardedVariables, INTERRUPTED, Instance, InstanceProvider, ManagedInstance,
    PerTaskCache, RemoteEnvironment, RemoteShell, ScriptTransport,
};
use crate::remote_backend::{Backend, TaskImage, uploader};
use api::DaytonaApi;
use transport::DaytonaTransport;

/// The address that is used if none is configured.
const USUAL_ADDRESS: &str = "https://app.daytona.io/api";

/// The options of one task's sandbox.
#[derive(Debug, Clone)]
pub struct DaytonaOptions {
    pub task: String,
    pub image: String,
    /// The folder in which commands begin; the home of the sandbox if `None`.
    pub directory: Option<String>,
    /// The variables for commands.
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
    /// Creates an account without making a request. Without an address it uses Daytona's own.
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

    /// Opens the task's environment; all callers that name the same task share one as long as any of them
    /// holds it.
    pub fn open(self: &Arc<Self>, options: DaytonaOptions) -> Arc<DaytonaEnvironment> {
        let task = options.task.clone();
        let make = || ManagedInstance::new(DaytonaProvider { account: Arc::clone(self), options });
        self.tasks.get_or_create(&task, make)
    }
}

/// Sandboxes of a Daytona account. `task` of the options is filled in for each environment.
#[derive(Debug)]
pub struct DaytonaBackend {
    pub account: Arc<DaytonaAccount>,
    pub options: DaytonaOptions,
}

impl Backend for DaytonaBackend {
    fn open(&self, task: &str, credentials: &CredentialFiles) -> RemoteEnvironment {
        let options = DaytonaOptions { task: task.to_owned(), ..self.options.clone() };
        RemoteEnvironment::new(self.account.open(options), Some(uploader(credentials)))
    }

    fn with_image(&self, wanted: &TaskImage) -> Option<Arc<dyn Backend>> {
        let mut options = DaytonaOptions { image: wanted.image.clone(), ..self.options.clone() };
        options.directory = wanted.directory.clone().or(options.directory);
        Some(Arc::new(Self { account: Arc::clone(&self.account), options }))
    }
}

/// A task's environment in a sandbox. A persistent sandbox is stopped when it is closed, another is removed.
pub type DaytonaEnvironment = ManagedInstance<DaytonaProvider>;

/// Finds or creates a sandbox.
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
        // A sandbox that was stopped has lost the files that shells left in its memory.
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

    /// Tells whether the sandbox can still be used: interrupting a command stopped it.
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
