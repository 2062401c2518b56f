//! Tests of subagents: what they know, what they may use, what they cost, and how they end.

use hermes_store::ChargeRange;
use hermes_types::{
    BoxFuture, OutcomeStatus, RawJson, SubagentOutcome, SubagentReport, SubagentTask, TaskId, Tool,
    ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec, ToolUser,
};
use std::sync::{Arc, Mutex};

use super::support::{AgentFixture, RecordingFrontend, ScriptedTool, call_answer, text_answer, texts};

/// A tool that delegates one task and keeps the report.
struct DelegatingTool {
    spec: ToolSpec,
    job: SubagentTask,
    report: Arc<Mutex<Option<SubagentReport>>>,
}

impl Tool for DelegatingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        ToolDescriptor { withheld_from: &[ToolUser::Subagent], ..ToolDescriptor::unknown(&self.spec.name) }
    }

    fn run<'a>(&'a self, _: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let report = context.spawn.unwrap().run(self.job.clone()).await;
            let words = report.summary.clone().unwrap_or_default();
            *self.report.lock().unwrap() = Some(report);
            ToolOutcome::done(words)
        })
    }
}

fn job() -> SubagentTask {
    SubagentTask {
        goal: "count the beans".into(),
        context: "They are in the jar.".into(),
        tools: None,
        max_iterations: 3,
        label: "1/1".into(),
    }
}

fn bench(
    job: SubagentTask,
    answers: Vec<super::support::ScriptedAnswer>,
) -> (AgentFixture, Arc<Mutex<Option<SubagentReport>>>) {
    let mut bench = AgentFixture::new(answers);
    let report = Arc::new(Mutex::new(None));
    let spec = ToolSpec {
        name: "hand_on".into(),
        description: "hands work on".into(),
        parameters: RawJson::from_value(&serde_json::json!({"type": "object"})),
    };
    bench.change(|agent| agent.tool(Arc::new(DelegatingTool { spec, job, report: report.clone() })));
    (bench, report)
}

#[tokio::test]
async fn a_child_sees_only_its_task_and_its_last_word_comes_back() {
    let answers = vec![
        call_answer(&[("hand_on", "{}")]),
        call_answer(&[("echo_back", r#"{"beans":3}"#)]),
        text_answer("There are three."),
        text_answer("Three beans."),
    ];
    let (bench, report) = bench(job(), answers);
    std::fs::write(bench.folder.path().join("project/AGENTS.md"), "house rules").unwrap();
    let result = bench.run(&RecordingFrontend::default()).await;
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
    assert_eq!((report.outcome, report.api_calls), (SubagentOutcome::Completed, 2));
    assert_eq!(report.tool_calls[0].tool, "echo_back");

    let row = bench.agent.store().session(&report.session).await.unwrap().unwrap();
    assert_eq!((row.parent.as_ref().unwrap().as_str(), row.source.as_str()), ("s", "tool"));
    assert_eq!(
        bench.agent.store().resolve("s").await.unwrap().unwrap().as_str(),
        "s",
        "it is no continuation"
    );
    let stored = bench.stored_in(&report.session).await;
    assert_eq!(stored.len(), 4, "its conversation is in the database: {stored:?}");
}

#[tokio::test]
async fn the_trace_says_how_each_call_ended_whatever_its_result_reads_like() {
    let answers = vec![
        call_answer(&[("hand_on", "{}")]),
        call_answer(&[("fine", "{}")]),
        call_answer(&[("broken", "{}")]),
        call_answer(&[("no_such_thing", "{}")]),
        text_answer("tried"),
        text_answer("done"),
    ];
    let (bench, report) = bench(SubagentTask { max_iterations: 9, ..job() }, answers);
    let bench = bench
        .tool(ScriptedTool::new("fine", |_| {
            ToolOutcome::done(r#"{"output": "hi", "exit_code": 0, "error": null}"#)
        }))
        .tool(ScriptedTool::new("broken", |_| ToolOutcome::failed("it did not go well")));
    bench.run(&RecordingFrontend::default()).await;
    let trace = report.lock().unwrap().take().unwrap().tool_calls;
    let ends: Vec<(&str, OutcomeStatus)> =
        trace.iter().map(|call| (call.tool.as_str(), call.status)).collect();
    let (done, failed) = (OutcomeStatus::Done, OutcomeStatus::Failed);
    assert_eq!(ends, [("fine", done), ("broken", failed), ("no_such_thing", failed)]);
}

/// A tool that records the tasks whose background work it was told to end.
struct AbandonRecorder(ToolSpec, Arc<Mutex<Vec<TaskId>>>);

impl Tool for AbandonRecorder {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(std::future::ready(ToolOutcome::done(call.task.as_str())))
    }

    fn end_background_work(&self, task: &TaskId) {
        self.1.lock().unwrap().push(task.clone());
    }
}

#[tokio::test]
async fn what_a_child_started_ends_with_it_and_what_its_parent_started_does_not() {
    let answers = vec![
        call_answer(&[("keep", "{}")]),
        call_answer(&[("hand_on", "{}")]),
        call_answer(&[("keep", "{}")]),
        text_answer("counted"),
        text_answer("done"),
    ];
    let (mut bench, report) = bench(job(), answers);
    let abandoned = Arc::new(Mutex::new(Vec::new()));
    let spec = ToolSpec {
        name: "keep".into(),
        description: "starts something".into(),
        parameters: RawJson::from_value(&serde_json::json!({"type": "object"})),
    };
    bench.change(|agent| agent.tool(Arc::new(AbandonRecorder(spec, abandoned.clone()))));
    bench.run(&RecordingFrontend::default()).await;
    let child = report.lock().unwrap().take().unwrap().session;
    let stored = bench.stored_in(&child).await;
    let task = stored.iter().find(|(role, _)| role == "tool").map(|(_, text)| text.clone()).unwrap();
    let abandoned = abandoned.lock().unwrap();
    assert_eq!(abandoned.iter().map(TaskId::as_str).collect::<Vec<_>>(), [task]);
}

#[tokio::test]
async fn what_a_child_spends_belongs_to_the_turn_of_its_parent() {
    let answers = vec![call_answer(&[("hand_on", "{}")]), text_answer("counted"), text_answer("done")];
    let (bench, _) = bench(job(), answers);
    bench.run(&RecordingFrontend::default()).await;
    let all = bench.agent.store().spending(ChargeRange::Since(hermes_types::Timestamp(0.0))).await.unwrap();
    assert_eq!(all.calls, 3);
}

#[tokio::test]
async fn a_child_that_runs_out_of_steps_or_fails_says_so() {
    let mut answers = vec![call_answer(&[("hand_on", "{}")])];
    answers.extend((0..3).map(|_| call_answer(&[("echo_back", "{}")])));
    answers.extend([text_answer("so far"), text_answer("done")]);
    let (bench, report) = bench(job(), answers);
    bench.run(&RecordingFrontend::default()).await;
    let ended = report.lock().unwrap().take().unwrap();
    assert_eq!((ended.outcome, ended.summary.as_deref()), (SubagentOutcome::IterationLimit, Some("so far")));

    let refused = hermes_types::ModelError::GiveUp { message: "no".into(), status: Some(500) };
    let (bench, report) =
        self::bench(job(), vec![call_answer(&[("hand_on", "{}")]), Err(refused), text_answer("done")]);
    let result = bench.run(&RecordingFrontend::default()).await;
    let ended = report.lock().unwrap().take().unwrap();
    assert_eq!((ended.outcome, ended.error.as_deref()), (SubagentOutcome::Failed, Some("no")));
    assert_eq!(result.response.as_deref(), Some("done"), "the parent goes on");
}

#[tokio::test]
async fn an_interrupt_reaches_the_child() {
    let answers = vec![
        call_answer(&[("hand_on", "{}")]),
        call_answer(&[("stop", "{}")]),
        text_answer("never"),
        text_answer("never"),
    ];
    let (bench, report) = bench(job(), answers);
    let watcher = RecordingFrontend::default();
    let cancel = watcher.cancel.clone();
    let bench = bench.tool(ScriptedTool::new("stop", move |_| {
        cancel.cancel();
        ToolOutcome::done("stopping")
    }));
    let result = bench.run(&watcher).await;
    assert!(result.interrupted());
    assert_eq!(report.lock().unwrap().take().unwrap().outcome, SubagentOutcome::Interrupted);
}
