//! `delegate_task`: delegates tasks to subagents and returns their final reports.
//!
//! The agent crate implements subagents. This tool parses the request and returns the reports in the order of the
//! tasks.

use futures_util::future::join_all;
use hermes_types::{
    BoxFuture, OutcomeStatus, SubagentOutcome, SubagentReport, SubagentSpawner, SubagentTask, Tool,
    ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec, ToolUser,
};
use serde_json::{Map, Value, json};

use crate::answer::{failure_json, success_json};
use crate::argument::{number, spec, text};
use crate::registry::tools_of_sets;

const MOST_TASKS: usize = 3;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "delegate_task",
    toolset: "delegation",
    summary: "Starts up to three subagents, each with its own conversation; only their summaries are returned",
    icon: "🔀",
    verb: "delegate",
    preview_arguments: &["goal"],
    withheld_from: &[ToolUser::Subagent],
    max_calls_per_answer: Some(3),
    ..ToolDescriptor::unknown("")
};

/// The `delegate_task` tool.
#[derive(Debug)]
pub struct DelegateTool {
    spec: ToolSpec,
    iterations: usize,
}

impl DelegateTool {
    /// Creates the tool. `iterations` is the limit of a subagent if the call gives none.
    pub fn new(iterations: usize) -> Self {
        let spec = spec(&DESCRIPTOR, include_str!("texts/delegate.md"), include_str!("texts/delegate.json"));
        Self { spec, iterations }
    }

    /// Parses the tasks of a call, or returns why there are none.
    fn jobs(&self, arguments: &Map<String, Value>) -> Result<Vec<SubagentTask>, String> {
        let shared = names(arguments.get("toolsets"));
        let steps = number(arguments, "max_iterations", self.iterations, 1..=1_000);
        let tasks = arguments.get("tasks").and_then(Value::as_array).filter(|tasks| !tasks.is_empty());
        let Some(tasks) = tasks else {
            let goal = text(arguments, "goal")
                .ok_or_else(|| "Provide either 'goal' (single task) or 'tasks' (batch).".to_owned())?;
            let context = text(arguments, "context").unwrap_or_default();
            return Ok(vec![job(goal, context, &shared, steps, "1/1")]);
        };
        let tasks: Vec<&Value> = tasks.iter().take(MOST_TASKS).collect();
        let count = tasks.len();
        tasks
            .into_iter()
            .enumerate()
            .map(|(at, task)| {
                let field = |name: &str| task.get(name).and_then(Value::as_str).unwrap_or_default().trim();
                if field("goal").is_empty() {
                    return Err(format!("Task {at} is missing a 'goal'."));
                }
                let own = names(task.get("toolsets"));
                let toolsets = if own.is_empty() { shared.clone() } else { own };
                Ok(job(field("goal"), field("context"), &toolsets, steps, &format!("{}/{count}", at + 1)))
            })
            .collect()
    }
}

impl Tool for DelegateTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(spawn) = context.spawn else {
                return ToolOutcome::failed(
                    "delegate_task is not available here: subagents cannot be started.",
                );
            };
            match self.jobs(&call.arguments) {
                Ok(jobs) => report_outcome(&run_all(jobs, spawn).await),
                Err(words) => ToolOutcome::failed(words),
            }
        })
    }
}

fn run_all(jobs: Vec<SubagentTask>, spawn: &dyn SubagentSpawner) -> BoxFuture<'_, Vec<SubagentReport>> {
    let running: Vec<BoxFuture<'_, SubagentReport>> = jobs.into_iter().map(|job| spawn.run(job)).collect();
    Box::pin(join_all(running))
}

fn job(goal: &str, context: &str, toolsets: &[String], steps: usize, label: &str) -> SubagentTask {
    SubagentTask {
        goal: goal.trim().to_owned(),
        context: context.to_owned(),
        tools: (!toolsets.is_empty()).then(|| tools_of_sets(toolsets)),
        max_iterations: u32::try_from(steps).unwrap_or(u32::MAX),
        label: label.to_owned(),
    }
}

fn names(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str)
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

fn report_outcome(reports: &[SubagentReport]) -> ToolOutcome {
    let longest = reports.iter().map(|report| report.duration).max().unwrap_or_default();
    let results: Vec<Value> = reports.iter().enumerate().map(|(at, report)| entry(at, report)).collect();
    let answer = json!({"results": results, "total_duration_seconds": seconds(longest)});
    // The call succeeds if at least one subagent returned a summary.
    if reports.iter().any(|report| report.summary.is_some()) {
        success_json(&answer)
    } else {
        failure_json(&answer)
    }
}

fn entry(at: usize, report: &SubagentReport) -> Value {
    let (status, exit) = match report.outcome {
        SubagentOutcome::Completed => ("completed", "completed"),
        SubagentOutcome::IterationLimit => ("completed", "max_iterations"),
        SubagentOutcome::Interrupted => ("interrupted", "interrupted"),
        SubagentOutcome::Failed if report.api_calls == 0 && report.summary.is_none() => {
            ("error", "completed")
        }
        SubagentOutcome::Failed => ("failed", "completed"),
    };
    let trace: Vec<Value> = report
        .tool_calls
        .iter()
        .map(|call| {
            json!({
                "tool": call.tool,
                "args_bytes": call.argument_bytes,
                "result_bytes": call.result_bytes,
                "status": if call.status == OutcomeStatus::Done { "ok" } else { "error" },
            })
        })
        .collect();
    let mut entry = json!({
        "task_index": at,
        "status": status,
        "summary": report.summary,
        "api_calls": report.api_calls,
        "duration_seconds": seconds(report.duration),
        "model": report.model,
        "exit_reason": exit,
        "tokens": {"input": report.usage.prompt(), "output": report.usage.output},
        "tool_trace": trace,
        "session_id": report.session.as_str(),
    });
    if let Some(error) = &report.error {
        entry["error"] = json!(error);
    }
    entry
}

fn seconds(span: std::time::Duration) -> f64 {
    (span.as_secs_f64() * 100.0).round() / 100.0
}
