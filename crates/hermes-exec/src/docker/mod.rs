//! Runs commands in a container of Docker, or of Podman, which takes the same arguments.
//!
//! A [`DockerEngine`] is the client program and what the engine supports. A [`DockerEnvironment`] is one
//! task's container, created at the first command and created again when it is gone. The two folders of
//! [`InstanceRetention::Persistent`] are all it keeps on the host. Nothing of the host is visible inside but
//! what the options name.

mod arguments;
mod engine;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, CommandOutput, RunError, random_hex};

pub use engine::DockerEngine;

use crate::capture::OutputBounds;
use crate::credential::{CredentialFile, CredentialFiles};
use crate::owner;
use crate::remote::{
    AfterCommand, CliError, CliTransport, CommandForm, ForwardedVariables, INTERRUPTED, Instance,
    InstanceProvider, ManagedInstance, RemoteEnvironment, RemoteShell, ScriptTransport, TIMED_OUT,
};
use crate::remote_backend::{Backend, HostExposure, TaskImage};
pub(crate) use arguments::container_directory;
use arguments::{EngineFeatures, InitProcess, PersistentFolders, directory, run_arguments};

const START_LIMIT: Duration = Duration::from_mins(2);
const STOP_LIMIT: Duration = Duration::from_mins(1);
const LOOK_LIMIT: Duration = Duration::from_secs(10);
const RESPONSE_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// The time, in seconds, that a container's processes have to end by themselves.
const STOP_GRACE: &str = "3";

/// The options of one task's container.
#[derive(Debug, Clone)]
pub struct DockerOptions {
    pub task: String,
    pub image: String,
    /// The configured folder in which commands begin. A folder that can only exist on the host is ignored.
    pub directory: Option<String>,
    /// A folder of the host that is mounted as `/workspace`.
    pub mount: Option<PathBuf>,
    /// The folder that holds the folders of persistent containers.
    pub sandboxes: PathBuf,
    /// The configured volumes, each as `host:container[:ro]`.
    pub volumes: Vec<String>,
    /// The credential files, mounted below `/root/.hermes`, read-only.
    pub credentials: Vec<CredentialFile>,
    /// The variables for commands.
    pub exports: ForwardedVariables,
    pub limits: ResourceLimits,
    pub network: ContainerNetwork,
    pub root: RootFilesystem,
    pub retention: InstanceRetention,
    pub bounds: OutputBounds,
}

impl DockerOptions {
    /// Tells whether commands can change something on this machine other than the folders that the container
    /// keeps.
    pub(crate) fn shows_host_folders(&self) -> bool {
        self.mount.is_some() || self.volumes.iter().any(|volume| volume.starts_with(['/', '.', '~']))
    }
}

/// Limits what a container may use; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResourceLimits {
    pub cpus: f64,
    pub memory_mb: usize,
    pub disk_mb: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerNetwork {
    On,
    Off,
}

/// Selects whether the container's own file system is writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootFilesystem {
    /// Only home, workspace and temporary folders are writable.
    ReadOnly,
    Writable,
}

/// Selects what is kept when the container is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceRetention {
    /// Home and workspace are kept.
    Persistent,
    Ephemeral,
}

/// Containers of a Docker engine. `task` of the options is filled in for each environment.
#[derive(Debug)]
pub struct DockerBackend {
    pub engine: Arc<DockerEngine>,
    pub options: DockerOptions,
}

impl Backend for DockerBackend {
    fn open(&self, task: &str, credentials: &CredentialFiles) -> RemoteEnvironment {
        let (task, credentials) = (task.to_owned(), credentials.list());
        let options = DockerOptions { task, credentials, ..self.options.clone() };
        RemoteEnvironment::new(self.engine.open(options), None)
    }

    fn check<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(self.engine.check(cancel))
    }

    fn host_exposure(&self) -> HostExposure {
        if self.options.shows_host_folders() { HostExposure::UserFiles } else { HostExposure::Isolated }
    }

    fn with_image(&self, wanted: &TaskImage) -> Option<Arc<dyn Backend>> {
        let mut options = DockerOptions { image: wanted.image.clone(), ..self.options.clone() };
        options.directory = wanted.directory.clone().or(options.directory);
        Some(Arc::new(Self { engine: Arc::clone(&self.engine), options }))
    }

    fn fetch_image<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(self.engine.fetch(&self.options.image, cancel))
    }
}

/// A task's environment in a container.
pub type DockerEnvironment = ManagedInstance<DockerProvider>;

impl DockerEnvironment {
    /// Returns the container's name, if there is a container.
    pub async fn container(&self) -> Option<String> {
        self.instance().await.map(|made| made.id)
    }
}

/// Creates containers.
#[derive(Debug)]
pub struct DockerProvider {
    engine: Arc<DockerEngine>,
    options: DockerOptions,
}

impl InstanceProvider for DockerProvider {
    const STOPPED: Option<&'static str> = Some("\n[The container stopped while the command was running]");

    fn new_shell(&self) -> RemoteShell {
        RemoteShell::new(&directory(&self.options), &self.options.exports, self.options.bounds)
    }

    async fn create(&self, cancel: &Cancel) -> Result<Instance, CliError> {
        self.engine.check(cancel).await.map_err(|error| CliError::Refused(error.to_string()))?;
        if self.options.retention == InstanceRetention::Persistent {
            let PersistentFolders { home, workspace } = PersistentFolders::of(&self.options);
            for folder in [home, workspace] {
                make_private(&folder)
                    .map_err(|error| CliError::Refused(format!("{}: {error}", folder.display())))?;
            }
        }
        let disk_limit = self.engine.disk_limit(&self.options, cancel).await;
        let mut abilities = EngineFeatures { disk_limit, init: InitProcess::Engine };
        loop {
            let name = format!("hermes-{}", random_hex(8));
            let arguments = run_arguments(&self.options, &name, &owner::ourselves(), abilities);
            match self.engine.cli().run(&arguments, None, START_LIMIT, cancel).await {
                Ok(said) if said.code == 0 => return Ok(Instance::named(name)),
                Ok(said) => {
                    self.remove_named(&name).await;
                    if !lacks_init(&said.text) || abilities.init == InitProcess::Missing {
                        return Err(not_started(&said.text));
                    }
                    tracing::warn!(said = said.text, "the engine has no init program; starting without");
                    abilities.init = InitProcess::Missing;
                }
                Err(error) => {
                    // The container may have been created despite the error.
                    self.remove_named(&name).await;
                    return Err(match error {
                        CliError::Interrupted => CliError::Interrupted,
                        error => not_started(&error),
                    });
                }
            }
        }
    }

    fn create_failure(&self, error: &CliError) -> String {
        error.to_string()
    }

    fn transport<'a>(&'a self, made: &'a Instance) -> impl ScriptTransport + 'a {
        let words = ["exec", "-i", "-w", "/", &made.id].map(str::to_owned).to_vec();
        CliTransport { cli: self.engine.cli().clone(), prefix_arguments: words, form: CommandForm::Arguments }
    }

    fn start_failure(&self, said: &str, code: i32) -> String {
        let image = &self.options.image;
        format!("no bash could be started in the container of image {image} (exit code {code}): {said}")
    }

    async fn is_gone(&self, made: &Instance) -> bool {
        let words = ["inspect", "-f", "{{.State.Running}}", &made.id].map(str::to_owned);
        let asked = self.engine.cli().run(&words, None, LOOK_LIMIT, &Cancel::new()).await;
        asked.is_ok_and(|said| said.code != 0 || !said.text.ends_with("true"))
    }

    /// Tells whether the container can still be used: a stopped command may have used up its limit on
    /// processes, and then nothing in it can be ended either.
    async fn after_stop(&self, made: &Instance, stopped: &mut CommandOutput, _: &Cancel) -> AfterCommand {
        if !matches!(stopped.exit_code, TIMED_OUT | INTERRUPTED) {
            return AfterCommand::Reusable;
        }
        let words = ["exec", &made.id, "bash", "-c", "(:) | (:) | (:)"].map(str::to_owned);
        let asked = self.engine.cli().run(&words, None, RESPONSE_LIMIT, &Cancel::new()).await;
        if asked.is_ok_and(|said| said.code == 0) {
            return AfterCommand::Reusable;
        }
        stopped
            .output
            .push_str("\n[The container did not respond any more; the next command gets a new one]");
        AfterCommand::Unusable
    }

    async fn remove(&self, made: &Instance) {
        self.remove_named(&made.id).await;
    }

    async fn close(&self, Instance { id: name, .. }: &Instance, _: &RemoteShell) {
        if self.options.retention == InstanceRetention::Persistent {
            // What the processes still write belongs to the folders that are kept.
            self.run_ignoring_absence(&["stop", "-t", STOP_GRACE, name]).await;
        }
        self.remove_named(name).await;
    }

    fn abandon(&self, made: &Instance) {
        self.engine.cli().run_in_background(&["rm", "-f", "-v", &made.id], STOP_LIMIT);
    }
}

impl DockerProvider {
    /// Removes the container and waits until it is gone: an engine that is already removing it responds at
    /// once.
    async fn remove_named(&self, name: &str) {
        self.run_ignoring_absence(&["rm", "-f", "-v", name]).await;
        let words = ["ps", "-a", "-q", "--filter", &format!("name={name}")].map(str::to_owned);
        let clock = &self.engine.cli().clock;
        let end = clock.monotonic() + STOP_LIMIT;
        while clock.monotonic() < end {
            match self.engine.cli().run(&words, None, LOOK_LIMIT, &Cancel::new()).await {
                Ok(said) if said.code == 0 && !said.text.is_empty() => clock.sleep(PAUSE).await,
                _ => return,
            }
        }
        tracing::warn!(name, "the container could not be removed");
    }

    /// Runs a client command on a container; a missing container is no failure.
    async fn run_ignoring_absence(&self, words: &[&str]) {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        match self.engine.cli().run(&words, None, STOP_LIMIT, &Cancel::new()).await {
            Ok(said) if said.code == 0 || is_absence(&said.text) => {}
            Ok(said) => tracing::warn!(said = said.text, ?words, "the engine refused"),
            Err(error) => tracing::warn!(%error, ?words, "the engine gave no answer"),
        }
    }
}

fn not_started(why: &dyn std::fmt::Display) -> CliError {
    CliError::Refused(format!("the container could not be started: {why}"))
}

/// Tells whether the engine's message says that it has no init program for containers.
fn lacks_init(said: &str) -> bool {
    ["docker-init", "catatonit", "init binary"].iter().any(|what| said.contains(what))
}

fn is_absence(text: &str) -> bool {
    let text = text.to_lowercase();
    ["no such container", "no container with", "already in progress", "is not running"]
        .iter()
        .any(|what| text.contains(what))
}

fn make_private(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
