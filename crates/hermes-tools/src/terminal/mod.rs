//! `terminal`: runs a shell command in the foreground or in the background.
//!
//! This module holds the order of its checks and the form of its result. `hermes-exec` runs commands;
//! `hermes-guard` decides what is dangerous.

pub(crate) mod approval;
mod approval_reviewer;
mod arguments;
pub(crate) mod environment_pool;
mod exit_code;
mod foreground;
pub(crate) mod sandboxed_run;
pub(crate) mod scan;
mod shells;
mod strip_literals;
mod sudo;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{
    BackgroundProcess, HostExposure, LocalEnvironment, RemotePathKind, RemoteProcess, SandboxReport,
    TerminalMode, strip_ansi,
};
use hermes_guard::{Assignments, HomeFolders, PhoneNumbers, Redaction, redact};
use hermes_task::spawn_named;
use hermes_types::{
    BoxFuture, CallPolicy, Cancel, Clock, CommandOutput, OutcomeStatus, RunError, Secret, ShellCommand,
    TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent, ToolInvocation, ToolOutcome, ToolRole, ToolSpec,
    TurnEvent, TurnNoticeKind,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{missing, spec, text};
use crate::checkpoint::{CheckpointManager, SHORT_LIMIT, is_destructive};
use crate::file::SecretMasking;
use crate::off_thread::off_thread;
use crate::process::{ProcessHandle, ProcessRegistry, ProcessStart};
use approval::{Approvals, Decision};
use arguments::TerminalArguments;
pub use environment_pool::{EnvironmentPoolOptions, EnvironmentSharing};
use environment_pool::{PoolError, PoolGuard};
use sandboxed_run::SandboxPlacement;
pub(crate) use shells::TaskEnvironment;
pub use shells::TaskShells;
use sudo::SudoPassword;

/// The maximum time in seconds of a command in the foreground.
const LONGEST_FOREGROUND: u64 = 600;
const PAUSES: [u64; 3] = [2, 4, 8];

/// The settings of the terminal.
#[derive(Debug, Clone)]
pub struct TerminalOptions {
    /// The time limit of a command if the model gives none: `terminal.timeout`.
    pub timeout: Duration,
    pub user_home: PathBuf,
    pub hermes_home: PathBuf,
    pub secrets: SecretMasking,
}

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "terminal",
    toolset: "terminal",
    summary: "Runs a command; `cd` and `export` stay in effect for the conversation",
    icon: "💻",
    verb: "$",
    preview_arguments: &["command"],
    role: Some(ToolRole::CommandRunner),
    ..ToolDescriptor::unknown("")
};

/// The `terminal` tool.
#[derive(Debug)]
pub struct TerminalTool {
    spec: ToolSpec,
    options: TerminalOptions,
    shells: TaskShells,
    processes: ProcessRegistry,
    approvals: Arc<Approvals>,
    checkpoints: Option<Arc<CheckpointManager>>,
    problem: Option<String>,
    sudo: SudoPassword,
    clock: Arc<dyn Clock>,
}

impl TerminalTool {
    pub fn new(
        options: TerminalOptions,
        shells: TaskShells,
        processes: ProcessRegistry,
        approvals: Arc<Approvals>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let spec =
            spec(&DESCRIPTOR, include_str!("../texts/terminal.md"), include_str!("../texts/terminal.json"));
        Self {
            spec,
            options,
            shells,
            processes,
            approvals,
            checkpoints: None,
            problem: None,
            sudo: SudoPassword::default(),
            clock,
        }
    }

    /// Takes a snapshot of a folder before a command that may destroy something in it.
    #[must_use]
    pub fn with_checkpoints(self, checkpoints: Option<Arc<CheckpointManager>>) -> Self {
        Self { checkpoints, ..self }
    }

    /// Sets an error in the configuration; no command runs until the user fixes it.
    #[must_use]
    pub fn with_problem(self, problem: Option<String>) -> Self {
        Self { problem, ..self }
    }

    /// Sets the password for `sudo` if the user has configured one: `SUDO_PASSWORD`.
    #[must_use]
    pub fn with_sudo(self, password: Option<Secret>) -> Self {
        Self { sudo: SudoPassword::with(password), ..self }
    }

    async fn execute(&self, call: &ToolInvocation, context: ToolContext<'_>) -> ToolOutcome {
        if let Some(problem) = &self.problem {
            return stopped("error", problem);
        }
        let Some(command) = text(&call.arguments, "command") else { return missing("terminal", "command") };
        let asked = TerminalArguments::read(&call.arguments, self.options.timeout);
        if !asked.background && asked.timeout.as_secs() > LONGEST_FOREGROUND {
            return stopped(
                "error",
                &format!(
                    "a command that is waited for may take at most {LONGEST_FOREGROUND} s; use background: true for longer ones"
                ),
            );
        }
        if let Some(advice) = foreground::refuse(command).filter(|_| !asked.background) {
            return stopped("error", &advice);
        }
        let grouped = foreground::grouped(command);
        let command = grouped.as_deref().unwrap_or(command);
        if let Some(refusal) = refuse_workdir(call) {
            return refusal;
        }
        let (home, hermes) =
            (self.options.user_home.to_string_lossy(), self.options.hermes_home.to_string_lossy());
        let places = HomeFolders { home: Some(&home), hermes_home: Some(&hermes) };
        // A command that cannot access the user's files needs no approval.
        let decision = match self.shells.host_exposure() {
            HostExposure::Isolated => Decision::Run,
            HostExposure::UserFiles => self.approvals.decide(command, &call.task, places, context).await,
        };
        let approval = match decision {
            Decision::Run => None,
            Decision::Approved(what) => Some(what),
            Decision::Blocked(message) => return stopped("blocked", &message),
        };
        let place = match self.shells.open_environment(&call.task, context.cancel).await {
            Ok(place) => place,
            Err(closed) => return pool_failure(&closed),
        };
        let workdir = match self.workdir(call, &place, context).await {
            Ok(workdir) => workdir,
            Err(refusal) => return refusal,
        };
        if let TaskEnvironment::Local(_) = place {
            self.take_snapshot(call, command, workdir.clone(), context).await;
        }
        if context.cancel.is_cancelled() {
            return pool_failure(&PoolError::Interrupted);
        }
        if asked.background {
            return self.start(call, command, &place, workdir, &asked).await;
        }
        let outcome = self.run_now((command, &call.task), &place, workdir, &asked, approval, context).await;
        self.shells.update_folder(&call.task, &place);
        outcome
    }

    /// Resolves the working directory of this call. A missing one is an error, because a command must not run
    /// in another one.
    async fn workdir(
        &self,
        call: &ToolInvocation,
        place: &TaskEnvironment,
        context: ToolContext<'_>,
    ) -> Result<Option<PathBuf>, ToolOutcome> {
        let Some(given) = text(&call.arguments, "workdir") else { return Ok(None) };
        let (folder, is_there) = match place {
            TaskEnvironment::Local(_) => {
                let folder = self.shells.resolve(&call.task, given, &self.options.user_home);
                let is_there = folder.is_dir();
                (folder, is_there)
            }
            TaskEnvironment::Remote(stay) => {
                let folder = below(&stay.session.directory(), given);
                let look = stay.files().path_kind(&folder, context.cancel).await;
                let look = look.map_err(|error| stopped("error", &format!("`workdir` {given}: {error}")))?;
                (PathBuf::from(folder), look == RemotePathKind::Folder)
            }
        };
        if is_there {
            Ok(Some(folder))
        } else {
            Err(stopped("error", &format!("`workdir` {} is not a folder", folder.display())))
        }
    }

    /// Takes a snapshot. A snapshot that fails or takes long never prevents the command from running.
    async fn take_snapshot(
        &self,
        call: &ToolInvocation,
        command: &str,
        workdir: Option<PathBuf>,
        context: ToolContext<'_>,
    ) {
        let Some(checkpoints) = self.checkpoints.clone().filter(|_| is_destructive(command)) else { return };
        let folder = workdir.unwrap_or_else(|| self.shells.folder(&call.task));
        let (turn, command, stop) = (call.turn.clone(), command.to_owned(), Cancel::new());
        let taking = {
            let (checkpoints, folder, stop) = (checkpoints.clone(), folder.clone(), stop.clone());
            off_thread("checkpoint", move || checkpoints.before_command(&turn, &folder, &command, &stop))
        };
        let told = tokio::select! {
            biased;
            told = taking => told.ok().flatten(),
            () = context.cancel.cancelled() => None,
            // The snapshot ends by itself unless the disk does not respond.
            () = self.clock.sleep(SHORT_LIMIT + SHORT_LIMIT / 2) => checkpoints.notice_once(&folder, "the disk does not answer"),
        };
        stop.cancel();
        if let Some(text) = told {
            context.frontend.show(TurnEvent::Notice { kind: TurnNoticeKind::Lifecycle, text });
        }
        let tidying = async move {
            let _ = off_thread("checkpoint", move || checkpoints.prune(&folder)).await;
        };
        spawn_named("old checkpoints", self.processes.owner(), tidying);
    }

    async fn run_now(
        &self,
        (command, task): (&str, &TaskId),
        place: &TaskEnvironment,
        workdir: Option<PathBuf>,
        asked: &TerminalArguments,
        approval: Option<String>,
        context: ToolContext<'_>,
    ) -> ToolOutcome {
        let limit = asked.timeout.min(context.deadline.remaining(&*self.clock));
        let request =
            ShellCommand { shell: command, directory: workdir.as_deref(), stdin: None, timeout: limit };
        let ran = match self.run_with_sandbox(place, request, task, context).await {
            Ok(ran) => ran,
            Err(error) => return stopped("error", &format!("Command execution failed: {error}")),
        };
        let CommandOutput { output, exit_code } = ran.finished;
        let output = self.readable(command, output.trim_end_matches('\n'));
        let mut result = json!({"output": output.trim(), "exit_code": exit_code, "error": null});
        if let Some(fields) = result.as_object_mut() {
            if let Some(meaning) = exit_code::exit_code_meaning(command, exit_code) {
                fields.insert("exit_code_meaning".to_owned(), json!(meaning));
            }
            let agreed: Vec<String> = approval.into_iter().chain(ran.approved).collect();
            if !agreed.is_empty() {
                fields.insert(
                    "approval".to_owned(),
                    json!(format!("approved by the user: {}", agreed.join("; "))),
                );
            }
            if let Some(told) = sandboxed_run::report_json(&ran.sandbox) {
                fields.insert("sandbox".to_owned(), told);
            }
        }
        let status =
            if context.cancel.is_cancelled() { OutcomeStatus::Cancelled } else { OutcomeStatus::Done };
        ToolOutcome { status, ..answer::success_json(&result) }
    }

    /// Runs a command and retries if this machine has no resources to start a process. A command that ran is
    /// never repeated. Remote backends have their own retries.
    async fn try_running(
        &self,
        place: &TaskEnvironment,
        request: ShellCommand<'_>,
        side: SandboxPlacement,
        context: ToolContext<'_>,
    ) -> Result<(CommandOutput, SandboxReport), RunError> {
        let pauses: &[u64] = if let TaskEnvironment::Local(_) = place { &PAUSES } else { &[] };
        for pause in pauses {
            match side.run(place, request, context.cancel).await {
                Err(RunError::Unavailable(reason)) => {
                    tracing::warn!(%reason, "a command could not be started");
                }
                done => return done,
            }
            tokio::select! {
                () = self.clock.sleep(Duration::from_secs(*pause)) => {}
                () = context.cancel.cancelled() => break,
            }
        }
        side.run(place, request, context.cancel).await
    }

    async fn start(
        &self,
        call: &ToolInvocation,
        command: &str,
        place: &TaskEnvironment,
        workdir: Option<PathBuf>,
        asked: &TerminalArguments,
    ) -> ToolOutcome {
        let Some(slot) = self.processes.reserve() else {
            let most = ProcessRegistry::MOST;
            return stopped(
                "error",
                &format!("{most} background processes run already; end one with the process tool first"),
            );
        };
        let started = match place {
            TaskEnvironment::Local(local) => {
                self.start_local(command, local, workdir, asked).await.map(ProcessHandle::Background)
            }
            TaskEnvironment::Remote(stay) => self.start_remote(command, stay, workdir, asked).await,
        };
        let process = match started {
            Ok(process) => process,
            Err(error) => return stopped("error", &format!("Command execution failed: {error}")),
        };
        let (pid, lacks_terminal) = (process.pid(), asked.pty && matches!(process, ProcessHandle::Remote(_)));
        let start = ProcessStart {
            command: command.to_owned(),
            task: call.task.clone(),
            session: call.session.clone(),
            watch: asked.watch_options(),
        };
        let id = self.processes.add(slot, process, start);
        let mut result = json!({
            "output": "Background process started", "session_id": id, "pid": pid, "exit_code": 0, "error": null,
        });
        if let Some(fields) = result.as_object_mut() {
            asked.describe_watch(fields);
            if lacks_terminal {
                fields
                    .insert("pty_note".to_owned(), json!("there is no terminal there; it runs without one"));
            }
        }
        answer::success_json(&result)
    }

    async fn start_local(
        &self,
        command: &str,
        local: &LocalEnvironment,
        workdir: Option<PathBuf>,
        asked: &TerminalArguments,
    ) -> Result<BackgroundProcess, RunError> {
        let screen = if asked.pty { TerminalMode::Pty } else { TerminalMode::None };
        local.start(command, workdir.as_deref(), screen, self.processes.owner()).await
    }

    async fn start_remote(
        &self,
        command: &str,
        stay: &PoolGuard,
        workdir: Option<PathBuf>,
        asked: &TerminalArguments,
    ) -> Result<ProcessHandle, RunError> {
        let (workdir, owner) = (workdir.as_deref(), self.processes.owner());
        if asked.pty {
            let clock = Arc::clone(&self.clock);
            if let Some(process) = stay.session.start_on_terminal(command, workdir, clock, owner).await? {
                return Ok(ProcessHandle::Background(process));
            }
        }
        let (seat, clock) = (Arc::clone(&stay.session), Arc::clone(&self.clock));
        RemoteProcess::start(seat, command, workdir, clock, owner).await.map(ProcessHandle::Remote)
    }

    /// Removes control sequences and masks secrets in output for the model.
    fn readable(&self, command: &str, output: &str) -> String {
        let plain = strip_ansi(output);
        let plain = plain.trim();
        match self.options.secrets {
            SecretMasking::Show => plain.to_owned(),
            SecretMasking::Mask => mask(command, plain),
        }
    }
}

/// Masks secrets in output. Output of commands that print variables is masked more strictly than output that
/// may be source code.
pub(crate) fn mask(command: &str, output: &str) -> String {
    let name = command.split_whitespace().next().unwrap_or_default();
    let assignments = match name {
        "env" | "printenv" | "set" | "export" | "declare" => Assignments::AnyCase,
        _ => Assignments::ConfigStyle,
    };
    redact(output, Redaction { assignments, phone_numbers: PhoneNumbers::Mask }).into_owned()
}

impl Tool for TerminalTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.execute(call, context))
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy::default()
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        match occasion {
            ToolEvent::Ended => {
                self.shells.close(task);
                self.approvals.forget(task);
            }
            ToolEvent::Delegated(parent) => self.shells.delegate(task, parent),
            ToolEvent::Resumed(_)
            | ToolEvent::Compressed
            | ToolEvent::CallStarting(_)
            | ToolEvent::OthersWordsRead(_)
            | ToolEvent::TurnCompleted => {}
        }
    }

    fn end_background_work(&self, task: &TaskId) {
        self.processes.end_task_processes(task);
    }
}

fn refuse_workdir(call: &ToolInvocation) -> Option<ToolOutcome> {
    let allowed = |c: char| c.is_alphanumeric() || "/\\:_-.~ +@=,".contains(c);
    let wrong = text(&call.arguments, "workdir")?.chars().find(|c| !allowed(*c))?;
    let message = format!("BLOCKED: `workdir` has the character {wrong:?}; give a plain path");
    Some(stopped("blocked", &message))
}

/// Resolves a path in a remote environment where the task's folder is `directory`.
fn below(directory: &str, given: &str) -> String {
    if given.starts_with(['/', '~']) { given.to_owned() } else { format!("{directory}/{given}") }
}

fn pool_failure(closed: &PoolError) -> ToolOutcome {
    match closed {
        PoolError::Unavailable(reason) => stopped("disabled", &format!("Terminal tool disabled: {reason}")),
        PoolError::Interrupted => {
            let outcome = stopped("interrupted", "[Command interrupted before it was started]");
            ToolOutcome { status: OutcomeStatus::Cancelled, ..outcome }
        }
    }
}

/// Returns an error in the form of a result, for a command that was not run.
fn stopped(status: &str, message: &str) -> ToolOutcome {
    answer::failure_json(&json!({"output": "", "exit_code": -1, "error": message, "status": status}))
}
