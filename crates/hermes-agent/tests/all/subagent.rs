//! Subagents: what they know, what they may use, what they cost, and how they end.

use hermes_store::Span;
use hermes_types::{
    BoxFuture, Call, Job, JobEnd, Outcome, OutcomeStatus, Raw, Report, TaskId, Tool, ToolContext, ToolSpec,
};
use std::sync::{Arc, Mutex};

use super::support::{Bench, Scripted, Watcher, calling, said, texts};

/// Hands one job on and keeps the report.
struct HandOn {
    spec: ToolSpec,
    job: Job,
    report: Arc<Mutex<Option<Report>>>,
}

impl Tool for HandOn {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, _: &'a Call, context: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let report = context.spawn.unwrap().run(self.job.clone()).await;
            let words = report.summary.clone().unwrap_or_default();
            *self.report.lock().unwrap() = Some(report);
            Outcome::done(words)
        })
    }
}

fn job() -> Job {
    Job {
        goal: "count the beans".into(),
        context: "They are in the jar.".into(),
        tools: None,
        without: vec!["hand_on".into()],
        max_iterations: 3,
        label: "1/1".into(),
    }
}

fn bench(job: Job, answers: Vec<super::support::Said>) -> (Bench, Arc<Mutex<Option<Report>>>) {
    let mut bench = Bench::new(answers);
    let report = Arc::new(Mutex::new(None));
    let spec = ToolSpec {
        name: "hand_on".into(),
        description: "hands work on".into(),
        parameters: Raw::from_value(&serde_json::json!({"type": "object"})),
    };
    bench.agent.tools.push(Arc::new(HandOn { spec, job, report: report.clone() }));
    (bench, report)
}

#[tokio::test]
async fn a_child_sees_only_its_task_and_its_last_word_comes_back() {
    let answers = vec![
        calling(&[("hand_on", "{}")]),
        calling(&[("echo_back", r#"{"beans":3}"#)]),
        said("There are three."),
        said("Three beans."),
    ];
    let (bench, report) = bench(job(), answers);
    std::fs::write(bench.folder.path().join("project/AGENTS.md"), "house rules").unwrap();
    let result = bench.run(&Watcher::default()).await;
    assert_eq!(result.response.as_deref(), Some("Three beans."));
    let child = bench.asked(1);
    assert_eq!(texts(&child.messages), ["user: count the beans"], "nothing of the parent's conversation");
    assert!(
        child.system.contains("YOUR TASK:\ncount the beans") && child.system.contains("CONTEXT:\nThey are")
    );
    assert!(!child.system.contains("house rules"), "{}", child.system);
    let names: Vec<&str> = child.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo_back"], "a child cannot hand work on");
    let report = report.lock().unwrap().take().unwrap();
    assert_eq!((report.end, report.api_calls), (JobEnd::Completed, 2));
    assert_eq!(report.trace[0].tool, "echo_back");

    let row = bench.agent.store.session(&report.session).await.unwrap().unwrap();
    assert_eq!((row.parent.as_ref().unwrap().as_str(), row.source.as_str()), ("s", "tool"));
    assert_eq!(bench.agent.store.resolve("s").await.unwrap().unwrap().as_str(), "s", "it is no continuation");
    let stored = bench.stored_in(&report.session).await;
    assert_eq!(stored.len(), 4, "its conversation is in the database: {stored:?}");
}

#[tokio::test]
async fn the_trace_says_how_each_call_ended_whatever_its_result_reads_like() {
    let answers = vec![
        calling(&[("hand_on", "{}")]),
        calling(&[("fine", "{}")]),
        calling(&[("broken", "{}")]),
        calling(&[("no_such_thing", "{}")]),
        said("tried"),
        said("done"),
    ];
    let (bench, report) = bench(Job { max_iterations: 9, ..job() }, answers);
    let bench = bench
        .tool(Scripted::new("fine", |_| Outcome::done(r#"{"output": "hi", "exit_code": 0, "error": null}"#)))
        .tool(Scripted::new("broken", |_| Outcome::failed("it did not go well")));
    bench.run(&Watcher::default()).await;
    let trace = report.lock().unwrap().take().unwrap().trace;
    let ends: Vec<(&str, OutcomeStatus)> =
        trace.iter().map(|call| (call.tool.as_str(), call.status)).collect();
    let (done, failed) = (OutcomeStatus::Done, OutcomeStatus::Failed);
    assert_eq!(ends, [("fine", done), ("broken", failed), ("no_such_thing", failed)]);
}

/// Keeps whom it was told to abandon.
struct Keeper(ToolSpec, Arc<Mutex<Vec<TaskId>>>);

impl Tool for Keeper {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, call: &'a Call, _: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(std::future::ready(Outcome::done(call.task.as_str())))
    }

    fn abandon(&self, task: &TaskId) {
        self.1.lock().unwrap().push(task.clone());
    }
}

#[tokio::test]
async fn what_a_child_started_ends_with_it_and_what_its_parent_started_does_not() {
    let answers = vec![
        calling(&[("keep", "{}")]),
        calling(&[("hand_on", "{}")]),
        calling(&[("keep", "{}")]),
        said("counted"),
        said("done"),
    ];
    let (mut bench, report) = bench(job(), answers);
    let abandoned = Arc::new(Mutex::new(Vec::new()));
    let spec = ToolSpec {
        name: "keep".into(),
        description: "starts something".into(),
        parameters: Raw::from_value(&serde_json::json!({"type": "object"})),
    };
    bench.agent.tools.push(Arc::new(Keeper(spec, abandoned.clone())));
    bench.run(&Watcher::default()).await;
    let child = report.lock().unwrap().take().unwrap().session;
    let stored = bench.stored_in(&child).await;
    let task = stored.iter().find(|(role, _)| role == "tool").map(|(_, text)| text.clone()).unwrap();
    let abandoned = abandoned.lock().unwrap();
    assert_eq!(abandoned.iter().map(TaskId::as_str).collect::<Vec<_>>(), [task]);
}

#[tokio::test]
async fn what_a_child_spends_belongs_to_the_turn_of_its_parent() {
    let answers = vec![calling(&[("hand_on", "{}")]), said("counted"), said("done")];
    let (bench, _) = bench(job(), answers);
    bench.run(&Watcher::default()).await;
    let all = bench.agent.store.spent(Span::Since(hermes_types::Timestamp(0.0))).await.unwrap();
    assert_eq!(all.calls, 3);
}

#[tokio::test]
async fn a_child_that_runs_out_of_steps_or_fails_says_so() {
    let mut answers = vec![calling(&[("hand_on", "{}")])];
    answers.extend((0..3).map(|_| calling(&[("echo_back", "{}")])));
    answers.extend([said("so far"), said("done")]);
    let (bench, report) = bench(job(), answers);
    bench.run(&Watcher::default()).await;
    let ended = report.lock().unwrap().take().unwrap();
    assert_eq!((ended.end, ended.summary.as_deref()), (JobEnd::OutOfSteps, Some("so far")));

    let refused = hermes_types::ModelError::GiveUp { message: "no".into(), status: Some(500) };
    let (bench, report) = self::bench(job(), vec![calling(&[("hand_on", "{}")]), Err(refused), said("done")]);
    let result = bench.run(&Watcher::default()).await;
    let ended = report.lock().unwrap().take().unwrap();
    assert_eq!((ended.end, ended.error.as_deref()), (JobEnd::Failed, Some("no")));
    assert_eq!(result.response.as_deref(), Some("done"), "the parent goes on");
}

#[tokio::test]
async fn an_interrupt_reaches_the_child() {
    let answers =
        vec![calling(&[("hand_on", "{}")]), calling(&[("stop", "{}")]), said("never"), said("never")];
    let (bench, report) = bench(job(), answers);
    let watcher = Watcher::default();
    let cancel = watcher.cancel.clone();
    let bench = bench.tool(Scripted::new("stop", move |_| {
        cancel.cancel();
        Outcome::done("stopping")
    }));
    let result = bench.run(&watcher).await;
    assert!(result.interrupted());
    assert_eq!(report.lock().unwrap().take().unwrap().end, JobEnd::Interrupted);
}
