//! `process`: manages background processes.

mod checkpoint;
mod registry;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use hermes_exec::strip_ansi;
use hermes_text::{head, tail};
use hermes_types::{
    BoxFuture, CallPolicy, Clock, Timestamp, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome,
    ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{any_text, number, spec, text};
use crate::file::SecretMasking;
use crate::session_search::LocalTime;
use crate::terminal::mask;
pub(crate) use registry::{ProcessEntry, ProcessHandle, ProcessStart};
pub use registry::{ProcessRegistry, RunningProcess};
pub(crate) use watch::{ExitNotice, WatchOptions};
pub use watch::{ProcessNotice, ProcessNoticeKind, ProcessNoticeSink, ProcessNotificationLevel};

const ACTIONS: &str = "list, poll, log, wait, kill, write, submit, close";
const PREVIEW: usize = 200;
const POLLED: usize = 1000;
const WAITED: usize = 2000;
const LOG_LINES: usize = 200;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "process",
    toolset: "terminal",
    summary: "Manages background processes: list, read, write, wait, end",
    icon: "⚙️",
    verb: "proc",
    preview_arguments: &["action"],
    ..ToolDescriptor::unknown("")
};

/// The `process` tool.
#[derive(Debug)]
pub struct ProcessTool {
    spec: ToolSpec,
    processes: ProcessRegistry,
    /// The maximum time of a `wait`: `terminal.timeout`.
    max_wait: Duration,
    secrets: SecretMasking,
    clock: Arc<dyn Clock>,
    local: LocalTime,
}

impl ProcessTool {
    pub fn new(
        processes: ProcessRegistry,
        max_wait: Duration,
        secrets: SecretMasking,
        clock: Arc<dyn Clock>,
        local: LocalTime,
    ) -> Self {
        let spec =
            spec(&DESCRIPTOR, include_str!("../texts/process.md"), include_str!("../texts/process.json"));
        Self { spec, processes, max_wait, secrets, clock, local }
    }

    async fn execute(&self, call: &ToolInvocation, context: ToolContext<'_>) -> ToolOutcome {
        let arguments = &call.arguments;
        let action = text(arguments, "action").unwrap_or_default();
        if action == "list" {
            let listed: Vec<Value> = self
                .processes
                .visible_to(&call.task, &call.session)
                .iter()
                .map(|entry| self.listed(entry))
                .collect();
            return answer::success_json(&json!({ "processes": listed }));
        }
        if !ACTIONS.split(", ").any(|known| known == action) {
            return ToolOutcome::failed(format!("Unknown process action: {action}. Use one of: {ACTIONS}"));
        }
        let Some(id) = session_id(arguments) else {
            return ToolOutcome::failed(format!("session_id is required for {action}"));
        };
        let Some(entry) = self.processes.find(&id) else {
            return answer::failure_json(
                &json!({"status": "not_found", "error": format!("No process with ID {id}")}),
            );
        };
        match action {
            "poll" => answer::success_json(&self.polled(&entry)),
            "log" => self.log(&entry, arguments),
            "wait" => self.wait(&entry, arguments, context).await,
            "kill" => self.kill(&entry).await,
            "write" | "submit" => {
                let mut data = any_text(arguments, "data").unwrap_or_default().to_owned();
                if action == "submit" {
                    data.push('\n');
                }
                input(&entry, Some(&data)).await
            }
            _ => input(&entry, None).await,
        }
    }

    fn listed(&self, entry: &ProcessEntry) -> Value {
        let local = (self.local)(entry.started);
        let started = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            local.year, local.month, local.day, local.hour, local.minute, local.second
        );
        let mut value = json!({
            "session_id": entry.id,
            "command": head(&self.masked(entry, &entry.command), PREVIEW),
            "cwd": entry.folder,
            "pid": entry.pid,
            "started_at": started,
            "uptime_seconds": self.uptime(entry.started),
            "status": entry.status(),
            "output_preview": self.output(entry, PREVIEW),
        });
        ending(&mut value, entry);
        value
    }

    fn polled(&self, entry: &ProcessEntry) -> Value {
        let mut value = json!({
            "session_id": entry.id,
            "command": self.masked(entry, &entry.command),
            "status": entry.status(),
            "pid": entry.pid,
            "uptime_seconds": self.uptime(entry.started),
            "output_preview": self.output(entry, POLLED),
        });
        ending(&mut value, entry);
        value
    }

    fn log(&self, entry: &ProcessEntry, arguments: &Map<String, Value>) -> ToolOutcome {
        let offset = number(arguments, "offset", 0, 0..=usize::MAX);
        let limit = number(arguments, "limit", LOG_LINES, 1..=usize::MAX);
        let output = self.output(entry, usize::MAX);
        let lines: Vec<&str> = output.lines().collect();
        let from = if offset == 0 { lines.len().saturating_sub(limit) } else { offset.min(lines.len()) };
        let shown: Vec<&str> = lines.iter().skip(from).take(limit).copied().collect();
        answer::success_json(&json!({
            "session_id": entry.id,
            "status": entry.status(),
            "output": shown.join("\n"),
            "total_lines": lines.len(),
            "showing": format!("{} lines", shown.len()),
        }))
    }

    async fn wait(
        &self,
        entry: &ProcessEntry,
        arguments: &Map<String, Value>,
        context: ToolContext<'_>,
    ) -> ToolOutcome {
        let most = usize::try_from(self.max_wait.as_secs()).unwrap_or(usize::MAX).max(1);
        let asked = number(arguments, "timeout", most, 1..=usize::MAX);
        let used = asked.min(most);
        let limit = Duration::from_secs(used as u64).min(context.deadline.remaining(&*self.clock));
        let clamped = (asked > most).then(|| format!("asked for {asked} s; waited at most {most} s"));
        let mut result = tokio::select! {
            biased;
            code = entry.ended(&*self.clock) => {
                json!({"status": "exited", "exit_code": code, "output": self.output(entry, WAITED)})
            }
            () = context.cancel.cancelled() => json!({
                "status": "interrupted", "output": self.output(entry, POLLED),
                "note": "The wait was interrupted; the process goes on.",
            }),
            () = self.clock.sleep(limit) => json!({
                "status": "timeout", "output": self.output(entry, POLLED),
                "timeout_note": clamped.clone().unwrap_or_else(|| format!("it still runs after {used} s")),
            }),
        };
        if let (Some(note), Some(fields)) = (clamped, result.as_object_mut()) {
            fields.insert("timeout_note".to_owned(), json!(note));
        }
        answer::success_json(&result)
    }

    async fn kill(&self, entry: &ProcessEntry) -> ToolOutcome {
        if let Some(code) = entry.exit_code() {
            return answer::success_json(&json!({"status": "already_exited", "exit_code": code}));
        }
        entry.kill(&*self.clock).await;
        self.processes.save();
        answer::success_json(&json!({"status": "killed", "session_id": entry.id}))
    }

    fn output(&self, entry: &ProcessEntry, chars: usize) -> String {
        let output = entry.output();
        let plain = strip_ansi(&output);
        tail(&self.masked(entry, &plain), chars).to_owned()
    }

    fn masked(&self, entry: &ProcessEntry, text: &str) -> String {
        match self.secrets {
            SecretMasking::Mask => mask(&entry.command, text),
            SecretMasking::Show => text.to_owned(),
        }
    }

    fn uptime(&self, started: Timestamp) -> u64 {
        self.clock.now().since(started).as_secs()
    }
}

impl Tool for ProcessTool {
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
}

fn ending(value: &mut Value, entry: &ProcessEntry) {
    let Some(fields) = value.as_object_mut() else { return };
    if let Some(code) = entry.exit_code() {
        fields.insert("exit_code".to_owned(), json!(code));
    }
    if entry.is_detached() {
        fields.insert("detached".to_owned(), json!(true));
        fields.insert(
            "note".to_owned(),
            json!("It was started by an earlier run; its output is not available."),
        );
    }
}

/// Reads the session id. A number is accepted because models sometimes write one.
fn session_id(arguments: &Map<String, Value>) -> Option<String> {
    match arguments.get("session_id")? {
        Value::String(id) if !id.trim().is_empty() => Some(id.trim().to_owned()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Writes to the process, or closes its input.
async fn input(entry: &ProcessEntry, data: Option<&str>) -> ToolOutcome {
    if let Some(code) = entry.exit_code() {
        return answer::success_json(&json!({"status": "already_exited", "exit_code": code}));
    }
    let process = match entry.process() {
        Ok(process) => process,
        Err(reason) => return answer::failure_json(&json!({"status": "error", "error": reason})),
    };
    let done = match data {
        Some(data) => process
            .write(data.as_bytes())
            .await
            .map(|()| json!({"status": "ok", "bytes_written": data.len()})),
        None => process.close_input().await.map(|()| json!({"status": "ok", "message": "input closed"})),
    };
    match done {
        Ok(value) => answer::success_json(&value),
        Err(error) => answer::failure_json(&json!({"status": "error", "error": error.to_string()})),
    }
}
