//! Tests of `delegate_task`: how a call is parsed into tasks, and how reports are returned.

use std::sync::Mutex;
use std::time::Duration;

use hermes_tools::DelegateTool;
use hermes_types::{
    BoxFuture, Cancel, Deadline, SubagentOutcome, SubagentReport, SubagentSpawner, SubagentTask, Tool,
    ToolContext, ToolInvocation, Usage,
};
use serde_json::{Value, json};

use super::support::{FixedClock, UnattendedUser};

/// A spawner that records each task and answers it with its goal.
#[derive(Default)]
struct Recorder(Mutex<Vec<SubagentTask>>);

impl SubagentSpawner for Recorder {
    fn run(&self, job: SubagentTask) -> BoxFuture<'_, SubagentReport> {
        let fails = job.goal.contains("fail");
        let summary = (!fails).then(|| format!("did {}", job.goal));
        self.0.lock().unwrap().push(job);
        Box::pin(std::future::ready(SubagentReport {
            session: "child".into(),
            outcome: if fails { SubagentOutcome::Failed } else { SubagentOutcome::Completed },
            summary,
            error: fails.then(|| "broken".to_owned()),
            api_calls: 1,
            duration: Duration::from_millis(1500),
            model: "m".into(),
            usage: Usage::default(),
            tool_calls: Vec::new(),
        }))
    }
}

fn call(arguments: &Value) -> (Value, Vec<SubagentTask>) {
    let recorder = Recorder::default();
    let tool = DelegateTool::new(25);
    let cancel = Cancel::new();
    let call = ToolInvocation {
        id: "c".into(),
        name: "delegate_task".into(),
        arguments: arguments.as_object().unwrap().clone(),
        session: "s".into(),
        turn: "t".into(),
        task: "k".into(),
    };
    let deadline = Deadline::after(&FixedClock, Duration::from_secs(1));
    let context = ToolContext {
        frontend: &UnattendedUser,
        cancel: &cancel,
        deadline,
        spawn: Some(&recorder),
        turn_model: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(tool.run(&call, context));
    (serde_json::from_str(&outcome.content).unwrap(), recorder.0.into_inner().unwrap())
}

#[test]
fn one_goal_is_one_child_with_the_tools_that_are_left() {
    let (answer, jobs) =
        call(&json!({"goal": "look", "context": "here", "toolsets": ["file"], "max_iterations": 7}));
    assert_eq!(jobs.len(), 1);
    assert_eq!(
        (jobs[0].goal.as_str(), jobs[0].context.as_str(), jobs[0].max_iterations),
        ("look", "here", 7)
    );
    let mut tools = jobs[0].tools.clone().unwrap();
    tools.sort();
    assert_eq!(tools, ["patch", "read_file", "search_files", "write_file"]);
    let result = &answer["results"][0];
    assert_eq!((&result["status"], &result["summary"]), (&json!("completed"), &json!("did look")));
    assert_eq!(answer["total_duration_seconds"], 1.5);
}

#[test]
fn several_tasks_come_back_in_their_order_and_one_failure_is_only_its_own() {
    let tasks = json!({"goal": "ignored", "toolsets": ["terminal"], "tasks": [
        {"goal": "one"}, {"goal": "fail", "toolsets": ["file"]}, {"goal": "three"}, {"goal": "four"},
    ]});
    let (answer, jobs) = call(&tasks);
    assert_eq!(jobs.len(), 3, "three at once, no more");
    assert_eq!(jobs[0].label, "1/3");
    let results = answer["results"].as_array().unwrap();
    let statuses: Vec<&str> = results.iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["completed", "failed", "completed"]);
    assert_eq!(results[1]["error"], "broken");
    assert!(
        jobs[0].tools.as_ref().unwrap().contains(&"process".to_owned()),
        "the call's toolsets are the default"
    );
}

#[test]
fn what_is_missing_is_named() {
    let (answer, _) = call(&json!({}));
    assert_eq!(answer["error"], "Provide either 'goal' (single task) or 'tasks' (batch).");
    let (answer, _) = call(&json!({"tasks": [{"goal": "a"}, {"context": "b"}]}));
    assert_eq!(answer["error"], "Task 1 is missing a 'goal'.");
}
