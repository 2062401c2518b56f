//! Runs commands in a Modal sandbox, through the gateway that manages sandboxes.
//!
//! The gateway is an HTTP service: it creates a sandbox, takes command lines one by one and is polled until
//! each has ended. The script travels as the input of a bash, and the output is framed as in all remote
//! environments. The gateway keeps the files of a task by a key, so nothing is recorded here.

mod transport;

use std::sync::Arc;

use hermes_net::Method;
use hermes_types::{Cancel, Clock, Secret, random_hex};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{LIFE, MAKE_LIMIT, ModalOptions};
use crate::credential::CredentialFiles;
use crate::docker::{InstanceRetention, container_directory};
use crate::remote::service::HttpService;
use crate::remote::{
    CliError, Instance, InstanceProvider, ManagedInstance, PerTaskCache, RemoteEnvironment, RemoteShell,
    ScriptTransport,
};
use crate::remote_backend::{Backend, TaskImage, uploader};
use transport::ModalGatewayTransport;

/// A client of the gateway, with the user's token.
#[derive(Debug)]
pub struct ModalGateway {
    service: HttpService,
    tasks: PerTaskCache<ModalGatewayEnvironment>,
}

impl ModalGateway {
    /// Creates a gateway client without making a request.
    pub fn new(
        client: hermes_net::HttpClient,
        address: &str,
        token: Secret,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let (name, setting) = ("the Modal gateway", "MODAL_GATEWAY_URL");
        let service = HttpService { name, setting, client, address: address.to_owned(), key: token, clock };
        Arc::new(Self { service, tasks: PerTaskCache::default() })
    }

    /// Opens the task's environment; all callers that name the same task share one as long as any of them
    /// holds it.
    pub fn open(self: &Arc<Self>, options: ModalOptions) -> Arc<ModalGatewayEnvironment> {
        let task = options.task.clone();
        let make = || ManagedInstance::new(ModalGatewayProvider { gateway: Arc::clone(self), options });
        self.tasks.get_or_create(&task, make)
    }
}

/// Sandboxes behind the Modal gateway. `task` of the options is filled in for each environment.
#[derive(Debug)]
pub struct ModalGatewayBackend {
    pub gateway: Arc<ModalGateway>,
    pub options: ModalOptions,
}

impl Backend for ModalGatewayBackend {
    fn open(&self, task: &str, credentials: &CredentialFiles) -> RemoteEnvironment {
        let options = ModalOptions { task: task.to_owned(), ..self.options.clone() };
        RemoteEnvironment::new(self.gateway.open(options), Some(uploader(credentials)))
    }

    fn with_image(&self, wanted: &TaskImage) -> Option<Arc<dyn Backend>> {
        let mut options = ModalOptions { image: wanted.image.clone(), ..self.options.clone() };
        options.directory = wanted.directory.clone().or(options.directory);
        Some(Arc::new(Self { gateway: Arc::clone(&self.gateway), options }))
    }
}

/// A task's environment in a sandbox. The gateway keeps the files of a persistent one.
pub type ModalGatewayEnvironment = ManagedInstance<ModalGatewayProvider>;

/// Creates sandboxes.
#[derive(Debug)]
pub struct ModalGatewayProvider {
    gateway: Arc<ModalGateway>,
    options: ModalOptions,
}

#[derive(Debug, Deserialize)]
struct CreateResponse {
    id: String,
}

impl InstanceProvider for ModalGatewayProvider {
    const STOPPED: Option<&'static str> = None;

    fn new_shell(&self) -> RemoteShell {
        let start = container_directory(self.options.directory.as_deref());
        RemoteShell::new(&start, &self.options.exports, self.options.bounds)
    }

    async fn create(&self, cancel: &Cancel) -> Result<Instance, CliError> {
        let (body, once) = (creation(&self.options), random_hex(32));
        let path = ["v1", "sandboxes"];
        let made = self.gateway.service.create(&path, &body, Some(&once), MAKE_LIMIT, cancel);
        let CreateResponse { id } = made.await?;
        Ok(Instance::named(id))
    }

    fn create_failure(&self, error: &CliError) -> String {
        format!("no Modal sandbox: {error}")
    }

    fn transport<'a>(&'a self, made: &'a Instance) -> impl ScriptTransport + 'a {
        ModalGatewayTransport { service: &self.gateway.service, id: &made.id }
    }

    fn start_failure(&self, said: &str, code: i32) -> String {
        format!("no bash could be started in the Modal sandbox (exit code {code}): {said}")
    }

    async fn close(&self, Instance { id, .. }: &Instance, _: &RemoteShell) {
        let body =
            json!({ "snapshotBeforeTerminate": self.options.retention == InstanceRetention::Persistent });
        let path = ["v1", "sandboxes", id, "terminate"];
        let service = &self.gateway.service;
        if let Err(error) = service.request_action(Method::POST, &path, Some(&body), &Cancel::new()).await {
            tracing::warn!(%error, id, "the sandbox could not be ended");
        }
    }
}

fn creation(options: &ModalOptions) -> Value {
    let limits = &options.limits;
    let mut body = json!({
        "image": options.image,
        "cwd": container_directory(options.directory.as_deref()),
        "timeoutMs": LIFE.as_millis(),
        "idleTimeoutMs": options.idle.as_millis(),
        "persistentFilesystem": options.retention == InstanceRetention::Persistent,
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
