//! The client program of a container engine: where it is, whether it answers, what it can do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, RunError};
use tokio::sync::OnceCell;

use super::arguments::{DiskLimit, OWNER_LABEL};
use super::{Container, Docker, DockerOptions};
use crate::owner;
use crate::remote::{Berth, Cli, CliError, Found, PerTask, find_program};
use crate::variables::Variables;

const PLACES: [&str; 3] =
    ["/usr/local/bin", "/opt/homebrew/bin", "/Applications/Docker.app/Contents/Resources/bin"];
const NAMES: [&str; 2] = ["docker", "podman"];
const CHECK_LIMIT: Duration = Duration::from_secs(5);
const PROBE_LIMIT: Duration = Duration::from_mins(2);

/// A container engine, reached through its client.
#[derive(Debug)]
pub struct DockerEngine {
    cli: Cli,
    answers: OnceCell<()>,
    disk_limit: OnceCell<DiskLimit>,
    tasks: PerTask<Docker>,
}

impl DockerEngine {
    /// Looks for `docker`, then for `podman`. Starts nothing.
    pub fn find(variables: Variables, clock: Arc<dyn Clock>) -> Result<Arc<Self>, RunError> {
        match find_program(&NAMES, &variables, &PLACES) {
            Found::Program(program) => Ok(Self::at(program, variables, clock)),
            Found::NotExecutable(program) => {
                Err(RunError::Unavailable(format!("{} is there and may not be run", program.display())))
            }
            Found::Missing => Err(RunError::Unavailable(
                "no docker or podman was found; install one, or choose another terminal.backend".to_owned(),
            )),
        }
    }

    /// This client and no other.
    pub fn at(program: PathBuf, variables: Variables, clock: Arc<dyn Clock>) -> Arc<Self> {
        let cli = Cli { program, variables, clock };
        Arc::new(Self {
            cli,
            answers: OnceCell::new(),
            disk_limit: OnceCell::new(),
            tasks: PerTask::default(),
        })
    }

    /// Whether the engine answers; it is asked until it has once.
    pub async fn check(&self, cancel: &Cancel) -> Result<(), RunError> {
        self.answers.get_or_try_init(|| self.ask_version(cancel)).await.copied()
    }

    async fn ask_version(&self, cancel: &Cancel) -> Result<(), RunError> {
        let program = self.cli.program.display();
        let text = match self.cli.ask(&["version".to_owned()], None, CHECK_LIMIT, cancel).await {
            Ok(said) if said.code == 0 => {
                self.remove_orphans_beside();
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

    /// Removes containers of programs that were killed; what they keep outside themselves stays. Nobody waits for it.
    fn remove_orphans_beside(&self) {
        let cli = self.cli.clone();
        spawn_named("orphaned containers", &Cancel::new(), async move {
            let format = format!("{{{{.ID}}}} {{{{.Label \"{OWNER_LABEL}\"}}}}");
            let words = ["ps", "-a", "--filter", "label=hermes-agent=1", "--format", &format];
            let Ok(listed) = cli.ask(&words.map(str::to_owned), None, PROBE_LIMIT, &Cancel::new()).await
            else {
                return;
            };
            let orphans = listed.text.lines().filter_map(|line| line.split_once(' '));
            for (id, _) in orphans.filter(|(_, label)| owner::is_gone(label)) {
                tracing::info!(id, "removing the container of a Hermes that is gone");
                let _ = cli
                    .ask(&["rm", "-f", "-v", id].map(str::to_owned), None, PROBE_LIMIT, &Cancel::new())
                    .await;
            }
        });
    }

    /// The task's place; who asks for the same task gets the same one as long as anybody holds it.
    pub fn open(self: &Arc<Self>, options: DockerOptions) -> Arc<Docker> {
        let task = options.task.clone();
        self.tasks.get_or_make(&task, || Berth::new(Container { engine: Arc::clone(self), options }))
    }

    pub(super) fn cli(&self) -> &Cli {
        &self.cli
    }

    /// Whether the engine can limit the disk; found out once, by making a container that is never started.
    pub(super) async fn disk_limit(&self, options: &DockerOptions, cancel: &Cancel) -> DiskLimit {
        if options.limits.disk_mb == 0 || !cfg!(target_os = "linux") {
            return DiskLimit::Missing;
        }
        *self.disk_limit.get_or_init(|| self.probe_disk_limit(&options.image, cancel)).await
    }

    async fn probe_disk_limit(&self, image: &str, cancel: &Cancel) -> DiskLimit {
        if self.answer(&["info", "--format", "{{.Driver}}"], cancel).await.as_deref() != Some("overlay2") {
            tracing::warn!("the engine's storage driver cannot limit a container's disk");
            return DiskLimit::Missing;
        }
        let name = format!("hermes-probe-{}", hermes_types::random_hex(8));
        let made = self
            .answer(&["create", "--name", &name, "--storage-opt", "size=1m", image, "true"], cancel)
            .await;
        if made.is_some() {
            self.answer(&["rm", "-f", &name], &Cancel::new()).await;
            return DiskLimit::Works;
        }
        tracing::warn!("the engine cannot limit a container's disk; terminal.container_disk has no effect");
        DiskLimit::Missing
    }

    async fn answer(&self, words: &[&str], cancel: &Cancel) -> Option<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let said = self.cli.ask(&words, None, PROBE_LIMIT, cancel).await.ok()?;
        (said.code == 0).then_some(said.text)
    }
}
