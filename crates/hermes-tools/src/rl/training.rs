//! A training run: three programs, started one after the other, watched, and ended together.
//!
//! Invariant: whatever happens, no program of a run goes on after the run has ended; a run that is told to stop while it starts starts
//! no further program.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_exec::{PipedLine, PipedProcess, Program, ProgramRunner, StderrMode};
use hermes_task::{Task, spawn_cooperative};
use hermes_types::{Cancel, Clock};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The pauses after each start.
const API_WAIT: Duration = Duration::from_secs(5);
const TRAINER_WAIT: Duration = Duration::from_secs(30);
const INFERENCE_WAIT: Duration = Duration::from_secs(90);
const ENVIRONMENT_WAIT: Duration = Duration::from_secs(10);
const LONGEST_LINE: usize = 1024 * 1024;
const LONGEST_RUN: Duration = Duration::from_hours(24 * 365);

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrainingState {
    Starting,
    Running,
    Stopping,
    Stopped,
    Completed,
    Failed,
}

impl TrainingState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    pub(super) fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// The programs of a run, in the order in which they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrainingPart {
    Api,
    Trainer,
    Environment,
}

impl TrainingPart {
    const ALL: [Self; 3] = [Self::Api, Self::Trainer, Self::Environment];

    fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Trainer => "trainer",
            Self::Environment => "env",
        }
    }

    fn wait(self) -> Duration {
        match self {
            Self::Api => API_WAIT,
            Self::Trainer => TRAINER_WAIT,
            Self::Environment => ENVIRONMENT_WAIT,
        }
    }
}

/// What a run is made of.
#[derive(Debug, Clone)]
pub(super) struct TrainingPlan {
    pub(super) id: String,
    pub(super) environment: String,
    pub(super) environment_file: PathBuf,
    pub(super) config: PathBuf,
    pub(super) checkout: PathBuf,
    pub(super) python: String,
    pub(super) logs: PathBuf,
    pub(super) wandb_project: String,
    pub(super) wandb_run: String,
}

impl TrainingPlan {
    fn log(&self, part: TrainingPart) -> PathBuf {
        self.logs.join(format!("{}_{}.log", part.name(), self.id))
    }

    pub(super) fn logs_json(&self) -> Value {
        let logs = TrainingPart::ALL
            .map(|part| (part.name().to_owned(), json!(self.log(part).display().to_string())));
        Value::Object(logs.into_iter().collect())
    }

    /// Returns the words of a program's command line.
    fn command(&self, part: TrainingPart) -> (String, Vec<OsString>) {
        let config: [OsString; 2] = ["--config".into(), self.config.clone().into()];
        match part {
            TrainingPart::Api => {
                // The one beside the interpreter belongs to the same installation.
                let beside = Path::new(&self.python).with_file_name("run-api");
                let name = if beside.is_file() { beside.display().to_string() } else { "run-api".to_owned() };
                (name, Vec::new())
            }
            TrainingPart::Trainer => {
                let script = self.checkout.join("launch_training.py").into();
                (self.python.clone(), [vec![script], config.to_vec()].concat())
            }
            TrainingPart::Environment => {
                let script = self.environment_file.clone().into();
                (self.python.clone(), [vec![script, "serve".into()], config.to_vec()].concat())
            }
        }
    }
}

#[derive(Debug)]
struct Progress {
    state: TrainingState,
    error: Option<String>,
    started: Option<Duration>,
}

/// The exit codes of the programs that have ended.
type ExitCodes = Arc<Mutex<[Option<i32>; 3]>>;

/// A run.
#[derive(Debug)]
pub(super) struct TrainingRun {
    pub(super) plan: TrainingPlan,
    progress: Mutex<Progress>,
    exits: ExitCodes,
    /// Told when a program has ended.
    changed: Arc<Notify>,
    stop: Cancel,
    task: Mutex<Option<Task<()>>>,
    clock: Arc<dyn Clock>,
}

/// A program of a run whose output goes into its log.
struct RunningPart {
    ended: Task<()>,
    stop: Cancel,
}

impl TrainingRun {
    /// Begins a run in the background.
    pub(super) fn start(
        plan: TrainingPlan,
        programs: ProgramRunner,
        clock: Arc<dyn Clock>,
        owner: &Cancel,
    ) -> Arc<Self> {
        let run = Arc::new(Self {
            plan,
            progress: Mutex::new(Progress { state: TrainingState::Starting, error: None, started: None }),
            exits: ExitCodes::default(),
            changed: Arc::default(),
            stop: owner.child_token(),
            task: Mutex::default(),
            clock,
        });
        let own = run.clone();
        let task = spawn_cooperative(format!("training run {}", run.plan.id), owner, |_| async move {
            own.drive(&programs).await;
        });
        *lock(&run.task) = Some(task);
        run
    }

    pub(super) fn state(&self) -> TrainingState {
        lock(&self.progress).state
    }

    /// Returns what is known about the run.
    pub(super) fn report(&self) -> Value {
        let progress = lock(&self.progress);
        let began = progress.started;
        let minutes =
            began.map_or(0.0, |began| self.clock.monotonic().saturating_sub(began).as_secs_f64() / 60.0);
        let processes = TrainingPart::ALL.iter().zip(*lock(&self.exits)).map(|(part, exit)| {
            let text = exit.map_or_else(|| "running".to_owned(), |code| format!("exited ({code})"));
            (part.name().to_owned(), json!(text))
        });
        let mut report = json!({
            "run_id": self.plan.id,
            "status": progress.state.as_str(),
            "environment": self.plan.environment,
            "running_time_minutes": (minutes * 10.0).round() / 10.0,
            "processes": Value::Object(processes.collect()),
            "wandb_project": self.plan.wandb_project,
            "wandb_run_name": self.plan.wandb_run,
            "logs": self.plan.logs_json(),
        });
        if let Some(error) = &progress.error {
            report["error"] = json!(error);
        }
        report
    }

    /// Ends the run, and waits until everything has ended.
    pub(super) async fn end(&self) {
        {
            let mut progress = lock(&self.progress);
            if !progress.state.is_active() {
                return;
            }
            progress.state = TrainingState::Stopping;
        }
        self.stop.cancel();
        let task = lock(&self.task).take();
        if let Some(task) = task {
            // A panic in it was logged.
            let _ = task.await;
        }
    }

    async fn drive(&self, programs: &ProgramRunner) {
        let mut parts = Vec::new();
        let failure = self.run(programs, &mut parts).await.err();
        for running in parts.into_iter().rev() {
            running.stop.cancel();
            // A panic in it was logged.
            let _ = running.ended.await;
        }
        let mut progress = lock(&self.progress);
        match progress.state {
            TrainingState::Stopping => progress.state = TrainingState::Stopped,
            TrainingState::Starting | TrainingState::Running if self.stop.is_cancelled() => {
                progress.state = TrainingState::Stopped;
            }
            TrainingState::Starting | TrainingState::Running => {
                progress.state =
                    if failure.is_some() { TrainingState::Failed } else { TrainingState::Completed };
                progress.error = failure;
            }
            _ => {}
        }
    }

    /// Starts the programs and watches them. `Ok` when the environment has ended well, or the run was stopped.
    async fn run(&self, programs: &ProgramRunner, parts: &mut Vec<RunningPart>) -> Result<(), String> {
        for part in TrainingPart::ALL {
            if self.stop.is_cancelled() {
                return Ok(());
            }
            parts.push(self.start_part(part, programs).await?);
            if self.pause(part.wait()).await {
                return Ok(());
            }
            self.check(part)?;
            if part == TrainingPart::Trainer && self.pause(INFERENCE_WAIT).await {
                return Ok(());
            }
        }
        {
            let mut progress = lock(&self.progress);
            if progress.state == TrainingState::Starting {
                progress.state = TrainingState::Running;
                progress.started = Some(self.clock.monotonic());
            }
        }
        loop {
            if let Some(code) = self.exit_of(TrainingPart::Environment) {
                return if code == 0 {
                    Ok(())
                } else {
                    Err(format!("the environment ended with code {code}"))
                };
            }
            if let Some(code) = self.exit_of(TrainingPart::Trainer) {
                return if code == 0 { Ok(()) } else { Err(format!("the trainer ended with code {code}")) };
            }
            if let Some(code) = self.exit_of(TrainingPart::Api) {
                return Err(format!("the API server ended with code {code}"));
            }
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.stop.cancelled() => return Ok(()),
            }
        }
    }

    /// Waits. True when the run is to stop.
    async fn pause(&self, wait: Duration) -> bool {
        tokio::select! {
            () = self.clock.sleep(wait) => false,
            () = self.stop.cancelled() => true,
        }
    }

    fn check(&self, just: TrainingPart) -> Result<(), String> {
        match self.exit_of(just) {
            Some(code) => {
                let log = self.plan.log(just);
                Err(format!("{} ended with code {code}; see {}", just.name(), log.display()))
            }
            None => Ok(()),
        }
    }

    fn exit_of(&self, part: TrainingPart) -> Option<i32> {
        lock(&self.exits).get(part as usize).copied().flatten()
    }

    async fn start_part(&self, part: TrainingPart, programs: &ProgramRunner) -> Result<RunningPart, String> {
        let path = self.plan.log(part);
        let mut log = open_log(&path)?;
        let (name, arguments) = self.plan.command(part);
        let program = Program {
            name: &name,
            arguments,
            directory: &self.plan.checkout,
            limit: LONGEST_RUN,
            stderr: StderrMode::Merge,
        };
        let process = programs.piped(program, LONGEST_LINE).await;
        let process = process.map_err(|error| format!("{} was not started: {error}", part.name()))?;
        let (stop, clock) = (Cancel::new(), self.clock.clone());
        let (exits, changed) = (self.exits.clone(), self.changed.clone());
        let own = stop.clone();
        let ended =
            spawn_cooperative(format!("{} of a training run", part.name()), &Cancel::new(), |_| async move {
                let code = follow(process, &mut log, &own, &*clock).await;
                if let Some(slot) = lock(&exits).get_mut(part as usize) {
                    *slot = Some(code);
                }
                changed.notify_one();
            });
        Ok(RunningPart { ended, stop })
    }
}

/// The exit code of a program that was told to end.
const TERMINATED: i32 = -15;

/// Writes the output of a program into its log until it ends or is told to. Returns its exit code.
async fn follow(mut process: PipedProcess, log: &mut File, stop: &Cancel, clock: &dyn Clock) -> i32 {
    loop {
        let line = tokio::select! {
            line = process.next_line() => line,
            () = stop.cancelled() => {
                process.stop(Duration::ZERO, clock).await;
                return TERMINATED;
            }
        };
        let written = match line {
            Ok(Some(PipedLine::Output(line))) => writeln!(log, "{}", String::from_utf8_lossy(&line)),
            Ok(Some(PipedLine::Stderr(line))) => writeln!(log, "{line}"),
            Ok(None) | Err(_) => break,
        };
        if let Err(error) = written {
            tracing::warn!(%error, "a line of a training log was not written");
        }
    }
    let code = tokio::select! {
        code = process.wait() => Some(code.unwrap_or(-1)),
        () = stop.cancelled() => None,
    };
    if let Some(code) = code {
        return code;
    }
    process.stop(Duration::ZERO, clock).await;
    TERMINATED
}

pub(super) fn open_log(path: &Path) -> Result<File, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
