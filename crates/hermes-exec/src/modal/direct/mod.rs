//! Runs commands in a sandbox of the user's own account with Modal.
//!
//! A [`ModalDirectEnvironment`] is one task's sandbox, created at the first command and created again when it
//! is gone. Stopping a command terminates its sandbox. The files of a persistent sandbox are kept as an
//! image: the image's id is recorded before the sandbox is terminated, and the next sandbox starts from it.

mod bridge_connection;
mod python_bridge;
mod python_search;
mod snapshots;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{BoxFuture, Cancel, Clock, CommandOutput, RunError};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

pub use python_search::PythonSearch;

use super::{LIFE, MAKE_LIMIT, ModalOptions};
use crate::credential::CredentialFiles;
use crate::docker::{InstanceRetention, container_directory};
use crate::remote::{
    AfterCommand, CliError, INTERRUPTED, INTERRUPTED_NOTE, Instance, InstanceProvider, ManagedInstance,
    PerTaskCache, RemoteEnvironment, RemoteShell, ScriptTransport, lock_unless_cancelled,
};
use crate::remote_backend::{Backend, TaskImage, uploader};
use crate::variables::Variables;
use python_bridge::PythonBridge;
use snapshots::ModalSnapshots;
use transport::ModalDirectTransport;

/// The app to which the sandboxes belong in the account.
const APP: &str = "hermes-agent";
const POLL_LIMIT: Duration = Duration::from_secs(10);
const SNAPSHOT_LIMIT: Duration = Duration::from_mins(1);
const TERMINATE_LIMIT: Duration = Duration::from_secs(15);
const TERMINATED_NOTE: &str = "\n[Command interrupted - Modal sandbox terminated]";

/// An account with Modal, and the Python program that talks to it.
#[derive(Debug)]
pub struct ModalAccount {
    account: SharedAccount,
    tasks: PerTaskCache<ModalDirectEnvironment>,
}

/// The state that all sandboxes share.
#[derive(Debug, Clone)]
struct SharedAccount(Arc<AccountState>);

#[derive(Debug)]
struct AccountState {
    bridge: PythonBridge,
    snapshots: ModalSnapshots,
}

impl ModalAccount {
    /// Creates an account without starting a process. The account's tokens are among the variables, or in a
    /// file of the user that Modal's package reads by itself; `snapshots` is the file that records the image
    /// of each task.
    pub fn new(
        pythons: PythonSearch<'_>,
        variables: Variables,
        snapshots: PathBuf,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let pythons = pythons.find(&variables);
        let envoy = PythonBridge { pythons, variables, clock, state: Mutex::default() };
        let account =
            SharedAccount(Arc::new(AccountState { bridge: envoy, snapshots: ModalSnapshots(snapshots) }));
        Arc::new(Self { account, tasks: PerTaskCache::default() })
    }

    /// Checks that a Python with Modal's package is available.
    pub async fn check(&self, cancel: &Cancel) -> Result<(), RunError> {
        self.account.0.bridge.check(cancel).await.map_err(|error| RunError::Unavailable(error.to_string()))
    }

    /// Opens the task's environment; all callers that name the same task share one as long as any of them
    /// holds it.
    pub fn open(&self, options: ModalOptions) -> Arc<ModalDirectEnvironment> {
        let task = options.task.clone();
        let make = || {
            ManagedInstance::new(ModalDirectProvider {
                account: self.account.clone(),
                options,
                ending: Arc::default(),
            })
        };
        self.tasks.get_or_create(&task, make)
    }
}

/// Sandboxes of the user's own Modal account. `task` of the options is filled in for each environment.
#[derive(Debug)]
pub struct ModalDirectBackend {
    pub account: Arc<ModalAccount>,
    pub options: ModalOptions,
}

impl Backend for ModalDirectBackend {
    fn open(&self, task: &str, credentials: &CredentialFiles) -> RemoteEnvironment {
        let options = ModalOptions { task: task.to_owned(), ..self.options.clone() };
        RemoteEnvironment::new(self.account.open(options), Some(uploader(credentials)))
    }

    fn check<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(self.account.check(cancel))
    }

    fn with_image(&self, wanted: &TaskImage) -> Option<Arc<dyn Backend>> {
        let mut options = ModalOptions { image: wanted.image.clone(), ..self.options.clone() };
        options.directory = wanted.directory.clone().or(options.directory);
        Some(Arc::new(Self { account: Arc::clone(&self.account), options }))
    }
}

/// A task's environment in a sandbox.
pub type ModalDirectEnvironment = ManagedInstance<ModalDirectProvider>;

/// Creates sandboxes.
#[derive(Debug)]
pub struct ModalDirectProvider {
    account: SharedAccount,
    options: ModalOptions,
    /// A lock held while a sandbox is ended in the background; the next one starts from the image it leaves.
    ending: Arc<Mutex<()>>,
}

#[derive(Debug, Deserialize)]
struct CreatedSandbox {
    sandbox: String,
    /// The reason why the snapshot could not be used.
    unusable: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PollResponse {
    alive: bool,
}

#[derive(Debug, Deserialize)]
struct ImageResponse {
    image: String,
}

impl InstanceProvider for ModalDirectProvider {
    const STOPPED: Option<&'static str> = Some("\n[The Modal sandbox ended while the command was running]");

    fn new_shell(&self) -> RemoteShell {
        let start = container_directory(self.options.directory.as_deref());
        RemoteShell::new(&start, &self.options.exports, self.options.bounds)
    }

    async fn create(&self, cancel: &Cancel) -> Result<Instance, CliError> {
        drop(lock_unless_cancelled(&self.ending, cancel).await.ok_or(CliError::Interrupted)?);
        let envoy = &self.account.0.bridge;
        envoy.expect_sandbox(cancel).await?;
        let snapshot = match self.options.retention {
            InstanceRetention::Persistent => self.account.0.snapshots.image_of(&self.options.task),
            InstanceRetention::Ephemeral => None,
        };
        let request = creation(&self.options, snapshot.as_deref());
        let CreatedSandbox { sandbox, unusable } = match envoy.ask(request, MAKE_LIMIT, cancel).await {
            Ok(created) => created,
            Err(error) => {
                envoy.forget_sandbox().await;
                return Err(error);
            }
        };
        if let Some(why) = unusable {
            tracing::warn!(why, snapshot, "the snapshot cannot be used; the sandbox begins from its image");
        }
        Ok(Instance::named(sandbox))
    }

    fn create_failure(&self, error: &CliError) -> String {
        format!("no Modal sandbox: {error}")
    }

    fn transport<'a>(&'a self, made: &'a Instance) -> impl ScriptTransport + 'a {
        ModalDirectTransport { account: self.account.clone(), id: made.id.clone() }
    }

    fn start_failure(&self, said: &str, code: i32) -> String {
        let image = &self.options.image;
        format!("no bash could be started in the Modal sandbox of image {image} (exit code {code}): {said}")
    }

    async fn is_gone(&self, made: &Instance) -> bool {
        let request = json!({ "act": "poll", "sandbox": made.id });
        let polled = self.account.0.bridge.ask::<PollResponse>(request, POLL_LIMIT, &Cancel::new()).await;
        polled.is_ok_and(|polled| !polled.alive)
    }

    /// Tells whether the sandbox can still be used: interrupting a command terminated it.
    async fn after_stop(&self, _: &Instance, stopped: &mut CommandOutput, cancel: &Cancel) -> AfterCommand {
        if stopped.exit_code != INTERRUPTED || !cancel.is_cancelled() {
            return AfterCommand::Reusable;
        }
        if let Some(said) = stopped.output.strip_suffix(INTERRUPTED_NOTE) {
            stopped.output = format!("{said}{TERMINATED_NOTE}");
        }
        AfterCommand::Unusable
    }

    /// Ends the sandbox in the background, so that only a caller that needs the next one waits.
    async fn remove(&self, made: &Instance) {
        let held = Arc::clone(&self.ending).lock_owned().await;
        let (account, id) = (self.account.clone(), made.id.clone());
        let (task, keep) = (self.options.task.clone(), self.options.retention);
        spawn_named(format!("end of {id}"), &Cancel::new(), async move {
            account.end(&id, &task, keep).await;
            drop(held);
        });
    }

    async fn finish(&self) {
        drop(self.ending.lock().await);
    }

    async fn close(&self, made: &Instance, shell: &RemoteShell) {
        shell.clean(&self.transport(made), &made.generation).await;
        self.account.end(&made.id, &self.options.task, self.options.retention).await;
    }

    fn abandon(&self, made: &Instance) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (account, id) = (self.account.clone(), made.id.clone());
        let (task, keep) = (self.options.task.clone(), self.options.retention);
        spawn_named(
            format!("end of {id}"),
            &Cancel::new(),
            async move { account.end(&id, &task, keep).await },
        );
    }
}

impl SharedAccount {
    /// Saves the files of a sandbox as an image, if it is persistent, and terminates it.
    async fn end(&self, id: &str, task: &str, keep: InstanceRetention) {
        if keep == InstanceRetention::Persistent
            && let Err(error) = self.save(id, task).await
        {
            tracing::warn!(error, id, "what the sandbox has written could not be kept");
        }
        self.terminate(id).await;
    }

    async fn save(&self, id: &str, task: &str) -> Result<(), String> {
        let request = json!({ "act": "snapshot", "sandbox": id });
        let taken = self.0.bridge.ask(request, SNAPSHOT_LIMIT, &Cancel::new()).await;
        let ImageResponse { image } = taken.map_err(|error| error.to_string())?;
        self.0.snapshots.save(task, &image).map_err(|error| error.to_string())
    }

    async fn terminate(&self, id: &str) {
        let request = json!({ "act": "terminate", "sandbox": id });
        let done = self.0.bridge.ask::<Value>(request, TERMINATE_LIMIT, &Cancel::new()).await;
        if let Err(error) = done {
            tracing::warn!(%error, id, "the sandbox could not be terminated");
        }
        self.0.bridge.forget_sandbox().await;
    }
}

fn creation(options: &ModalOptions, snapshot: Option<&str>) -> Value {
    json!({
        "act": "create",
        "app": APP,
        "image": options.image,
        "snapshot": snapshot,
        "cpu": options.limits.cpus,
        "memory": options.limits.memory_mb,
        "disk": options.limits.disk_mb,
        "life": LIFE.as_secs(),
    })
}
