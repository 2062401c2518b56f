//! Runs commands in an instance of Apptainer, or of Singularity, which takes the same arguments.
//!
//! Meant for clusters, where users have no root access. A [`SingularityHost`] is the client program and its
//! folders. A [`SingularityEnvironment`] is one task's instance, created at the first command and created
//! again when it is gone. A persistent instance keeps its overlay.

mod disk;
mod image;
mod records;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Clock, RunError, random_hex};
use tokio::sync::Mutex;

use crate::capture::OutputBounds;
use crate::credential::CredentialFiles;
use crate::docker::{InstanceRetention, ResourceLimits, container_directory};
use crate::remote::{
    CliError, CliTransport, ClientProgram, CommandForm, ForwardedVariables, Instance, InstanceProvider,
    ManagedInstance, PerTaskCache, ProgramLookup, RemoteEnvironment, RemoteShell, ScriptTransport,
    find_program, safe_name,
};
use crate::remote_backend::{Backend, TaskImage};
use crate::variables::Variables;

const CHECK_LIMIT: Duration = Duration::from_secs(10);
const START_LIMIT: Duration = Duration::from_mins(2);
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// The client's options: its files and folders.
#[derive(Debug, Clone)]
pub struct SingularityHostOptions {
    /// The folder for overlays; see [`scratch_folder`].
    pub scratch: PathBuf,
    /// The folder for images; `<scratch>/.apptainer` if `None`.
    pub cache: Option<PathBuf>,
    /// The file that records which overlay belongs to which task.
    pub records: PathBuf,
    /// The size of the scratch folder, in GB, above which a warning is logged.
    pub disk_warning: u64,
}

/// The options of one task's instance.
#[derive(Debug, Clone)]
pub struct SingularityOptions {
    pub task: String,
    /// The image: a file, or an address such as `docker://python:3.11-slim`.
    pub image: String,
    /// The configured folder in which commands begin. A folder that can only exist on the host is ignored.
    pub directory: Option<String>,
    /// The variables for commands.
    pub exports: ForwardedVariables,
    pub limits: ResourceLimits,
    pub retention: InstanceRetention,
    pub bounds: OutputBounds,
}

/// A machine with Apptainer.
#[derive(Debug)]
pub struct SingularityHost {
    cli: ClientProgram,
    options: SingularityHostOptions,
    /// A lock held while an image is built, so that it is built once.
    building: Mutex<()>,
    measured: Once,
    tasks: PerTaskCache<SingularityEnvironment>,
}

impl SingularityHost {
    /// Looks for `apptainer`, then for `singularity`. Starts no process.
    pub fn find(
        options: SingularityHostOptions,
        variables: Variables,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, RunError> {
        match find_program(&["apptainer", "singularity"], &variables, &["/usr/local/bin", "/usr/bin"]) {
            ProgramLookup::Program(program) => Ok(Self::with_program(program, options, variables, clock)),
            ProgramLookup::NotExecutable(program) => {
                Err(RunError::Unavailable(format!("{} is there and may not be run", program.display())))
            }
            ProgramLookup::Missing => Err(RunError::Unavailable(
                "no apptainer or singularity was found; install one, or choose another terminal.backend"
                    .to_owned(),
            )),
        }
    }

    /// Returns a host that uses this client.
    pub fn with_program(
        program: PathBuf,
        options: SingularityHostOptions,
        variables: Variables,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let cli = ClientProgram { program, variables, clock };
        Arc::new(Self {
            cli,
            options,
            building: Mutex::new(()),
            measured: Once::new(),
            tasks: PerTaskCache::default(),
        })
    }

    /// Checks that the client works.
    pub async fn check(&self, cancel: &Cancel) -> Result<(), RunError> {
        match self.cli.run(&["version".to_owned()], None, CHECK_LIMIT, cancel).await {
            Ok(said) if said.code == 0 => Ok(()),
            Ok(said) => Err(RunError::Unavailable(format!(
                "`{} version` failed: {}",
                self.cli.program.display(),
                said.text
            ))),
            Err(error) => Err(RunError::Unavailable(error.to_string())),
        }
    }

    /// Opens the task's environment; all callers that name the same task share one as long as any of them
    /// holds it.
    pub fn open(self: &Arc<Self>, options: SingularityOptions) -> Arc<SingularityEnvironment> {
        let task = options.task.clone();
        self.tasks.get_or_create(&task, || {
            ManagedInstance::new(SingularityProvider { host: Arc::clone(self), options })
        })
    }

    /// Measures once, in the background, how large the scratch folder has become.
    fn measure_scratch(&self) {
        let (scratch, warning) = (self.options.scratch.clone(), self.options.disk_warning);
        self.measured.call_once(|| disk::warn_in_background(scratch, warning));
    }

    fn cache(&self) -> PathBuf {
        self.options.cache.clone().unwrap_or_else(|| self.options.scratch.join(".apptainer"))
    }
}

/// Returns the folder for large files: the configured one, else the user's scratch space on the cluster, else
/// a folder beside other sandboxes.
pub fn scratch_folder(configured: Option<&Path>, user: Option<&str>, sandboxes: &Path) -> PathBuf {
    if let Some(folder) = configured {
        return folder.to_owned();
    }
    let cluster = user.map(|user| Path::new("/scratch").join(safe_name(user)));
    let writable =
        |folder: &Path| folder.is_dir() && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    match cluster.filter(|folder| writable(folder)) {
        Some(folder) => folder.join("hermes-agent"),
        None => sandboxes.join("singularity"),
    }
}

/// Containers of Singularity or Apptainer. `task` of the options is filled in for each environment.
#[derive(Debug)]
pub struct SingularityBackend {
    pub host: Arc<SingularityHost>,
    pub options: SingularityOptions,
}

impl Backend for SingularityBackend {
    fn open(&self, task: &str, _: &CredentialFiles) -> RemoteEnvironment {
        let options = SingularityOptions { task: task.to_owned(), ..self.options.clone() };
        RemoteEnvironment::new(self.host.open(options), None)
    }

    fn check<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(self.host.check(cancel))
    }

    fn with_image(&self, wanted: &TaskImage) -> Option<Arc<dyn Backend>> {
        let mut options =
            SingularityOptions { image: format!("docker://{}", wanted.image), ..self.options.clone() };
        options.directory = wanted.directory.clone().or(options.directory);
        Some(Arc::new(Self { host: Arc::clone(&self.host), options }))
    }
}

/// A task's environment in an instance.
pub type SingularityEnvironment = ManagedInstance<SingularityProvider>;

/// Starts instances.
#[derive(Debug)]
pub struct SingularityProvider {
    host: Arc<SingularityHost>,
    options: SingularityOptions,
}

impl InstanceProvider for SingularityProvider {
    const STOPPED: Option<&'static str> = Some("\n[The instance stopped while the command was running]");

    fn new_shell(&self) -> RemoteShell {
        let start = container_directory(self.options.directory.as_deref());
        RemoteShell::new(&start, &self.options.exports, self.options.bounds)
    }

    async fn create(&self, cancel: &Cancel) -> Result<Instance, CliError> {
        self.host.check(cancel).await.map_err(|error| CliError::Refused(error.to_string()))?;
        self.host.measure_scratch();
        let image = self.host.image(&self.options.image, cancel).await?;
        let overlay = match self.options.retention {
            InstanceRetention::Persistent => {
                Some(self.overlay().map_err(|error| CliError::Refused(error.to_string()))?)
            }
            InstanceRetention::Ephemeral => None,
        };
        let name = format!("hermes_{}", random_hex(12));
        let arguments = start_arguments(&self.options.limits, overlay.as_deref(), &image, &name);
        match self.host.cli.run(&arguments, None, START_LIMIT, cancel).await {
            Ok(said) if said.code == 0 => Ok(Instance::named(name)),
            Ok(said) => Err(CliError::Refused(said.text)),
            Err(error) => {
                // The instance may have been started despite the error.
                self.stop(&name).await;
                Err(error)
            }
        }
    }

    fn create_failure(&self, error: &CliError) -> String {
        format!("the instance could not be started: {error}")
    }

    fn transport<'a>(&'a self, made: &'a Instance) -> impl ScriptTransport + 'a {
        CliTransport {
            cli: self.host.cli.clone(),
            prefix_arguments: exec_arguments(&made.id),
            form: CommandForm::Arguments,
        }
    }

    fn start_failure(&self, said: &str, code: i32) -> String {
        format!("no bash could be started in image {} (exit code {code}): {said}", self.options.image)
    }

    async fn is_gone(&self, Instance { id: name, .. }: &Instance) -> bool {
        let words = ["instance", "list", name].map(str::to_owned);
        let asked = self.host.cli.run(&words, None, CHECK_LIMIT, &Cancel::new()).await;
        asked.is_ok_and(|said| !said.text.contains(name))
    }

    async fn close(&self, made: &Instance, shell: &RemoteShell) {
        shell.clean(&self.transport(made), &made.generation).await;
        self.stop(&made.id).await;
    }

    fn abandon(&self, made: &Instance) {
        self.host.cli.run_in_background(&["instance", "stop", &made.id], STOP_LIMIT);
    }
}

impl SingularityProvider {
    /// Returns the folder that keeps what the instance writes.
    fn overlay(&self) -> std::io::Result<PathBuf> {
        let usual = self
            .host
            .options
            .scratch
            .join("hermes-overlays")
            .join(format!("overlay-{}", safe_name(&self.options.task)));
        let folder = records::overlay_of(&self.host.options.records, &self.options.task, usual)?;
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    async fn stop(&self, name: &str) {
        let words = ["instance", "stop", name].map(str::to_owned);
        match self.host.cli.run(&words, None, STOP_LIMIT, &Cancel::new()).await {
            Ok(said) if said.code == 0 || said.text.contains("no instance found") => {}
            Ok(said) => tracing::warn!(said = said.text, name, "the instance could not be stopped"),
            Err(error) => tracing::warn!(%error, name, "the instance could not be stopped"),
        }
    }
}

fn start_arguments(limits: &ResourceLimits, overlay: Option<&Path>, image: &str, name: &str) -> Vec<String> {
    let mut words: Vec<String> =
        ["instance", "start", "--containall", "--no-home"].map(str::to_owned).to_vec();
    match overlay {
        Some(folder) => words.extend(["--overlay".to_owned(), folder.display().to_string()]),
        None => words.push("--writable-tmpfs".to_owned()),
    }
    if limits.memory_mb > 0 {
        words.extend(["--memory".to_owned(), format!("{}M", limits.memory_mb)]);
    }
    if limits.cpus > 0.0 {
        words.extend(["--cpus".to_owned(), limits.cpus.to_string()]);
    }
    words.extend([image.to_owned(), name.to_owned()]);
    words
}

/// Returns the arguments of `exec`. No variable of this process is passed on.
fn exec_arguments(name: &str) -> Vec<String> {
    let instance = format!("instance://{name}");
    ["exec", "--cleanenv", "--pwd", "/", &instance].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_start() {
        let limits = ResourceLimits { cpus: 2.0, memory_mb: 5120, disk_mb: 51200 };
        let words =
            start_arguments(&limits, Some(Path::new("/s/overlay-t")), "/c/x.sif", "hermes_1").join(" ");
        assert_eq!(
            words,
            "instance start --containall --no-home --overlay /s/overlay-t --memory 5120M --cpus 2 /c/x.sif hermes_1"
        );
        let none = ResourceLimits { cpus: 0.0, memory_mb: 0, disk_mb: 0 };
        let words = start_arguments(&none, None, "docker://a", "hermes_1").join(" ");
        assert_eq!(words, "instance start --containall --no-home --writable-tmpfs docker://a hermes_1");
        assert_eq!(exec_arguments("hermes_1").join(" "), "exec --cleanenv --pwd / instance://hermes_1");
    }

    #[test]
    fn scratch_is_what_is_said_or_beside_the_sandboxes() {
        assert_eq!(scratch_folder(Some(Path::new("/x")), Some("me"), Path::new("/sb")), Path::new("/x"));
        assert_eq!(scratch_folder(None, Some("no/such"), Path::new("/sb")), Path::new("/sb/singularity"));
        assert_eq!(scratch_folder(None, None, Path::new("/sb")), Path::new("/sb/singularity"));
    }
}
