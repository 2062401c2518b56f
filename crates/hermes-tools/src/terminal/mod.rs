//! `terminal`: a shell command, now or in the background.
//!
//! Holds the order of its guards and the shape of its answer. How commands run is `hermes-exec`'s, what is dangerous
//! `hermes-guard`'s.

pub(crate) mod approval;
mod meaning;
mod shells;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{Local, Screen, strip_ansi};
use hermes_guard::{Assignments, PhoneNumbers, Places, Redaction, redact};
use hermes_types::{
    BoxFuture, Call, Clock, Command, Environment, Finished, Manner, Occasion, Outcome, OutcomeStatus,
    RunError, TaskId, Tool, ToolContext, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{missing, number, spec, text};
use crate::checkpoint::{Checkpoints, is_destructive};
use crate::file::Secrets;
use crate::off_thread::off_thread;
use crate::process::{Processes, Start};
use approval::{Approvals, Decision};
pub use shells::Shells;

/// What a command may need at most while somebody waits for it.
const LONGEST_FOREGROUND: u64 = 600;
const SHORTEST_INTERVAL: usize = 30;
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
        Self { spec, options, shells, processes, approvals, checkpoints: None, clock }
    }

    /// Takes a snapshot of a folder before a command that may destroy something in it.
    #[must_use]
    pub fn with_checkpoints(self, checkpoints: Option<Arc<Checkpoints>>) -> Self {
        Self { checkpoints, ..self }
    }

    async fn execute(&self, call: &Call, context: ToolContext<'_>) -> Outcome {
        let Some(command) = text(&call.arguments, "command") else { return missing("terminal", "command") };
        let asked = AskedFor::read(&call.arguments, &self.options);
        if !asked.background && asked.timeout.as_secs() > LONGEST_FOREGROUND {
            return stopped(
                "error",
                &format!(
                    "a command that is waited for may take at most {LONGEST_FOREGROUND} s; use background: true for longer ones"
                ),
            );
        }
        let workdir = match self.workdir(call) {
            Ok(workdir) => workdir,
            Err(refusal) => return refusal,
        };
        let (home, hermes) =
            (self.options.user_home.to_string_lossy(), self.options.hermes_home.to_string_lossy());
        let places = Places { home: Some(&home), hermes_home: Some(&hermes) };
        let approval = match self.approvals.decide(command, &call.task, places, context).await {
            Decision::Run => None,
            Decision::Agreed(what) => Some(what),
            Decision::Blocked(message) => return stopped("blocked", &message),
        };
        let local = self.shells.of(&call.task);
        self.keep_snapshot(call, command, workdir.clone()).await;
        if asked.background {
            return self.start(call, command, &local, workdir, &asked).await;
        }
        let outcome = self.run_now(command, &local, workdir, &asked, approval, context).await;
        self.shells.follow(&call.task, &local);
        outcome
    }

    fn workdir(&self, call: &Call) -> Result<Option<PathBuf>, Outcome> {
        let Some(given) = text(&call.arguments, "workdir") else { return Ok(None) };
        let allowed = |c: char| c.is_alphanumeric() || "/\\:_-.~ +@=,".contains(c);
        if let Some(wrong) = given.chars().find(|c| !allowed(*c)) {
            let message = format!("BLOCKED: `workdir` has the character {wrong:?}; give a plain path");
            return Err(stopped("blocked", &message));
        }
        let folder = self.shells.resolve(&call.task, given, &self.options.user_home);
        if folder.is_dir() {
            Ok(Some(folder))
        } else {
            Err(stopped("error", &format!("`workdir` {} is not a folder", folder.display())))
        }
    }

    async fn keep_snapshot(&self, call: &Call, command: &str, workdir: Option<PathBuf>) {
        let Some(checkpoints) = self.checkpoints.clone().filter(|_| is_destructive(command)) else { return };
        let folder = workdir.unwrap_or_else(|| self.shells.folder(&call.task));
        let (turn, command) = (call.turn.clone(), command.to_owned());
        // A snapshot that fails never keeps the command from running.
        let _ = off_thread("checkpoint", move || checkpoints.before_command(&turn, &folder, &command)).await;
    }

    async fn run_now(
        &self,
        command: &str,
        local: &Local,
        workdir: Option<PathBuf>,
        asked: &AskedFor,
        approval: Option<String>,
        context: ToolContext<'_>,
    ) -> Outcome {
        let limit = asked.timeout.min(context.deadline.remaining(&*self.clock));
        let request = Command { shell: command, directory: workdir.as_deref(), stdin: None, limit };
        let Finished { output, exit_code } = match self.try_running(local, request, context).await {
            Ok(finished) => finished,
            Err(error) => return stopped("error", &format!("Command execution failed: {error}")),
        };
        let output = self.readable(command, output.trim_end_matches('\n'));
        let mut result = json!({"output": output.trim(), "exit_code": exit_code, "error": null});
        if let Some(fields) = result.as_object_mut() {
            if let Some(meaning) = meaning::meaning(command, exit_code) {
                fields.insert("exit_code_meaning".to_owned(), json!(meaning));
            }
            if let Some(what) = approval {
                fields.insert("approval".to_owned(), json!(format!("approved by the user: {what}")));
            }
        }
        let status =
            if context.cancel.is_cancelled() { OutcomeStatus::Cancelled } else { OutcomeStatus::Done };
        Outcome { status, ..answer::done(&result) }
    }

    /// Starting a process may fail for a moment when the machine is full; a command that ran is never repeated.
    async fn try_running(
        &self,
        local: &Local,
        request: Command<'_>,
        context: ToolContext<'_>,
    ) -> Result<Finished, RunError> {
        for pause in PAUSES {
            match local.run(request, context.cancel).await {
                Err(RunError::Unavailable(reason)) => {
                    tracing::warn!(%reason, "a command could not be started");
                }
                done => return done,
            }
            tokio::select! {
                () = self.clock.sleep(Duration::from_secs(pause)) => {}
                () = context.cancel.cancelled() => break,
            }
        }
        local.run(request, context.cancel).await
    }

    async fn start(
        &self,
        call: &Call,
        command: &str,
        local: &Local,
        workdir: Option<PathBuf>,
        asked: &AskedFor,
    ) -> Outcome {
        let screen = if asked.pty { Screen::Terminal } else { Screen::None };
        let started = local.start(command, workdir.as_deref(), screen, self.processes.owner()).await;
        let process = match started {
            Ok(process) => process,
            Err(error) => return stopped("error", &format!("Command execution failed: {error}")),
        };
        let pid = process.pid();
        let interval = asked.interval.map(|(_, interval)| interval);
        let start = Start {
            command: command.to_owned(),
            task: call.task.clone(),
            session: call.session.clone(),
            interval,
        };
        let id = self.processes.add(process, start);
        let mut result = json!({
            "output": "Background process started", "session_id": id, "pid": pid, "exit_code": 0, "error": null,
        });
        if let (Some(fields), Some((given, used))) = (result.as_object_mut(), asked.interval)
            && given != used
        {
            fields
                .insert("check_interval_note".to_owned(), json!(format!("raised from {given} to {used} s")));
        }
        answer::done(&result)
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
        if let Occasion::Ended = occasion {
            self.shells.close(task);
            self.approvals.forget(task);
        }
    }
}

/// The arguments, read once.
struct AskedFor {
    background: bool,
    pty: bool,
    timeout: Duration,
    /// As given, and as it is used.
    interval: Option<(usize, usize)>,
}

impl AskedFor {
    fn read(arguments: &Map<String, Value>, options: &TerminalOptions) -> Self {
        let flag = |name: &str| match arguments.get(name) {
            Some(Value::Bool(given)) => *given,
            Some(Value::String(given)) => matches!(given.to_lowercase().as_str(), "true" | "1" | "yes"),
            _ => false,
        };
        let default = usize::try_from(options.timeout.as_secs()).unwrap_or(usize::MAX);
        let seconds = number(arguments, "timeout", default, 1..=usize::MAX);
        let interval = arguments.get("check_interval").filter(|given| !given.is_null()).map(|_| {
            let given = number(arguments, "check_interval", SHORTEST_INTERVAL, 0..=usize::MAX);
            (given, given.max(SHORTEST_INTERVAL))
        });
        Self {
            background: flag("background"),
            pty: flag("pty"),
            timeout: Duration::from_secs(seconds as u64),
            interval,
        }
    }
}

/// An answer in the shape of a result, for a command that was not run.
fn stopped(status: &str, message: &str) -> Outcome {
    answer::failed(&json!({"output": "", "exit_code": -1, "error": message, "status": status}))
}
