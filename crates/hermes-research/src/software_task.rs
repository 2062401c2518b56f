//! Software tasks with one tool: a small loop of its own, without the agent's prompt, and a line of training data for each task.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Calendar;
use hermes_text::JsonTree;
use hermes_types::{Cancel, Deadline, Message, ModelRequest, RawJson, SideModel, TaskId, ToolCall, ToolSpec};
use tokio::sync::Semaphore;

use crate::batch::{DatasetRow, RolloutAgents};
use crate::environment::RolloutTools;
use crate::error::Error;
use crate::trajectory::{ReasoningForm, TrajectoryTurn, iso_time, trajectory_in};
use hermes_types::Clock;

/// What ends a task when a command prints it.
const FINAL_OUTPUT: &str = "MINI_SWE_AGENT_FINAL_OUTPUT";
/// The limit of one request to the model.
const REQUEST_LIMIT: Duration = Duration::from_mins(5);
const SYSTEM: &str = include_str!("software_task.md");

/// The settings of all tasks of a run.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct SoftwareTaskRunner {
    pub agents: Arc<dyn RolloutAgents>,
    pub model: SideModel,
    /// The kind of place where commands run, for the record.
    pub env_type: String,
    /// The container image, where there are containers.
    pub image: Option<String>,
    pub cwd: Option<String>,
    pub max_iterations: usize,
    /// Seconds a command may take, where the model gives no number.
    pub timeout: u64,
    pub clock: Arc<dyn Clock>,
    pub calendar: Calendar,
}

/// What came of a task: its line, and whether the model ended it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftwareTaskResult {
    pub line: String,
    pub completed: bool,
    pub error: Option<String>,
}

/// Reads the tasks of a file: JSON with `prompt` or `task`, or plain text, one per line.
pub fn software_tasks(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tasks = lines.map(|line| {
        let value = JsonTree::parse(line).ok();
        let named = ["prompt", "task"].iter().find_map(|name| value.as_ref()?.get(name)?.as_str());
        named.map_or_else(|| line.to_owned(), str::to_owned)
    });
    tasks.collect()
}

impl SoftwareTaskRunner {
    /// Does one task. What goes wrong is part of its line.
    pub async fn run(&self, prompt: &str, cancel: &Cancel) -> SoftwareTaskResult {
        let task = TaskId::generate();
        let done = self.converse(prompt, &task, cancel).await;
        self.agents.release(&task);
        let now = self.clock.now();
        let metadata = JsonTree::object([
            ("model", self.model.name.as_str().into()),
            ("env_type", self.env_type.as_str().into()),
            ("timestamp", iso_time((self.calendar)(now), now).into()),
        ]);
        let (turns, completed, calls, error) = match done {
            Ok((turns, completed, calls)) => (turns, completed, calls, None),
            Err(error) => (Vec::new(), false, 0, Some(error.to_string())),
        };
        let mut line = JsonTree::object([
            ("conversations", JsonTree::Array(turns.iter().map(TrajectoryTurn::to_json).collect())),
            ("completed", completed.into()),
            ("api_calls", calls.into()),
            ("metadata", metadata),
        ]);
        if let Some(error) = &error {
            line.set("error", error.as_str().into());
        }
        SoftwareTaskResult { line: line.to_string(), completed, error }
    }

    async fn converse(
        &self,
        prompt: &str,
        task: &TaskId,
        cancel: &Cancel,
    ) -> Result<(Vec<TrajectoryTurn>, bool, usize), Error> {
        let row = DatasetRow {
            image: self.image.clone(),
            cwd: self.cwd.clone().filter(|_| self.image.is_some()),
            ..DatasetRow::default()
        };
        self.agents.prepare(task, &row, cancel).await.map_err(Error::Unusable)?;
        let agent = self.agents.agent(&["terminal"]).map_err(Error::Unusable)?;
        let permits = Arc::new(Semaphore::new(1));
        let tools =
            RolloutTools::new(task.clone(), agent.tools(), permits, self.clock.clone(), cancel.clone());
        if let Some(folder) = self.cwd.as_deref().filter(|_| self.image.is_none()) {
            let entered = tools.terminal(&format!("cd {}", crate::environment::quote(folder)), 10).await;
            if !entered.succeeded() {
                return Err(Error::Unusable(format!("--cwd {folder}: {}", entered.output)));
            }
        }
        let specs: Arc<[ToolSpec]> = Arc::new([terminal_spec()]);
        let mut messages = vec![Message::user(prompt)];
        let (mut calls, mut completed) = (0, false);
        while calls < self.max_iterations && !completed {
            let request = ModelRequest {
                model: self.model.name.clone(),
                system: SYSTEM.trim_end().to_owned(),
                messages: messages.clone(),
                tools: specs.clone(),
                max_tokens: None,
                temperature: None,
                effort: None,
                session: None,
                deadline: Deadline::after(&*self.clock, REQUEST_LIMIT),
                cancel: cancel.clone(),
            };
            let answer = self.model.model.complete(&request, &mut |_| ()).await;
            let message = answer.map_err(|error| Error::Unusable(error.to_string()))?.message;
            calls += 1;
            let asked = message.tool_calls.clone();
            messages.push(message);
            completed = asked.is_empty();
            for call in &asked {
                let (result, is_final) = self.run_call(&tools, call).await;
                completed |= is_final;
                messages.push(Message::tool(call, result.to_string()));
            }
        }
        Ok((trajectory_in(ReasoningForm::Inline, prompt, &messages, &specs), completed, calls))
    }

    async fn run_call(&self, tools: &RolloutTools, call: &ToolCall) -> (JsonTree, bool) {
        let failed = |reason: &str| {
            let content = JsonTree::object([
                ("output", "".into()),
                ("exit_code", JsonTree::Number("-1".to_owned())),
                ("error", reason.into()),
            ]);
            (JsonTree::object([("content", content)]), false)
        };
        if call.name != "terminal" {
            return failed("the only tool is `terminal`");
        }
        let arguments = JsonTree::parse(&call.arguments).unwrap_or(JsonTree::Null);
        let Some(command) = arguments.get("command").and_then(JsonTree::as_str) else {
            return failed("`terminal` needs `command`, a text");
        };
        let seconds = arguments.get("timeout").and_then(JsonTree::as_u64).unwrap_or(self.timeout);
        let ran = tools.terminal(command, seconds.min(600)).await;
        let is_final = ran.output.contains(FINAL_OUTPUT);
        let content = JsonTree::object([
            ("output", ran.output.into()),
            ("exit_code", JsonTree::Number(ran.exit_code.to_string())),
            ("error", JsonTree::Null),
        ]);
        (JsonTree::object([("content", content)]), is_final)
    }
}

fn terminal_spec() -> ToolSpec {
    ToolSpec {
        name: "terminal".to_owned(),
        description:
            "Run a shell command and return its output and exit code. `cd` and `export` stay in effect."
                .to_owned(),
        parameters: RawJson::from_value(&serde_json::json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command"},
                "timeout": {"type": "integer", "description": "Most seconds to wait"},
            },
            "required": ["command"],
        })),
    }
}
