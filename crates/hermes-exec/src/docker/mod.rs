//! Commands in a container of Docker, or of Podman, which takes the same words.
//!
//! An engine is the client program and what it can do. A `Docker` is one task's container, made at the first command and
//! made anew when it is gone; what it keeps outside itself are the two folders of `Keep::Persistent`. Nothing of the host
//! is visible inside but what the options name.

mod arguments;
mod engine;
mod owner;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Command, Environment, Finished, RunError, random_hex};
use tokio::sync::Mutex;

pub use engine::DockerEngine;

use crate::capture::Bounds;
use crate::credential::Credential;
use crate::remote::{
    Called, CliError, Form, Forwarded, INTERRUPTED, INTERRUPTED_NOTE, Reach, RemoteShell, Site, TIMED_OUT,
    lock_unless,
};
pub(crate) use arguments::container_directory;
use arguments::{Abilities, Folders, Reaper, directory, run_arguments};

const START_LIMIT: Duration = Duration::from_mins(2);
const STOP_LIMIT: Duration = Duration::from_mins(1);
const LOOK_LIMIT: Duration = Duration::from_secs(10);
const RESPONSE_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// What a container's processes get to end by themselves.
const STOP_GRACE: &str = "3";

/// One task's container.
#[derive(Debug, Clone)]
pub struct DockerOptions {
    pub task: String,
    pub image: String,
    /// Where commands begin, as configured. What can only be a folder of the host is ignored.
    pub directory: Option<String>,
    /// A folder of the host to be `/workspace`.
    pub mount: Option<PathBuf>,
    /// Where the folders of persistent containers are.
    pub sandboxes: PathBuf,
    /// `host:container[:ro]`.
    pub volumes: Vec<String>,
    /// Shown under `/root/.hermes`, read-only.
    pub credentials: Vec<Credential>,
    /// Variables for commands.
    pub exports: Forwarded,
    pub limits: Limits,
    pub network: Network,
    pub root: Root,
    pub keep: Keep,
    pub bounds: Bounds,
}

impl DockerOptions {
    /// Whether commands can change something of this machine beside what the container keeps for itself.
    pub(crate) fn shows_host_folders(&self) -> bool {
        self.mount.is_some() || self.volumes.iter().any(|volume| volume.starts_with(['/', '.', '~']))
    }
}

/// What a container may use; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub cpus: f64,
    pub memory_mb: usize,
    pub disk_mb: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    On,
    Off,
}

/// The container's own file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// Only home, workspace and temporary folders can be written to.
    ReadOnly,
    Writable,
}

/// What is left when the container is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Home and workspace.
    Persistent,
    Ephemeral,
}

/// A task's place in a container.
#[derive(Debug)]
pub struct Docker {
    engine: Arc<DockerEngine>,
    options: DockerOptions,
    shell: RemoteShell,
    /// Its name, once it is made. The lock is held while it is, so that parallel calls share one.
    container: Mutex<Option<String>>,
}

impl Docker {
    fn new(engine: Arc<DockerEngine>, options: DockerOptions) -> Self {
        let shell = RemoteShell::new(&directory(&options), &options.exports, options.bounds);
        Self { engine, options, shell, container: Mutex::new(None) }
    }

    /// Where the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// The container's name, if there is one.
    pub async fn container(&self) -> Option<String> {
        self.container.lock().await.clone()
    }

    /// Stops and removes the container. One that is gone already is no failure. The next command makes a new one.
    pub async fn close(&self) {
        let Some(name) = self.container.lock().await.take() else { return };
        if self.options.keep == Keep::Persistent {
            // What its processes still write belongs to the folders that stay.
            self.tell(&["stop", "-t", STOP_GRACE, &name]).await;
        }
        self.remove(&name).await;
    }

    async fn execute(
        &self,
        shell: &RemoteShell,
        command: Command<'_>,
        cancel: &Cancel,
    ) -> Result<Finished, RunError> {
        let mut fresh = false;
        loop {
            let name = match self.running(cancel).await {
                Ok(name) => name,
                Err(Start::Interrupted) => {
                    return Ok(Finished { output: INTERRUPTED_NOTE.to_owned(), exit_code: INTERRUPTED });
                }
                Err(Start::Failed(text)) => return Err(RunError::Unavailable(text)),
            };
            match shell.call(&self.reach(&name), &name, command, cancel).await? {
                Called::Finished(finished) if matches!(finished.exit_code, TIMED_OUT | INTERRUPTED) => {
                    return Ok(self.see_that_it_responds(&name, finished).await);
                }
                Called::Finished(finished) => return Ok(finished),
                // Nothing was run, so it may be run again.
                Called::NeverBegan { .. } if !fresh && self.is_gone(&name).await => {
                    tracing::warn!(name, "the container was gone; a new one is started");
                    self.discard(&name).await;
                    fresh = true;
                }
                Called::NeverBegan { said, code } => {
                    let text = format!(
                        "no bash could be started in the container of image {} (exit code {code}): {said}",
                        self.options.image
                    );
                    return Err(RunError::Unavailable(text));
                }
                Called::Unfinished { mut output, code } => {
                    if self.is_gone(&name).await {
                        output.push_str("\n[The container stopped while the command was running]");
                        self.discard(&name).await;
                    }
                    return Ok(Finished { output, exit_code: code });
                }
            }
        }
    }

    /// A command that was stopped may have left the container without room for another process, and then nothing in it
    /// can be ended either.
    async fn see_that_it_responds(&self, name: &str, mut finished: Finished) -> Finished {
        let words = ["exec", name, "bash", "-c", "(:) | (:) | (:)"].map(str::to_owned);
        let asked = self.engine.cli().ask(&words, None, RESPONSE_LIMIT, &Cancel::new()).await;
        if !asked.is_ok_and(|said| said.code == 0) {
            self.discard(name).await;
            finished
                .output
                .push_str("\n[The container did not respond any more; the next command gets a new one]");
        }
        finished
    }

    /// The name of the container, made if there is none.
    async fn running(&self, cancel: &Cancel) -> Result<String, Start> {
        let Some(mut container) = lock_unless(&self.container, cancel).await else {
            return Err(Start::Interrupted);
        };
        if let Some(name) = &*container {
            return Ok(name.clone());
        }
        let name = self.start(cancel).await?;
        *container = Some(name.clone());
        Ok(name)
    }

    async fn start(&self, cancel: &Cancel) -> Result<String, Start> {
        self.engine.check(cancel).await.map_err(|error| Start::Failed(error.to_string()))?;
        if self.options.keep == Keep::Persistent {
            let Folders { home, workspace } = Folders::of(&self.options);
            for folder in [home, workspace] {
                make_private(&folder)
                    .map_err(|error| Start::Failed(format!("{}: {error}", folder.display())))?;
            }
        }
        let disk_limit = self.engine.disk_limit(&self.options, cancel).await;
        let mut abilities = Abilities { disk_limit, reaper: Reaper::Engine };
        loop {
            let name = format!("hermes-{}", random_hex(8));
            let arguments = run_arguments(&self.options, &name, &owner::ourselves(), abilities);
            match self.engine.cli().ask(&arguments, None, START_LIMIT, cancel).await {
                Ok(said) if said.code == 0 => return Ok(name),
                Ok(said) => {
                    self.remove(&name).await;
                    let no_reaper = ["docker-init", "catatonit", "init binary"]
                        .iter()
                        .any(|what| said.text.contains(what));
                    if !no_reaper || abilities.reaper == Reaper::Nobody {
                        return Err(Start::Failed(format!(
                            "the container could not be started: {}",
                            said.text
                        )));
                    }
                    tracing::warn!(said = said.text, "the engine has no init program; starting without");
                    abilities.reaper = Reaper::Nobody;
                }
                Err(error) => {
                    // It may have been made all the same.
                    self.remove(&name).await;
                    return Err(match error {
                        CliError::Interrupted => Start::Interrupted,
                        error => Start::Failed(format!("the container could not be started: {error}")),
                    });
                }
            }
        }
    }

    fn reach(&self, name: &str) -> Reach {
        let words = ["exec", "-i", "-w", "/", name].map(str::to_owned).to_vec();
        Reach { cli: self.engine.cli().clone(), words, form: Form::Words }
    }

    async fn is_gone(&self, name: &str) -> bool {
        let words = ["inspect", "-f", "{{.State.Running}}", name].map(str::to_owned);
        let asked = self.engine.cli().ask(&words, None, LOOK_LIMIT, &Cancel::new()).await;
        asked.is_ok_and(|said| said.code != 0 || !said.text.ends_with("true"))
    }

    /// Lets go of a container that is gone, unless another call has replaced it already.
    async fn discard(&self, name: &str) {
        let mut container = self.container.lock().await;
        if container.as_deref() == Some(name) {
            *container = None;
            self.remove(name).await;
        }
    }

    /// Removes it and waits until it is gone: an engine that is removing it already answers at once.
    async fn remove(&self, name: &str) {
        self.tell(&["rm", "-f", "-v", name]).await;
        let words = ["ps", "-a", "-q", "--filter", &format!("name={name}")].map(str::to_owned);
        let clock = &self.engine.cli().clock;
        let end = clock.monotonic() + STOP_LIMIT;
        while clock.monotonic() < end {
            match self.engine.cli().ask(&words, None, LOOK_LIMIT, &Cancel::new()).await {
                Ok(said) if said.code == 0 && !said.text.is_empty() => clock.sleep(PAUSE).await,
                _ => return,
            }
        }
        tracing::warn!(name, "the container could not be removed");
    }

    /// Says something about a container whose absence is no failure.
    async fn tell(&self, words: &[&str]) {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        match self.engine.cli().ask(&words, None, STOP_LIMIT, &Cancel::new()).await {
            Ok(said) if said.code == 0 || is_absence(&said.text) => {}
            Ok(said) => tracing::warn!(said = said.text, ?words, "the engine refused"),
            Err(error) => tracing::warn!(%error, ?words, "the engine gave no answer"),
        }
    }
}

/// A container nobody holds any more is removed beside, if there is still a runtime to do it.
impl Drop for Docker {
    fn drop(&mut self) {
        if let Some(name) = self.container.get_mut().take() {
            self.engine.cli().ask_beside(&["rm", "-f", "-v", &name], STOP_LIMIT);
        }
    }
}

impl Environment for Docker {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(self.execute(&self.shell, command, cancel))
    }
}

impl Site for Docker {
    fn new_shell(&self) -> RemoteShell {
        RemoteShell::new(&directory(&self.options), &self.options.exports, self.options.bounds)
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
            if let Some(name) = self.container().await {
                shell.clean(&self.reach(&name), &name).await;
            }
        })
    }

    fn current(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(self.container())
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}

/// Why there is no container.
#[derive(Debug)]
enum Start {
    Interrupted,
    Failed(String),
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
