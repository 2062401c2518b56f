//! Runs commands on this machine.
//!
//! A [`LocalHost`] is the machine: its shell, the variables commands get, and the snapshot of one login
//! shell. A [`LocalEnvironment`] is one task's environment on it: `cd` and `export` last from call to call,
//! and nothing of one task reaches another. Each call starts a new shell, so a command cannot break the next
//! one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{BoxFuture, Cancel, Clock, CommandOutput, Environment, RunError, ShellCommand};
use tokio::sync::OnceCell;

use crate::background::{BackgroundProcess, BackgroundSetup, TerminalMode};
use crate::capture::OutputBounds;
use crate::child::{Launch, Lifetime, RunningChild, StdioMode};
use crate::group::KillScope;
use crate::login::LoginCache;
use crate::run::{CommandOutcome, ExitCause, RunContext, run};
use crate::sandbox::{ChildSandbox, ExpectedRuntime, Sandbox, SandboxReport};
use crate::shell::{Shell, ShellKind, quote};
use crate::snapshot::{CallScript, ShellSnapshot};
use crate::variables::Variables;
use crate::watchdog::remove_on_exit;

/// The longest time to wait for a login shell.
const LOGIN_LIMIT: Duration = Duration::from_secs(15);
const TIMED_OUT: i32 = 124;
const INTERRUPTED: i32 = 130;

/// The options of a host.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    pub variables: Variables,
    /// The folder for snapshots and long commands.
    pub temp: PathBuf,
    pub bounds: OutputBounds,
    pub sandbox: Sandbox,
}

/// The machine on which commands run.
#[derive(Debug)]
pub struct LocalHost {
    options: LocalOptions,
    /// The folder of the shells' snapshots; sandboxed commands cannot write to it.
    dumps: PathBuf,
    /// The folder in which sandboxed shells leave their exports. It is created at the first command, because
    /// most runs need none.
    writable_folder: OnceLock<WritableFolder>,
    shell: Option<Shell>,
    clock: Arc<dyn Clock>,
    login: OnceCell<Option<ShellSnapshot>>,
    /// The owner of the host's background work, cancelled when the host is dropped.
    background_owner: Cancel,
}

impl Drop for LocalHost {
    fn drop(&mut self) {
        self.background_owner.cancel();
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
        scope: KillScope::Tree,
        stdio: StdioMode::OutputOnly,
        sandbox: None,
    }
}

fn report_login_failure(ended: &std::io::Result<ExitCause>) -> Option<ShellSnapshot> {
    tracing::warn!(?ended, "the login shell's environment could not be read; each command starts one");
    None
}

impl LocalHost {
    /// Creates a host without starting a process: the login shell runs at the first command.
    pub fn new(options: LocalOptions, clock: Arc<dyn Clock>) -> Arc<Self> {
        // A sandboxed shell must still be able to leave its exports for the next one.
        let sandbox = options.sandbox.clone().with_temporary(&options.temp);
        let options = LocalOptions { sandbox, ..options };
        let shell = Shell::find(&options.variables);
        let dumps = options.sandbox.private_folder().unwrap_or_else(|| options.temp.clone());
        Arc::new(Self {
            options,
            dumps,
            writable_folder: OnceLock::new(),
            shell,
            clock,
            login: OnceCell::new(),
            background_owner: Cancel::new(),
        })
    }

    /// Opens a task's environment that begins in `start`.
    pub fn open(self: &Arc<Self>, start: PathBuf) -> LocalEnvironment {
        self.open_within(start.clone(), start)
    }

    /// Opens an environment for a task about `anchor` whose current folder is `start`.
    pub fn open_within(self: &Arc<Self>, anchor: PathBuf, start: PathBuf) -> LocalEnvironment {
        LocalEnvironment {
            host: Arc::clone(self),
            anchor,
            directory: Mutex::new(start),
            added_variables: Mutex::default(),
            snapshot: OnceCell::new(),
        }
    }

    /// Returns a sentence that describes the sandbox of commands; `None` when there is no sandbox and none
    /// was configured. What the system allows is found out by trying, so callers ask only when the sentence
    /// is shown.
    pub fn sandbox_notice(&self) -> Option<String> {
        self.options.sandbox.notice()
    }

    fn writable_folder(&self) -> &WritableFolder {
        self.writable_folder.get_or_init(|| WritableFolder::make(&self.options))
    }

    fn shell(&self) -> Result<&Shell, RunError> {
        self.shell.as_ref().ok_or_else(|| RunError::Unavailable("no bash or sh was found".to_owned()))
    }

    /// Returns the login shell's snapshot, taken once; `None` if that failed.
    async fn login(&self) -> Option<&ShellSnapshot> {
        let taken = self.login.get_or_init(|| async {
            let shell = self.shell.as_ref().filter(|shell| shell.kind == ShellKind::Bash)?;
            let snapshot = ShellSnapshot::new(&self.dumps, &self.writable_folder().path);
            let path = self.options.variables.get("PATH").unwrap_or_default();
            // The snapshot is cached only where commands cannot write.
            let cache = (self.dumps != self.options.temp)
                .then(|| LoginCache::of(&self.dumps, shell, &self.options.variables));
            let Some(cache) = cache else {
                let script = snapshot.fill_script(path);
                let ended = self.run_login(shell, script, self.options.variables.pairs()).await;
                let taken = matches!(ended, Ok(ExitCause::Exited(0))) && snapshot.is_filled();
                return if taken { Some(snapshot) } else { report_login_failure(&ended) };
            };
            let told = LoginCache::login_variables(&self.options.variables);
            if !cache.exists() {
                let ended = self.run_login(shell, cache.script(path), told).await;
                if !cache.exists() {
                    return report_login_failure(&ended);
                }
            } else if cache.is_stale(self.clock.now()) {
                self.refresh_login(shell, cache.script(path), told).await;
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
    ) -> std::io::Result<ExitCause> {
        let launch = login_launch(shell, script, variables, Lifetime::Bound);
        let cancel = Cancel::new();
        let watch = RunContext {
            limit: LOGIN_LIMIT,
            clock: &*self.clock,
            cancel: &cancel,
            bounds: OutputBounds::default(),
        };
        run(launch, None, watch).await.map(|ran| ran.exit_cause)
    }

    /// Has a login shell refresh the cached snapshot for later starts while no command waits for it. A shell
    /// that hangs is terminated.
    async fn refresh_login(&self, shell: &Shell, script: String, variables: Vec<(String, String)>) {
        let launch = login_launch(shell, script, variables, Lifetime::Detached);
        match launch.start().await {
            Ok(mut running) => {
                let clock = Arc::clone(&self.clock);
                spawn_named("login shell", &self.background_owner, async move {
                    tokio::select! {
                        _ = running.wait() => {}
                        () = clock.sleep(LOGIN_LIMIT * 4) => running.group().terminate(&*clock).await,
                    }
                });
            }
            Err(error) => tracing::debug!(%error, "the login shell could not be read again"),
        }
    }

    fn child_sandbox(
        &self,
        anchor: &Path,
        directory: &Path,
        stay: ExpectedRuntime,
    ) -> Result<Option<Arc<ChildSandbox>>, RunError> {
        let fence = self.options.sandbox.for_command(anchor, directory, stay).map_err(RunError::Refused)?;
        Ok(fence.map(Arc::new))
    }
}

/// A folder that sandboxed commands can write to, also where nothing can be created in the temporary folder
/// itself because the user's home lies in it.
#[derive(Debug)]
struct WritableFolder {
    path: PathBuf,
    ours: bool,
}

impl WritableFolder {
    fn make(options: &LocalOptions) -> Self {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = remove_on_exit(&options.temp, "hermes-shell-");
        let made =
            options.sandbox.is_active() && std::fs::DirBuilder::new().mode(0o700).create(&path).is_ok();
        if made { Self { path, ours: true } } else { Self { path: options.temp.clone(), ours: false } }
    }
}

impl Drop for WritableFolder {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// One task's environment on this machine.
#[derive(Debug)]
pub struct LocalEnvironment {
    host: Arc<LocalHost>,
    /// The folder the task began in, which determines what commands may write, wherever they run.
    anchor: PathBuf,
    directory: Mutex<PathBuf>,
    /// Variables for the commands of this environment alone.
    added_variables: Mutex<Vec<(String, String)>>,
    snapshot: OnceCell<Option<ShellSnapshot>>,
}

impl LocalEnvironment {
    /// Returns the folder in which the next command starts.
    pub fn directory(&self) -> PathBuf {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells whether commands in this environment run in a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.host.options.sandbox.is_active()
    }

    /// Tells whether the sandbox is weaker than it could be because this system does not permit mounts.
    pub fn sandbox_is_partial(&self) -> bool {
        self.host.options.sandbox.is_partial()
    }

    /// Sets the variables that further commands get in addition to the usual ones.
    pub fn set_added_variables(&self, variables: Vec<(String, String)>) {
        *self.added_variables.lock().unwrap_or_else(PoisonError::into_inner) = variables;
    }

    fn set_directory(&self, directory: PathBuf) {
        *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = directory;
    }

    async fn snapshot(&self) -> Option<&ShellSnapshot> {
        let forked = self.snapshot.get_or_init(|| async {
            let login = self.host.login().await?;
            let fork =
                login.fork().inspect_err(|error| tracing::warn!(%error, "the dump could not be copied")).ok();
            let sandbox = &self.host.options.sandbox;
            fork.map(|fork| fork.with_exports(&sandbox.variables()).adding(&sandbox.added_options()))
        });
        forked.await.as_ref()
    }

    /// Runs a command and reports how its sandbox affected the result.
    pub async fn run_sandboxed(
        &self,
        command: ShellCommand<'_>,
        cancel: &Cancel,
    ) -> Result<(CommandOutput, SandboxReport), RunError> {
        self.execute(command, CommandPlacement::Inside, cancel).await
    }

    /// Runs a command without a sandbox, after a person has approved that.
    pub async fn run_unsandboxed(
        &self,
        command: ShellCommand<'_>,
        cancel: &Cancel,
    ) -> Result<CommandOutput, RunError> {
        self.execute(command, CommandPlacement::Outside, cancel).await.map(|(finished, _)| finished)
    }

    async fn execute(
        &self,
        command: ShellCommand<'_>,
        side: CommandPlacement,
        cancel: &Cancel,
    ) -> Result<(CommandOutput, SandboxReport), RunError> {
        let ShellCommand { shell: text, directory, stdin, timeout: limit } = command;
        let prepared = self.prepare(text, directory, CallPurpose::Call, side).await?;
        let wiring = if stdin.is_some() { StdioMode::InputAndOutput } else { StdioMode::OutputOnly };
        let launch = prepared.launch(Lifetime::Bound, wiring);
        let watch = RunContext { limit, clock: &*self.host.clock, cancel, bounds: self.host.options.bounds };
        let CommandOutcome { mut output, exit_cause: ending } =
            run(launch, stdin, watch).await.map_err(unavailable)?;
        let (before, after) = prepared.script.mark();
        let mut last = self.directory();
        if let Some(found) = output.take_mark(&before, &after) {
            if side == CommandPlacement::Inside {
                prepared.script.persist_exports();
            }
            let found = PathBuf::from(found);
            last.clone_from(&found);
            // A folder given for one call applies to that call only.
            if directory.is_none() && found.is_absolute() && found.is_dir() {
                self.set_directory(found);
            }
        }
        let finished = finish(output.text(), ending, limit);
        let report = prepared.sandbox.as_ref().map(|fence| fence.report(&finished, &last));
        Ok((finished, report.unwrap_or_default()))
    }

    /// Starts a background process. Cancelling `owner` stops the monitoring, not the process.
    pub async fn start(
        &self,
        command: &str,
        directory: Option<&Path>,
        screen: TerminalMode,
        owner: &Cancel,
    ) -> Result<BackgroundProcess, RunError> {
        let prepared =
            self.prepare(command, directory, CallPurpose::Background, CommandPlacement::Inside).await?;
        let clock = Arc::clone(&self.host.clock);
        if screen == TerminalMode::Pty {
            match prepared.launch(Lifetime::Detached, StdioMode::Terminal).start().await {
                Ok(running) => return Ok(watch(running, prepared, screen, clock, owner)),
                Err(error) => tracing::warn!(%error, "no terminal could be opened; using pipes"),
            }
        }
        let running = prepared
            .launch(Lifetime::Detached, StdioMode::InputAndOutput)
            .start()
            .await
            .map_err(unavailable)?;
        Ok(watch(running, prepared, TerminalMode::None, clock, owner))
    }

    async fn prepare(
        &self,
        text: &str,
        directory: Option<&Path>,
        purpose: CallPurpose,
        side: CommandPlacement,
    ) -> Result<PreparedCall, RunError> {
        let shell = self.host.shell()?.clone();
        let directory = nearest_folder(&directory.map_or_else(|| self.directory(), Path::to_owned));
        // State that sandboxed commands left behind must not influence a command outside the sandbox.
        let snapshot = match side {
            CommandPlacement::Inside => self.snapshot().await,
            CommandPlacement::Outside => self.host.login().await,
        };
        let (flag, mut variables, script) = if let Some(snapshot) = snapshot {
            let script = match purpose {
                CallPurpose::Call => snapshot.call(text, &directory),
                CallPurpose::Background => snapshot.background(text, &directory),
            };
            ("-c", self.host.options.variables.invalid_shell_names(), script.map_err(unavailable)?)
        } else {
            let flag = if shell.kind == ShellKind::Bash { "-lc" } else { "-c" };
            (flag, self.host.options.variables.pairs(), CallScript::plain(text, &directory, purpose))
        };
        if side == CommandPlacement::Inside && snapshot.is_none() {
            let ours = self.host.options.sandbox.variables().into_iter();
            let ours = ours.filter(|(name, _)| self.host.options.variables.get(name).is_none());
            variables.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        }
        let added = self.added_variables.lock().unwrap_or_else(PoisonError::into_inner).clone();
        variables.extend(added);
        if purpose == CallPurpose::Background {
            variables.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
        }
        let fence = match side {
            CommandPlacement::Inside => {
                let stay = if purpose == CallPurpose::Background {
                    ExpectedRuntime::Long
                } else {
                    ExpectedRuntime::Short
                };
                self.host.child_sandbox(&self.anchor, &directory, stay)?
            }
            CommandPlacement::Outside => None,
        };
        Ok(PreparedCall { shell, flag, variables, directory, script, sandbox: fence })
    }
}

impl Environment for LocalEnvironment {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        Box::pin(async move {
            let (mut finished, report) = self.run_sandboxed(command, cancel).await?;
            if let Some(note) = report.note() {
                finished.output.push_str(&note);
            }
            Ok(finished)
        })
    }
}

/// Selects whether a command runs inside or outside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandPlacement {
    Inside,
    Outside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallPurpose {
    Call,
    Background,
}

/// A call that is ready to be started. The script's files live as long as this value.
#[derive(Debug)]
struct PreparedCall {
    shell: Shell,
    flag: &'static str,
    variables: Vec<(String, String)>,
    directory: PathBuf,
    script: CallScript,
    sandbox: Option<Arc<ChildSandbox>>,
}

impl PreparedCall {
    fn launch(&self, lifetime: Lifetime, wiring: StdioMode) -> Launch {
        Launch {
            program: self.shell.program.clone(),
            arguments: vec![self.flag.into(), self.script.script.clone().into()],
            variables: self.variables.clone(),
            directory: self.directory.clone(),
            lifetime,
            scope: KillScope::Tree,
            stdio: wiring,
            sandbox: self.sandbox.clone(),
        }
    }
}

fn watch(
    running: RunningChild,
    prepared: PreparedCall,
    screen: TerminalMode,
    clock: Arc<dyn Clock>,
    owner: &Cancel,
) -> BackgroundProcess {
    let directory = prepared.directory.clone();
    let ear = BackgroundSetup {
        running,
        initial_output: Vec::new(),
        directory,
        terminal: screen,
        remote_end: None,
        clock,
    };
    // The script's files are needed as long as the shell may read them.
    BackgroundProcess::monitor(ear, prepared, owner)
}

impl CallScript {
    /// Returns a call without a snapshot: only the folder is kept for the next call.
    fn plain(text: &str, directory: &Path, purpose: CallPurpose) -> Self {
        let mark = format!("__HERMES_CWD_{}__", hermes_types::random_hex(12));
        let begin =
            format!("cd -- {} || exit 126\neval {}", quote(&directory.to_string_lossy()), quote(text));
        let script = match purpose {
            CallPurpose::Background => begin,
            CallPurpose::Call => {
                format!(
                    "{begin}\n__hermes_code=$?\nprintf '\\n{mark}%s{mark}\\n' \"$PWD\"\nexit $__hermes_code"
                )
            }
        };
        Self::without_files(script, mark)
    }
}

fn finish(output: String, ending: ExitCause, limit: Duration) -> CommandOutput {
    match ending {
        ExitCause::Exited(exit_code) => CommandOutput { output, exit_code },
        ExitCause::TimedOut => {
            let output = without_signal_report(output);
            let text = format!("Command timed out after {}s", limit.as_secs());
            let output = if output.is_empty() { text } else { format!("{output}\n[{text}]") };
            CommandOutput { output, exit_code: TIMED_OUT }
        }
        ExitCause::Interrupted => {
            let output = without_signal_report(output);
            let output = format!("{output}\n[Command interrupted — user sent a new message]");
            CommandOutput { output, exit_code: INTERRUPTED }
        }
    }
}

/// Removes the shell's own line about the signal that ended the command: whether the shell is still there to write it
/// depends on which process the signal reaches first.
fn without_signal_report(mut output: String) -> String {
    let end = output.strip_suffix('\n').unwrap_or(&output);
    let before = end.strip_suffix("Terminated").filter(|text| text.is_empty() || text.ends_with('\n'));
    if let Some(length) = before.map(str::len) {
        output.truncate(length);
    }
    output
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn unavailable(error: std::io::Error) -> RunError {
    RunError::Unavailable(error.to_string())
}

/// Returns the folder or its nearest existing parent: a removed folder must not make all further commands
/// fail.
fn nearest_folder(wanted: &Path) -> PathBuf {
    wanted.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::without_signal_report;

    #[test]
    fn only_the_line_of_the_shell_about_its_signal_is_removed() {
        for (output, kept) in [
            ("Terminated\n", ""),
            ("12\nTerminated\n", "12\n"),
            ("12\nTerminated", "12\n"),
            ("not Terminated\n", "not Terminated\n"),
            ("12\n", "12\n"),
            ("", ""),
        ] {
            assert_eq!(without_signal_report(output.to_owned()), kept);
        }
    }
}
