//! Runs `hooks/<name>`: the user's programs that receive events of the gateway.
//!
//! A hook is `handler.py`, for which one worker process is started with its first event, or an executable `handler`, which
//! is run for each event. A failing hook is logged and does not affect the others.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Env;
use hermes_exec::{LineProcess, Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_gateway::EventObserver;
use hermes_task::TaskGroup;
use hermes_text::{head, single_line};
use hermes_types::{Cancel, Clock};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::child_variables;

const RUNNER: &str = include_str!("hook_runner.py");
const LIMIT: Duration = Duration::from_secs(30);
/// Limits the events queued for a slow hook; the oldest are dropped.
const MAX_WAITING_EVENTS: usize = 1000;

/// A hook as its folder describes it.
#[derive(Debug, Clone)]
struct HookScript {
    name: String,
    folder: PathBuf,
    events: Vec<String>,
    kind: HookKind,
}

/// Says what a hook consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookKind {
    /// `handler.py`.
    Python,
    /// An executable `handler`, in any language.
    Program,
}

impl HookScript {
    /// Tells whether the hook listens to this event, by its name or its prefix.
    fn wants(&self, event: &str) -> bool {
        let family = event.split_once(':').map(|(family, _)| format!("{family}:*"));
        self.events.iter().any(|wanted| wanted == event || Some(wanted) == family.as_ref())
    }
}

/// All hooks of a home.
pub(crate) struct HookScripts {
    events: Option<UnboundedSender<(String, Value)>>,
}

impl HookScripts {
    /// Reads the folders in the order of their names. Starts nothing if there are no hooks.
    pub(crate) fn start(home: &Path, env: &Env, clock: Arc<dyn Clock>, tasks: &TaskGroup) -> Self {
        let mut hooks = read(&home.join("hooks"));
        let programs = ProgramRunner::new(child_variables(env, &[]), clock.clone());
        if hooks.iter().any(|hook| hook.kind == HookKind::Python) && programs.find("python3").is_none() {
            tracing::warn!("there are hooks in Python, but no python3 to run them; they are left out");
            hooks.retain(|hook| hook.kind == HookKind::Program);
        }
        if hooks.is_empty() {
            return Self { events: None };
        }
        let (events, received) = unbounded_channel();
        let staff: Vec<HookWorker> =
            hooks.into_iter().map(|hook| HookWorker { hook, worker: None }).collect();
        drop(tasks.spawn("hooks", run_hooks(staff, received, programs, clock)));
        Self { events: Some(events) }
    }
}

impl EventObserver for HookScripts {
    fn emit(&self, event: &str, context: Value) {
        if let Some(events) = &self.events {
            // There is no receiver any more when the gateway ends.
            let _ = events.send((event.to_owned(), context));
        }
    }
}

struct HookWorker {
    hook: HookScript,
    worker: Option<LineProcess>,
}

async fn run_hooks(
    mut staff: Vec<HookWorker>,
    mut received: UnboundedReceiver<(String, Value)>,
    programs: ProgramRunner,
    clock: Arc<dyn Clock>,
) {
    let mut waiting = VecDeque::new();
    while let Some(event) = received.recv().await {
        waiting.push_back(event);
        while let Ok(event) = received.try_recv() {
            waiting.push_back(event);
        }
        while waiting.len() > MAX_WAITING_EVENTS {
            waiting.pop_front();
        }
        while let Some((event, context)) = waiting.pop_front() {
            for running in staff.iter_mut().filter(|running| running.hook.wants(&event)) {
                running.send_event(&event, &context, &programs, &*clock).await;
            }
        }
    }
}

impl HookWorker {
    async fn send_event(
        &mut self,
        event: &str,
        context: &Value,
        programs: &ProgramRunner,
        clock: &dyn Clock,
    ) {
        if self.hook.kind == HookKind::Program {
            return self.hook.run_program(event, context, programs).await;
        }
        let line = json!({"event": event, "context": context}).to_string();
        let name = self.hook.name.clone();
        let worker = match &mut self.worker {
            Some(worker) => worker,
            None => match self.hook.start(programs).await {
                Ok(worker) => self.worker.insert(worker),
                Err(error) => return tracing::warn!(hook = name, %error, "a hook could not be started"),
            },
        };
        match worker.ask(&line, LIMIT, clock).await {
            Ok(answer) if answer == "ok" => {}
            Ok(answer) => tracing::warn!(hook = name, event, "a hook failed: {answer}"),
            Err(error) => {
                tracing::warn!(hook = name, event, %error, "a hook does not respond; it is restarted at the next event");
                self.worker = None;
            }
        }
    }
}

impl HookScript {
    /// Runs the program of the hook once: the event is its argument, the context its input.
    async fn run_program(&self, event: &str, context: &Value, programs: &ProgramRunner) {
        let program = self.folder.join("handler");
        let program = Program {
            name: &program.to_string_lossy(),
            arguments: vec![event.into()],
            directory: &self.folder,
            limit: LIMIT,
            stderr: StderrMode::Merge,
        };
        let input = context.to_string();
        let name = &self.name;
        match programs.output_for(program, Some(input.as_bytes()), &Cancel::new()).await {
            Ok((_, ProgramExit::Exited(0))) => {}
            Ok((output, ProgramExit::Exited(code))) => {
                let said = single_line(head(output.trim(), 400));
                tracing::warn!(hook = name, event, "a hook ended with {code}: {said}");
            }
            Ok((_, ProgramExit::TimedOut | ProgramExit::Cancelled)) => {
                tracing::warn!(hook = name, event, "a hook did not end within {} s", LIMIT.as_secs());
            }
            Err(error) => tracing::warn!(hook = name, event, %error, "a hook could not be started"),
        }
    }

    async fn start(&self, programs: &ProgramRunner) -> Result<LineProcess, hermes_types::RunError> {
        let handler = self.folder.join("handler.py");
        let arguments: Vec<OsString> =
            vec!["-u".into(), "-c".into(), RUNNER.into(), handler.into_os_string()];
        let program = Program {
            name: "python3",
            arguments,
            directory: &self.folder,
            limit: LIMIT,
            stderr: StderrMode::Discard,
        };
        programs.worker(program).await
    }
}

/// Reads the folders that describe a hook; others are skipped with a log entry.
fn read(folder: &Path) -> Vec<HookScript> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders.into_iter().filter(|folder| folder.is_dir()).filter_map(|folder| read_one(&folder)).collect()
}

fn read_one(folder: &Path) -> Option<HookScript> {
    let file = folder.join("HOOK.yaml");
    let text = std::fs::read_to_string(&file).ok()?;
    let about = hermes_config::yaml::parse(&text);
    let about = match about {
        Ok(value) => value.to_json(),
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "this hook cannot be read; it is left out");
            return None;
        }
    };
    let events: Vec<String> = about
        .get("events")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|event| event.as_str().map(str::to_owned))
        .collect();
    let kind = if is_executable(&folder.join("handler")) {
        Some(HookKind::Program)
    } else {
        folder.join("handler.py").is_file().then_some(HookKind::Python)
    };
    let Some(kind) = kind.filter(|_| !events.is_empty()) else {
        tracing::warn!(
            folder = %folder.display(),
            "a hook needs `events` and a handler.py or an executable handler; it is left out"
        );
        return None;
    };
    let name = about.get("name").and_then(Value::as_str).map(str::to_owned);
    let name = name.unwrap_or_else(|| folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
    tracing::info!(hook = name, events = events.join(", "), "a hook was loaded");
    Some(HookScript { name, folder: folder.to_owned(), events, kind })
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
