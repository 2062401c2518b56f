//! Commands on this machine.
//!
//! A host is the machine: its shell, the environment commands get, the dump of one login shell. A `Local` is one task's
//! place on it: `cd` and `export` last from call to call, and nothing of one task reaches another. Each call is a fresh
//! shell, so a command can break nothing for the next.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{BoxFuture, Cancel, Clock, Command, Environment, Finished, RunError};
use tokio::sync::OnceCell;

use crate::background::{Background, Ear, Screen};
use crate::capture::Bounds;
use crate::child::{Launch, Lifetime, Running, Wiring};
use crate::group::Scope;
use crate::guardian::fleeting;
use crate::login::LoginCache;
use crate::run::{Ending, Ran, Watch, run};
use crate::sandbox::{Fence, FenceReport, Sandbox, Stay};
use crate::shell::{Kind, Shell, quote};
use crate::snapshot::{CallScript, Snapshot};
use crate::variables::Variables;

/// A login shell that takes longer is not waited for.
const LOGIN_LIMIT: Duration = Duration::from_secs(15);
const TIMED_OUT: i32 = 124;
const INTERRUPTED: i32 = 130;

/// What a host is made of.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    pub variables: Variables,
    /// Where dumps and long commands are put.
    pub temp: PathBuf,
    pub bounds: Bounds,
    pub sandbox: Sandbox,
}

/// This machine.
#[derive(Debug)]
pub struct LocalHost {
    options: LocalOptions,
    /// Where the shells' dumps lie: commands in the fence cannot write there.
    dumps: PathBuf,
    /// Where fenced shells leave their exports.
    /// Made at the first command: most runs need none.
    open: OnceLock<OpenFolder>,
    shell: Option<Shell>,
    clock: Arc<dyn Clock>,
    login: OnceCell<Option<Snapshot>>,
    /// What runs beside lasts as long as this.
    owner: Cancel,
}

impl Drop for LocalHost {
    fn drop(&mut self) {
        self.owner.cancel();
    }
}

fn login_launch(
    shell: &Shell,
    script: String,
    variables: Vec<(String, String)>,
    lifetime: Lifetime,
) -> Launch {
    Launch {
        program: shell.program.clone(),
        arguments: vec!["-lc".into(), script.into()],
        variables,
        directory: PathBuf::from("/"),
        lifetime,
        scope: Scope::Kin,
        wiring: Wiring::Output,
        fence: None,
    }
}

fn not_read(ended: &std::io::Result<Ending>) -> Option<Snapshot> {
    tracing::warn!(?ended, "the login shell's environment could not be read; each command starts one");
    None
}

impl LocalHost {
    /// Starts nothing yet: the login shell is asked at the first command.
    pub fn new(options: LocalOptions, clock: Arc<dyn Clock>) -> Arc<Self> {
        // A fenced shell must still be able to leave its exports for the next.
        let sandbox = options.sandbox.clone().with_temporary(&options.temp);
        let options = LocalOptions { sandbox, ..options };
        let shell = Shell::find(&options.variables);
        let dumps = options.sandbox.shelf().unwrap_or_else(|| options.temp.clone());
        Arc::new(Self {
            options,
            dumps,
            open: OnceLock::new(),
            shell,
            clock,
            login: OnceCell::new(),
            owner: Cancel::new(),
        })
    }

    /// A task's place, which begins in `start`.
    pub fn open(self: &Arc<Self>, start: PathBuf) -> Local {
        self.open_within(start.clone(), start)
    }

    /// The same for a task that is about `anchor`, wherever it is now.
    pub fn open_within(self: &Arc<Self>, anchor: PathBuf, start: PathBuf) -> Local {
        Local { host: Arc::clone(self), anchor, directory: Mutex::new(start), snapshot: OnceCell::new() }
    }

    /// What holds commands in, in a sentence; none when nothing does and nobody asked for it. What the system allows is
    /// found out by trying, so it is not asked for before somebody reads it.
    pub fn sandbox_notice(&self) -> Option<String> {
        self.options.sandbox.notice()
    }

    fn open_folder(&self) -> &OpenFolder {
        self.open.get_or_init(|| OpenFolder::make(&self.options))
    }

    fn shell(&self) -> Result<&Shell, RunError> {
        self.shell.as_ref().ok_or_else(|| RunError::Unavailable("no bash or sh was found".to_owned()))
    }

    /// The login shell's dump, taken once; none if that failed.
    async fn login(&self) -> Option<&Snapshot> {
        let taken = self.login.get_or_init(|| async {
            let shell = self.shell.as_ref().filter(|shell| shell.kind == Kind::Bash)?;
            let snapshot = Snapshot::new(&self.dumps, &self.open_folder().path);
            let path = self.options.variables.get("PATH").unwrap_or_default();
            // Kept only where commands cannot write.
            let cache = (self.dumps != self.options.temp)
                .then(|| LoginCache::of(&self.dumps, shell, &self.options.variables));
            let Some(cache) = cache else {
                let script = snapshot.take_script(path);
                let ended = self.run_login(shell, script, self.options.variables.pairs()).await;
                let taken = matches!(ended, Ok(Ending::Exited(0))) && snapshot.is_taken();
                return if taken { Some(snapshot) } else { not_read(&ended) };
            };
            let told = LoginCache::told(&self.options.variables);
            if !cache.is_there() {
                let ended = self.run_login(shell, cache.script(path), told).await;
                if !cache.is_there() {
                    return not_read(&ended);
                }
            } else if cache.is_old(self.clock.now()) {
                self.take_anew(shell, cache.script(path), told).await;
            }
            let loaded = cache.load(&snapshot, &self.options.variables);
            loaded
                .inspect_err(|error| tracing::warn!(%error, "the login shell's dump could not be read"))
                .ok()?;
            Some(snapshot)
        });
        taken.await.as_ref()
    }

    async fn run_login(
        &self,
        shell: &Shell,
        script: String,
        variables: Vec<(String, String)>,
    ) -> std::io::Result<Ending> {
        let launch = login_launch(shell, script, variables, Lifetime::Bound);
        let cancel = Cancel::new();
        let watch =
            Watch { limit: LOGIN_LIMIT, clock: &*self.clock, cancel: &cancel, bounds: Bounds::default() };
        run(launch, None, watch).await.map(|ran| ran.ending)
    }

    /// Has a login shell fill the dump for later starts, without being waited for. One that hangs is asked to end.
    async fn take_anew(&self, shell: &Shell, script: String, variables: Vec<(String, String)>) {
        let launch = login_launch(shell, script, variables, Lifetime::Free);
        match launch.start().await {
            Ok(mut running) => {
                let clock = Arc::clone(&self.clock);
                spawn_named("login shell", &self.owner, async move {
                    tokio::select! {
                        _ = running.wait() => {}
                        () = clock.sleep(LOGIN_LIMIT * 4) => running.group().end(&*clock).await,
                    }
                });
            }
            Err(error) => tracing::debug!(%error, "the login shell could not be asked anew"),
        }
    }

    fn fence(&self, anchor: &Path, directory: &Path, stay: Stay) -> Result<Option<Arc<Fence>>, RunError> {
        let fence = self.options.sandbox.around(anchor, directory, stay).map_err(RunError::Refused)?;
        Ok(fence.map(Arc::new))
    }
}

/// A folder fenced commands can write to, also where nothing new can be made in the temporary folder itself because the user's
/// home lies in it.
#[derive(Debug)]
struct OpenFolder {
    path: PathBuf,
    ours: bool,
}

impl OpenFolder {
    fn make(options: &LocalOptions) -> Self {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = fleeting(&options.temp, "hermes-shell-");
        let made =
            options.sandbox.is_active() && std::fs::DirBuilder::new().mode(0o700).create(&path).is_ok();
        if made { Self { path, ours: true } } else { Self { path: options.temp.clone(), ours: false } }
    }
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// One task's place on this machine.
#[derive(Debug)]
pub struct Local {
    host: Arc<LocalHost>,
    /// Where it began: what commands may write is around it, wherever they go.
    anchor: PathBuf,
    directory: Mutex<PathBuf>,
    snapshot: OnceCell<Option<Snapshot>>,
}

impl Local {
    /// Where the next command starts.
    pub fn directory(&self) -> PathBuf {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether commands here are fenced in.
    pub fn is_fenced(&self) -> bool {
        self.host.options.sandbox.is_active()
    }

    /// Whether the fence is weaker than it could be, because this system lets us mount nothing.
    pub fn sandbox_is_partial(&self) -> bool {
        self.host.options.sandbox.is_partial()
    }

    fn move_to(&self, directory: PathBuf) {
        *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = directory;
    }

    async fn snapshot(&self) -> Option<&Snapshot> {
        let forked = self.snapshot.get_or_init(|| async {
            let login = self.host.login().await?;
            let fork =
                login.fork().inspect_err(|error| tracing::warn!(%error, "the dump could not be copied")).ok();
            let sandbox = &self.host.options.sandbox;
            fork.map(|fork| fork.exporting(&sandbox.variables()).adding(&sandbox.added_options()))
        });
        forked.await.as_ref()
    }

    /// Runs a command and says what its fence had to do with how it went.
    pub async fn run_fenced(
        &self,
        command: Command<'_>,
        cancel: &Cancel,
    ) -> Result<(Finished, FenceReport), RunError> {
        self.execute(command, Side::Inside, cancel).await
    }

    /// Runs a command without a fence, because somebody agreed to it.
    pub async fn run_outside(&self, command: Command<'_>, cancel: &Cancel) -> Result<Finished, RunError> {
        self.execute(command, Side::Outside, cancel).await.map(|(finished, _)| finished)
    }

    async fn execute(
        &self,
        command: Command<'_>,
        side: Side,
        cancel: &Cancel,
    ) -> Result<(Finished, FenceReport), RunError> {
        let Command { shell: text, directory, stdin, limit } = command;
        let prepared = self.prepare(text, directory, Use::Call, side).await?;
        let wiring = if stdin.is_some() { Wiring::Both } else { Wiring::Output };
        let launch = prepared.launch(Lifetime::Bound, wiring);
        let watch = Watch { limit, clock: &*self.host.clock, cancel, bounds: self.host.options.bounds };
        let Ran { mut output, ending } = run(launch, stdin, watch).await.map_err(unavailable)?;
        let (before, after) = prepared.script.mark();
        let mut last = self.directory();
        if let Some(found) = output.take_mark(&before, &after) {
            if side == Side::Inside {
                prepared.script.keep();
            }
            let found = PathBuf::from(found);
            last.clone_from(&found);
            // A folder named for one call is for that call only.
            if directory.is_none() && found.is_absolute() && found.is_dir() {
                self.move_to(found);
            }
        }
        let finished = finish(output.text(), ending, limit);
        let report = prepared.fence.as_ref().map(|fence| fence.report(&finished, &last));
        Ok((finished, report.unwrap_or_default()))
    }

    /// Starts something that runs on beside the conversation. `owner` ends the listening, not the process.
    pub async fn start(
        &self,
        command: &str,
        directory: Option<&Path>,
        screen: Screen,
        owner: &Cancel,
    ) -> Result<Background, RunError> {
        let prepared = self.prepare(command, directory, Use::Background, Side::Inside).await?;
        let clock = Arc::clone(&self.host.clock);
        if screen == Screen::Terminal {
            match prepared.launch(Lifetime::Free, Wiring::Terminal).start().await {
                Ok(running) => return Ok(watch(running, prepared, screen, clock, owner)),
                Err(error) => tracing::warn!(%error, "no terminal could be opened; using pipes"),
            }
        }
        let running = prepared.launch(Lifetime::Free, Wiring::Both).start().await.map_err(unavailable)?;
        Ok(watch(running, prepared, Screen::None, clock, owner))
    }

    async fn prepare(
        &self,
        text: &str,
        directory: Option<&Path>,
        purpose: Use,
        side: Side,
    ) -> Result<Prepared, RunError> {
        let shell = self.host.shell()?.clone();
        let directory = nearest_folder(&directory.map_or_else(|| self.directory(), Path::to_owned));
        // What commands inside the fence left behind must not decide what one outside does.
        let snapshot = match side {
            Side::Inside => self.snapshot().await,
            Side::Outside => self.host.login().await,
        };
        let (flag, mut variables, script) = if let Some(snapshot) = snapshot {
            let script = match purpose {
                Use::Call => snapshot.call(text, &directory),
                Use::Background => snapshot.background(text, &directory),
            };
            ("-c", self.host.options.variables.unspeakable(), script.map_err(unavailable)?)
        } else {
            let flag = if shell.kind == Kind::Bash { "-lc" } else { "-c" };
            (flag, self.host.options.variables.pairs(), CallScript::plain(text, &directory, purpose))
        };
        if side == Side::Inside && snapshot.is_none() {
            let ours = self.host.options.sandbox.variables().into_iter();
            let ours = ours.filter(|(name, _)| self.host.options.variables.get(name).is_none());
            variables.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        }
        if purpose == Use::Background {
            variables.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
        }
        let fence = match side {
            Side::Inside => {
                let stay = if purpose == Use::Background { Stay::Long } else { Stay::Short };
                self.host.fence(&self.anchor, &directory, stay)?
            }
            Side::Outside => None,
        };
        Ok(Prepared { shell, flag, variables, directory, script, fence })
    }
}

impl Environment for Local {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(async move {
            let (mut finished, report) = self.run_fenced(command, cancel).await?;
            if let Some(note) = report.note() {
                finished.output.push_str(&note);
            }
            Ok(finished)
        })
    }
}

/// On which side of the fence a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Inside,
    Outside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Call,
    Background,
}

/// A call ready to be started. The script's files live as long as it does.
#[derive(Debug)]
struct Prepared {
    shell: Shell,
    flag: &'static str,
    variables: Vec<(String, String)>,
    directory: PathBuf,
    script: CallScript,
    fence: Option<Arc<Fence>>,
}

impl Prepared {
    fn launch(&self, lifetime: Lifetime, wiring: Wiring) -> Launch {
        Launch {
            program: self.shell.program.clone(),
            arguments: vec![self.flag.into(), self.script.script.clone().into()],
            variables: self.variables.clone(),
            directory: self.directory.clone(),
            lifetime,
            scope: Scope::Kin,
            wiring,
            fence: self.fence.clone(),
        }
    }
}

fn watch(
    running: Running,
    prepared: Prepared,
    screen: Screen,
    clock: Arc<dyn Clock>,
    owner: &Cancel,
) -> Background {
    let directory = prepared.directory.clone();
    let ear = Ear { running, heard: Vec::new(), directory, screen, far: None, clock };
    // The script's files are needed as long as the shell may read them.
    Background::watch(ear, prepared, owner)
}

impl CallScript {
    /// Without a dump: the folder is kept, nothing else.
    fn plain(text: &str, directory: &Path, purpose: Use) -> Self {
        let mark = format!("__HERMES_CWD_{}__", hermes_types::random_hex(12));
        let begin =
            format!("cd -- {} || exit 126\neval {}", quote(&directory.to_string_lossy()), quote(text));
        let script = match purpose {
            Use::Background => begin,
            Use::Call => {
                format!(
                    "{begin}\n__hermes_code=$?\nprintf '\\n{mark}%s{mark}\\n' \"$PWD\"\nexit $__hermes_code"
                )
            }
        };
        Self::without_files(script, mark)
    }
}

fn finish(output: String, ending: Ending, limit: Duration) -> Finished {
    match ending {
        Ending::Exited(exit_code) => Finished { output, exit_code },
        Ending::TimedOut => {
            let text = format!("Command timed out after {}s", limit.as_secs());
            let output = if output.is_empty() { text } else { format!("{output}\n[{text}]") };
            Finished { output, exit_code: TIMED_OUT }
        }
        Ending::Interrupted => {
            let output = format!("{output}\n[Command interrupted — user sent a new message]");
            Finished { output, exit_code: INTERRUPTED }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn unavailable(error: std::io::Error) -> RunError {
    RunError::Unavailable(error.to_string())
}

/// The folder, or what is left of the way to it: a folder that was removed must not end all further commands.
fn nearest_folder(wanted: &Path) -> PathBuf {
    wanted.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}
