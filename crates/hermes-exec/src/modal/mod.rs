//! Commands in a sandbox of Modal, through the gateway that manages them.
//!
//! Modal's own interface is gRPC and not published as one; nothing here speaks it. The gateway is HTTP: it makes a sandbox,
//! takes command lines one by one and is asked until each has ended. What we say travels as the input of a bash, what comes
//! back is framed as everywhere else. The gateway keeps the files of a task by a key, so nothing is remembered here.

mod line;

use std::sync::Arc;
use std::time::Duration;

use hermes_net::Method;
use hermes_types::{BoxFuture, Cancel, Clock, Command, Environment, Finished, RunError, Secret, random_hex};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::capture::Bounds;
use crate::docker::{Keep, Limits, container_directory};
use crate::remote::service::Service;
use crate::remote::{
    Called, CliError, Forwarded, INTERRUPTED, INTERRUPTED_NOTE, PerTask, RemoteShell, Site, lock_unless,
};
use line::ModalLine;

const MAKE_LIMIT: Duration = Duration::from_mins(5);
/// How long a sandbox lives at most.
const LIFE: Duration = Duration::from_hours(1);

/// One task's sandbox.
#[derive(Debug, Clone)]
pub struct ModalOptions {
    pub task: String,
    pub image: String,
    /// Where commands begin, as configured. What can only be a folder of the host is ignored.
    pub directory: Option<String>,
    /// Variables for commands.
    pub exports: Forwarded,
    pub limits: Limits,
    pub keep: Keep,
    /// The gateway ends a sandbox nobody used for so long.
    pub idle: Duration,
    pub bounds: Bounds,
}

/// The gateway, and who asks it.
#[derive(Debug)]
pub struct ModalGateway {
    service: Service,
    tasks: PerTask<Modal>,
}

impl ModalGateway {
    /// Asks nothing yet.
    pub fn new(client: hermes_net::Client, address: &str, token: Secret, clock: Arc<dyn Clock>) -> Arc<Self> {
        let (name, setting) = ("the Modal gateway", "MODAL_GATEWAY_URL");
        let service = Service { name, setting, client, address: address.to_owned(), key: token, clock };
        Arc::new(Self { service, tasks: PerTask::default() })
    }

    /// The task's place; who asks for the same task gets the same one as long as anybody holds it.
    pub fn open(self: &Arc<Self>, options: ModalOptions) -> Arc<Modal> {
        let task = options.task.clone();
        self.tasks.get_or_make(&task, || {
            let shell = new_shell(&options);
            Modal { gateway: Arc::clone(self), options, shell, sandbox: Mutex::new(None) }
        })
    }
}

/// A task's place in a sandbox.
#[derive(Debug)]
pub struct Modal {
    gateway: Arc<ModalGateway>,
    options: ModalOptions,
    shell: RemoteShell,
    /// Its id, once it runs. The lock is held while it is made, so that parallel calls share one.
    sandbox: Mutex<Option<String>>,
}

#[derive(Debug, Deserialize)]
struct Made {
    id: String,
}

impl Modal {
    /// Where the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// Ends the sandbox; the gateway keeps the files of one that is to last. One that is gone already is no failure.
    pub async fn close(&self) {
        let Some(id) = self.sandbox.lock().await.take() else { return };
        let body = json!({ "snapshotBeforeTerminate": self.options.keep == Keep::Persistent });
        let path = ["v1", "sandboxes", &id, "terminate"];
        let service = &self.gateway.service;
        if let Err(error) = service.order(Method::POST, &path, Some(&body), &Cancel::new()).await {
            tracing::warn!(%error, id, "the sandbox could not be ended");
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
            let id = match self.running(cancel).await {
                Ok(id) => id,
                Err(CliError::Interrupted) => {
                    return Ok(Finished { output: INTERRUPTED_NOTE.to_owned(), exit_code: INTERRUPTED });
                }
                Err(error) => return Err(RunError::Unavailable(format!("no Modal sandbox: {error}"))),
            };
            let line = ModalLine { service: &self.gateway.service, id: &id };
            match shell.call(&line, &id, command, cancel).await? {
                Called::Finished(finished) => return Ok(finished),
                // It had ended; nothing was run, so it may be run again.
                Called::NeverBegan { .. } if again => {
                    self.let_go(&id).await;
                    again = false;
                }
                Called::NeverBegan { said, code } => {
                    let text =
                        format!("no bash could be started in the Modal sandbox (exit code {code}): {said}");
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
        let (body, once) = (creation(&self.options), random_hex(32));
        let made: Made =
            self.gateway.service.make(&["v1", "sandboxes"], &body, Some(&once), MAKE_LIMIT, cancel).await?;
        *sandbox = Some(made.id.clone());
        Ok(made.id)
    }

    async fn let_go(&self, id: &str) {
        let mut sandbox = self.sandbox.lock().await;
        if sandbox.as_deref() == Some(id) {
            *sandbox = None;
        }
    }
}

impl Environment for Modal {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(self.execute(&self.shell, command, cancel))
    }
}

impl Site for Modal {
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
            let id = self.sandbox.lock().await.clone();
            if let Some(id) = id {
                shell.clean(&ModalLine { service: &self.gateway.service, id: &id }, &id).await;
            }
        })
    }

    fn current(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { self.sandbox.lock().await.clone() })
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}

fn new_shell(options: &ModalOptions) -> RemoteShell {
    let start = container_directory(options.directory.as_deref());
    RemoteShell::new(&start, &options.exports, options.bounds)
}

fn creation(options: &ModalOptions) -> Value {
    let limits = &options.limits;
    let mut body = json!({
        "image": options.image,
        "cwd": container_directory(options.directory.as_deref()),
        "timeoutMs": LIFE.as_millis(),
        "idleTimeoutMs": options.idle.as_millis(),
        "persistentFilesystem": options.keep == Keep::Persistent,
        "logicalKey": options.task,
    });
    if limits.cpus > 0.0 {
        body["cpu"] = json!(limits.cpus);
    }
    if limits.memory_mb > 0 {
        body["memoryMiB"] = json!(limits.memory_mb);
    }
    if limits.disk_mb > 0 {
        body["diskMiB"] = json!(limits.disk_mb);
    }
    body
}
