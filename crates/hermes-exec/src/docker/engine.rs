//! The client program of a container engine: its path, whether the engine responds, and what it supports.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, RunError};
use tokio::sync::OnceCell;

use super::arguments::{DiskLimitSupport, OWNER_LABEL};
use super::{DockerEnvironment, DockerOptions, DockerProvider};
use crate::owner;
use crate::remote::{CliError, ClientProgram, ManagedInstance, PerTaskCache, ProgramLookup, find_program};
use crate::variables::Variables;

const PLACES: [&str; 3] =
    ["/usr/local/bin", "/opt/homebrew/bin", "/Applications/Docker.app/Contents/Resources/bin"];
const NAMES: [&str; 2] = ["docker", "podman"];
const CHECK_LIMIT: Duration = Duration::from_secs(5);
const PROBE_LIMIT: Duration = Duration::from_mins(2);
const INSPECT_LIMIT: Duration = Duration::from_secs(10);
const PULL_LIMIT: Duration = Duration::from_mins(10);
/// The most characters of what a failed fetch said.
const PULL_CHARS: usize = 500;

/// A container engine, reached through its client.
#[derive(Debug)]
pub struct DockerEngine {
    cli: ClientProgram,
    checked: OnceCell<()>,
    disk_limit: OnceCell<DiskLimitSupport>,
    tasks: PerTaskCache<DockerEnvironment>,
}

impl DockerEngine {
    /// Looks for `docker`, then for `podman`. Starts no process.
    pub fn find(variables: Variables, clock: Arc<dyn Clock>) -> Result<Arc<Self>, RunError> {
        match find_program(&NAMES, &variables, &PLACES) {
            ProgramLookup::Program(program) => Ok(Self::with_program(program, variables, clock)),
            ProgramLookup::NotExecutable(program) => {
                Err(RunError::Unavailable(format!("{} is there and may not be run", program.display())))
            }
            ProgramLookup::Missing => Err(RunError::Unavailable(
                "no docker or podman was found; install one, or choose another terminal.backend".to_owned(),
            )),
        }
    }

    /// Returns an engine that uses this client.
    pub fn with_program(program: PathBuf, variables: Variables, clock: Arc<dyn Clock>) -> Arc<Self> {
        let cli = ClientProgram { program, variables, clock };
        Arc::new(Self {
            cli,
            checked: OnceCell::new(),
            disk_limit: OnceCell::new(),
            tasks: PerTaskCache::default(),
        })
    }

    /// Checks whether the engine responds; after one success it is not checked again.
    pub async fn check(&self, cancel: &Cancel) -> Result<(), RunError> {
        self.checked.get_or_try_init(|| self.ask_version(cancel)).await.copied()
    }

    async fn ask_version(&self, cancel: &Cancel) -> Result<(), RunError> {
        let program = self.cli.program.display();
        let text = match self.cli.run(&["version".to_owned()], None, CHECK_LIMIT, cancel).await {
            Ok(said) if said.code == 0 => {
                self.spawn_orphan_removal();
                return Ok(());
            }
            Ok(said) => {
                let last = said.text.lines().last().unwrap_or_default();
                format!("`{program} version` failed; is the engine running? {last}")
            }
            Err(CliError::TimedOut(limit)) => {
                format!(
                    "`{program} version` gave no answer within {} s; is the engine running?",
                    limit.as_secs()
                )
            }
            Err(error) => error.to_string(),
        };
        Err(RunError::Unavailable(text))
    }

    /// Removes containers of processes that were killed, in the background; the folders they keep on the host
    /// stay.
    fn spawn_orphan_removal(&self) {
        let cli = self.cli.clone();
        spawn_named("orphaned containers", &Cancel::new(), async move {
            let format = format!("{{{{.ID}}}} {{{{.Label \"{OWNER_LABEL}\"}}}}");
            let words = ["ps", "-a", "--filter", "label=hermes-agent=1", "--format", &format];
            let Ok(listed) = cli.run(&words.map(str::to_owned), None, PROBE_LIMIT, &Cancel::new()).await
            else {
                return;
            };
            let orphans = listed.text.lines().filter_map(|line| line.split_once(' '));
            for (id, _) in orphans.filter(|(_, label)| owner::is_gone(label)) {
                tracing::info!(id, "removing the container of a Hermes process that has ended");
                let _ = cli
                    .run(&["rm", "-f", "-v", id].map(str::to_owned), None, PROBE_LIMIT, &Cancel::new())
                    .await;
            }
        });
    }

    /// Fetches an image that the engine does not have.
    pub(super) async fn fetch(&self, image: &str, cancel: &Cancel) -> Result<(), RunError> {
        let run = async |words: [&str; 3], limit| {
            let words: Vec<String> =
                words.iter().filter(|word| !word.is_empty()).map(|word| (*word).to_owned()).collect();
            self.cli.run(&words, None, limit, cancel).await
        };
        // An engine that cannot say whether it has the image finds out when it starts a container.
        match run(["image", "inspect", image], INSPECT_LIMIT).await {
            Ok(said) if said.code != 0 => {}
            _ => return Ok(()),
        }
        match run(["pull", image, ""], PULL_LIMIT).await {
            Ok(said) if said.code == 0 => Ok(()),
            Ok(said) => {
                let text: String = said.text.chars().take(PULL_CHARS).collect();
                Err(RunError::Unavailable(format!("the image {image} cannot be fetched: {text}")))
            }
            Err(error) => Err(RunError::Unavailable(format!("the image {image} cannot be fetched: {error}"))),
        }
    }

    /// Opens the task's environment; all callers that name the same task share one as long as any of them
    /// holds it.
    pub fn open(self: &Arc<Self>, options: DockerOptions) -> Arc<DockerEnvironment> {
        let task = options.task.clone();
        self.tasks.get_or_create(&task, || {
            ManagedInstance::new(DockerProvider { engine: Arc::clone(self), options })
        })
    }

    pub(super) fn cli(&self) -> &ClientProgram {
        &self.cli
    }

    /// Tells whether the engine can limit the disk; it finds out once, by creating a container that is never
    /// started.
    pub(super) async fn disk_limit(&self, options: &DockerOptions, cancel: &Cancel) -> DiskLimitSupport {
        if options.limits.disk_mb == 0 || !cfg!(target_os = "linux") {
            return DiskLimitSupport::Unsupported;
        }
        *self.disk_limit.get_or_init(|| self.probe_disk_limit(&options.image, cancel)).await
    }

    async fn probe_disk_limit(&self, image: &str, cancel: &Cancel) -> DiskLimitSupport {
        if self.query(&["info", "--format", "{{.Driver}}"], cancel).await.as_deref() != Some("overlay2") {
            tracing::warn!("the engine's storage driver cannot limit a container's disk");
            return DiskLimitSupport::Unsupported;
        }
        let name = format!("hermes-probe-{}", hermes_types::random_hex(8));
        let made =
            self.query(&["create", "--name", &name, "--storage-opt", "size=1m", image, "true"], cancel).await;
        if made.is_some() {
            self.query(&["rm", "-f", &name], &Cancel::new()).await;
            return DiskLimitSupport::Supported;
        }
        tracing::warn!("the engine cannot limit a container's disk; terminal.container_disk has no effect");
        DiskLimitSupport::Unsupported
    }

    async fn query(&self, words: &[&str], cancel: &Cancel) -> Option<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let said = self.cli.run(&words, None, PROBE_LIMIT, cancel).await.ok()?;
        (said.code == 0).then_some(said.text)
    }
}
