//! `terminal`: a shell command, now or in the background.
//!
//! Holds the order of its guards and the shape of its answer. How commands run is `hermes-exec`'s, what is dangerous
//! `hermes-guard`'s.

pub(crate) mod approval;
mod asked;
mod bare;
pub(crate) mod fence;
mod foreground;
mod meaning;
pub(crate) mod rooms;
pub(crate) mod scan;
mod shells;
mod smart;
mod sudo;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{Background, Distant, FenceReport, Local, Look, Reachable, Screen, strip_ansi};
use hermes_guard::{Assignments, PhoneNumbers, Places, Redaction, redact};
use hermes_task::spawn_named;
use hermes_types::{
    BoxFuture, Call, Cancel, Clock, Command, Event, Finished, Manner, NoticeKind, Occasion, Outcome,
    OutcomeStatus, RunError, Secret, TaskId, Tool, ToolContext, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{missing, spec, text};
use crate::checkpoint::{Checkpoints, HURRIED, is_destructive};
use crate::file::Secrets;
use crate::off_thread::off_thread;
use crate::process::{Kind, Processes, Start};
use approval::{Approvals, Decision};
use asked::AskedFor;
use fence::Side;
use rooms::{Closed, Stay};
pub use rooms::{RoomOptions, Tenancy};
pub(crate) use shells::Place;
pub use shells::Shells;
use sudo::Sudo;

/// What a command may need at most while somebody waits for it.
const LONGEST_FOREGROUND: u64 = 600;
const PAUSES: [u64; 3] = [2, 4, 8];

/// What the terminal is made of.
#[derive(Debug, Clone)]
pub struct TerminalOptions {
    /// How long a command may take if the model does not say: `terminal.timeout`.
    pub timeout: Duration,
    pub user_home: PathBuf,
    pub hermes_home: PathBuf,
    pub secrets: Secrets,
}

/// The tool.
#[derive(Debug)]
pub struct Terminal {
    spec: ToolSpec,
    options: TerminalOptions,
    shells: Shells,
    processes: Processes,
    approvals: Arc<Approvals>,
    checkpoints: Option<Arc<Checkpoints>>,
    problem: Option<String>,
    sudo: Sudo,
    clock: Arc<dyn Clock>,
}

impl Terminal {
    pub fn new(
        options: TerminalOptions,
        shells: Shells,
        processes: Processes,
        approvals: Arc<Approvals>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let spec =
            spec("terminal", include_str!("../texts/terminal.md"), include_str!("../texts/terminal.json"));
        Self {
            spec,
            options,
            shells,
            processes,
            approvals,
            checkpoints: None,
            problem: None,
            sudo: Sudo::default(),
            clock,
        }
    }

    /// Takes a snapshot of a folder before a command that may destroy something in it.
    #[must_use]
    pub fn with_checkpoints(self, checkpoints: Option<Arc<Checkpoints>>) -> Self {
        Self { checkpoints, ..self }
    }

    /// A setting that means nothing: nothing is run until it is put right.
    #[must_use]
    pub fn with_problem(self, problem: Option<String>) -> Self {
        Self { problem, ..self }
    }

    /// The password for `sudo`, where the user has configured one: `SUDO_PASSWORD`.
    #[must_use]
    pub fn with_sudo(self, password: Option<Secret>) -> Self {
        Self { sudo: Sudo::with(password), ..self }
    }

    async fn execute(&self, call: &Call, context: ToolContext<'_>) -> Outcome {
        if let Some(problem) = &self.problem {
            return stopped("error", problem);
        }
        let Some(command) = text(&call.arguments, "command") else { return missing("terminal", "command") };
        let asked = AskedFor::read(&call.arguments, self.options.timeout);
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
        let places = Places { home: Some(&home), hermes_home: Some(&hermes) };
        // Where a command can reach nothing of the user's, nobody needs to agree to it.
        let decision = match self.shells.reachable() {
            Reachable::Nothing => Decision::Run,
            Reachable::OwnThings => self.approvals.decide(command, &call.task, places, context).await,
        };
        let approval = match decision {
            Decision::Run => None,
            Decision::Agreed(what) => Some(what),
            Decision::Blocked(message) => return stopped("blocked", &message),
        };
        let place = match self.shells.enter(&call.task, context.cancel).await {
            Ok(place) => place,
            Err(closed) => return not_entered(&closed),
        };
        let workdir = match self.workdir(call, &place, context).await {
            Ok(workdir) => workdir,
            Err(refusal) => return refusal,
        };
        if let Place::Here(_) = place {
            self.keep_snapshot(call, command, workdir.clone(), context).await;
        }
        if context.cancel.is_cancelled() {
            return not_entered(&Closed::Interrupted);
        }
        if asked.background {
            return self.start(call, command, &place, workdir, &asked).await;
        }
        let outcome = self.run_now((command, &call.task), &place, workdir, &asked, approval, context).await;
        self.shells.follow(&call.task, &place);
        outcome
    }

    /// The folder that is named for this call. One that is not there is refused: a command must not run in another.
    async fn workdir(
        &self,
        call: &Call,
        place: &Place,
        context: ToolContext<'_>,
    ) -> Result<Option<PathBuf>, Outcome> {
        let Some(given) = text(&call.arguments, "workdir") else { return Ok(None) };
        let (folder, is_there) = match place {
            Place::Here(_) => {
                let folder = self.shells.resolve(&call.task, given, &self.options.user_home);
                let is_there = folder.is_dir();
                (folder, is_there)
            }
            Place::There(stay) => {
                let folder = below(&stay.seat.directory(), given);
                let look = stay.files().look(&folder, context.cancel).await;
                let look = look.map_err(|error| stopped("error", &format!("`workdir` {given}: {error}")))?;
                (PathBuf::from(folder), look == Look::Folder)
            }
        };
        if is_there {
            Ok(Some(folder))
        } else {
            Err(stopped("error", &format!("`workdir` {} is not a folder", folder.display())))
        }
    }

    /// A snapshot that fails, or takes long, never keeps the command from running.
    async fn keep_snapshot(
        &self,
        call: &Call,
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
            // It gives up by itself, unless the disk does not answer.
            () = self.clock.sleep(HURRIED + HURRIED / 2) => checkpoints.say_once(&folder, "the disk does not answer"),
        };
        stop.cancel();
        if let Some(text) = told {
            context.frontend.show(Event::Notice { kind: NoticeKind::Lifecycle, text });
        }
        let tidying = async move {
            let _ = off_thread("checkpoint", move || checkpoints.tidy(&folder)).await;
        };
        spawn_named("old checkpoints", self.processes.owner(), tidying);
    }

    async fn run_now(
        &self,
        (command, task): (&str, &TaskId),
        place: &Place,
        workdir: Option<PathBuf>,
        asked: &AskedFor,
        approval: Option<String>,
        context: ToolContext<'_>,
    ) -> Outcome {
        let limit = asked.timeout.min(context.deadline.remaining(&*self.clock));
        let request = Command { shell: command, directory: workdir.as_deref(), stdin: None, limit };
        let ran = match self.run_by_the_fence(place, request, task, context).await {
            Ok(ran) => ran,
            Err(error) => return stopped("error", &format!("Command execution failed: {error}")),
        };
        let Finished { output, exit_code } = ran.finished;
        let output = self.readable(command, output.trim_end_matches('\n'));
        let mut result = json!({"output": output.trim(), "exit_code": exit_code, "error": null});
        if let Some(fields) = result.as_object_mut() {
            if let Some(meaning) = meaning::meaning(command, exit_code) {
                fields.insert("exit_code_meaning".to_owned(), json!(meaning));
            }
            let agreed: Vec<String> = approval.into_iter().chain(ran.agreed).collect();
            if !agreed.is_empty() {
                fields.insert(
                    "approval".to_owned(),
                    json!(format!("approved by the user: {}", agreed.join("; "))),
                );
            }
            if let Some(told) = fence::told(&ran.fence) {
                fields.insert("sandbox".to_owned(), told);
            }
        }
        let status =
            if context.cancel.is_cancelled() { OutcomeStatus::Cancelled } else { OutcomeStatus::Done };
        Outcome { status, ..answer::done(&result) }
    }

    /// Starting a process may fail for a moment when this machine is full; a command that ran is never repeated. Places
    /// elsewhere know themselves what may be tried again.
    async fn try_running(
        &self,
        place: &Place,
        request: Command<'_>,
        side: Side,
        context: ToolContext<'_>,
    ) -> Result<(Finished, FenceReport), RunError> {
        let pauses: &[u64] = if let Place::Here(_) = place { &PAUSES } else { &[] };
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
        call: &Call,
        command: &str,
        place: &Place,
        workdir: Option<PathBuf>,
        asked: &AskedFor,
    ) -> Outcome {
        let Some(slot) = self.processes.reserve() else {
            let most = Processes::MOST;
            return stopped(
                "error",
                &format!("{most} background processes run already; end one with the process tool first"),
            );
        };
        let started = match place {
            Place::Here(local) => self.start_here(command, local, workdir, asked).await.map(Kind::Ours),
            Place::There(stay) => self.start_there(command, stay, workdir, asked).await,
        };
        let process = match started {
            Ok(process) => process,
            Err(error) => return stopped("error", &format!("Command execution failed: {error}")),
        };
        let (pid, lacks_terminal) = (process.pid(), asked.pty && matches!(process, Kind::There(_)));
        let start = Start {
            command: command.to_owned(),
            task: call.task.clone(),
            session: call.session.clone(),
            wishes: asked.wishes(),
        };
        let id = self.processes.add(slot, process, start);
        let mut result = json!({
            "output": "Background process started", "session_id": id, "pid": pid, "exit_code": 0, "error": null,
        });
        if let Some(fields) = result.as_object_mut() {
            asked.note(fields);
            if lacks_terminal {
                fields
                    .insert("pty_note".to_owned(), json!("there is no terminal there; it runs without one"));
            }
        }
        answer::done(&result)
    }

    async fn start_here(
        &self,
        command: &str,
        local: &Local,
        workdir: Option<PathBuf>,
        asked: &AskedFor,
    ) -> Result<Background, RunError> {
        let screen = if asked.pty { Screen::Terminal } else { Screen::None };
        local.start(command, workdir.as_deref(), screen, self.processes.owner()).await
    }

    async fn start_there(
        &self,
        command: &str,
        stay: &Stay,
        workdir: Option<PathBuf>,
        asked: &AskedFor,
    ) -> Result<Kind, RunError> {
        let (workdir, owner) = (workdir.as_deref(), self.processes.owner());
        if asked.pty {
            let clock = Arc::clone(&self.clock);
            if let Some(process) = stay.seat.start_on_terminal(command, workdir, clock, owner).await? {
                return Ok(Kind::Ours(process));
            }
        }
        let (seat, clock) = (Arc::clone(&stay.seat), Arc::clone(&self.clock));
        Distant::start(seat, command, workdir, clock, owner).await.map(Kind::There)
    }

    /// As the model may read it: without control sequences and secrets.
    fn readable(&self, command: &str, output: &str) -> String {
        let plain = strip_ansi(output);
        let plain = plain.trim();
        match self.options.secrets {
            Secrets::Show => plain.to_owned(),
            Secrets::Mask => mask(command, plain),
        }
    }
}

/// Output of commands that print variables is masked more strictly than what may be a program.
pub(crate) fn mask(command: &str, output: &str) -> String {
    let name = command.split_whitespace().next().unwrap_or_default();
    let assignments = match name {
        "env" | "printenv" | "set" | "export" | "declare" => Assignments::AnyCase,
        _ => Assignments::ConfigStyle,
    };
    redact(output, Redaction { assignments, phone_numbers: PhoneNumbers::Mask }).into_owned()
}

impl Tool for Terminal {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a Call, context: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(self.execute(call, context))
    }

    fn manner(&self, _: &Map<String, Value>) -> Manner {
        Manner::default()
    }

    fn notice(&self, task: &TaskId, occasion: Occasion<'_>) {
        match occasion {
            Occasion::Ended => {
                self.shells.close(task);
                self.approvals.forget(task);
            }
            Occasion::Delegated(parent) => self.shells.delegate(task, parent),
            Occasion::Resumed(_) | Occasion::Compressed | Occasion::Calling(_) => {}
        }
    }

    fn abandon(&self, task: &TaskId) {
        self.processes.end_those_of(task);
    }
}

fn refuse_workdir(call: &Call) -> Option<Outcome> {
    let allowed = |c: char| c.is_alphanumeric() || "/\\:_-.~ +@=,".contains(c);
    let wrong = text(&call.arguments, "workdir")?.chars().find(|c| !allowed(*c))?;
    let message = format!("BLOCKED: `workdir` has the character {wrong:?}; give a plain path");
    Some(stopped("blocked", &message))
}

/// A path as it is meant elsewhere, where the task is in `directory`.
fn below(directory: &str, given: &str) -> String {
    if given.starts_with(['/', '~']) { given.to_owned() } else { format!("{directory}/{given}") }
}

fn not_entered(closed: &Closed) -> Outcome {
    match closed {
        Closed::Disabled(reason) => stopped("disabled", &format!("Terminal tool disabled: {reason}")),
        Closed::Interrupted => {
            let outcome = stopped("interrupted", "[Command interrupted before it was started]");
            Outcome { status: OutcomeStatus::Cancelled, ..outcome }
        }
    }
}

/// An answer in the shape of a result, for a command that was not run.
fn stopped(status: &str, message: &str) -> Outcome {
    answer::failed(&json!({"output": "", "exit_code": -1, "error": message, "status": status}))
}
