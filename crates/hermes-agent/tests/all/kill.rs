//! Kills the process at every step of a turn with three calls; the next process must find nothing missing and
//! nothing done twice.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_agent::{Agent, AgentModels, PromptSource, TurnInput};
use hermes_config::Home;
use hermes_store::Store;
use hermes_types::{
    BoxFuture, Cancel, Completion, Cost, DeltaSink, Frontend, Message, Model, ModelError, ModelRequest, Role,
    SessionKind, ToolCall, ToolOutcome, TurnEvent, Usage, UserAnswer, UserQuestion,
};
use rustix::process::{Signal, getpid, kill_process};

use super::support::ScriptedTool;

const FOLDER: &str = "HERMES_TEST_KILL_FOLDER";
const STEP: &str = "HERMES_TEST_KILL_STEP";
const MOST_STEPS: usize = 60;

/// A model that makes three calls after a question and accepts any results.
struct ThreeCalls;

impl Model for ThreeCalls {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        live_or_die();
        let asked = request.messages.last().is_some_and(|message| message.role == Role::User);
        let message = if asked {
            let calls = ["one", "two", "three"].map(|id| ToolCall::new(Some(id), id, "{}"));
            Message::assistant("").with_calls(calls.to_vec())
        } else {
            Message::assistant("done")
        };
        Box::pin(std::future::ready(Ok(Completion {
            message,
            usage: Some(Usage { input: 1, output: 1, ..Usage::default() }),
            cost: Cost::UNKNOWN,
            model: "m".into(),
            provider: "p".into(),
            response_id: None,
            provider_items: None,
        })))
    }

    fn context_window(&self, _: &str) -> u64 {
        100_000
    }
}

/// The number of steps until this process kills itself.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Counts one step down and kills the process at zero.
fn live_or_die() {
    if LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
}

/// Counts every event as a step.
struct Killer;

impl Frontend for Killer {
    fn show(&self, _: TurnEvent) {
        live_or_die();
    }

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

/// Creates a tool that adds a line to a file each time it runs.
fn worker(name: &'static str, folder: &Path) -> ScriptedTool {
    let file = Mutex::new(folder.join("effects"));
    ScriptedTool::new(name, move |_| {
        use std::io::Write as _;
        live_or_die();
        let path = file.lock().unwrap().clone();
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{name}").unwrap();
        live_or_die();
        ToolOutcome::done(format!("result of {name}"))
    })
}

fn agent(folder: &Path) -> Agent {
    let prompt = PromptSource::new(Home::new(folder), folder.to_owned());
    let store = Store::open(&folder.join("state.db")).unwrap();
    let clock = Arc::new(hermes_testkit::TestClock::new());
    let mut agent = Agent::builder(AgentModels::new(Arc::new(ThreeCalls), "m"), store, clock, prompt);
    for name in ["one", "two", "three"] {
        agent = agent.tool(Arc::new(worker(name, folder)));
    }
    agent.build()
}

/// Runs in the process that is killed; does nothing when run as a test.
#[tokio::test]
#[ignore = "started by the test below"]
#[expect(clippy::disallowed_methods, reason = "the parent says what to do in the environment")]
async fn child() {
    let (Ok(folder), Ok(step)) = (std::env::var(FOLDER), std::env::var(STEP)) else { return };
    let agent = agent(Path::new(&folder));
    let mut conversation = agent.new_conversation_with_id("s".into(), "cli", SessionKind::Local);
    LEFT.store(step.parse().unwrap(), Ordering::SeqCst);
    agent
        .run_turn(&mut conversation, TurnInput::text("do three things"), &Killer, &Cancel::new())
        .await
        .unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a test starts itself once more")]
fn run_child(folder: &Path, step: usize) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "all::kill::child", "--ignored", "--quiet"])
        .env(FOLDER, folder)
        .env(STEP, step.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    status.signal() == Some(9)
}

#[tokio::test]
async fn killed_at_any_step_nothing_is_missing_and_nothing_is_done_twice() {
    let mut killed_at = 0;
    for step in 0..MOST_STEPS {
        let home = tempfile::tempdir().unwrap();
        let folder: PathBuf = home.path().to_owned();
        if !run_child(&folder, step) {
            break;
        }
        killed_at = step;
        check(&folder, step).await;
    }
    assert!(killed_at >= 15, "only {killed_at} steps were tried");
}

async fn check(folder: &Path, step: usize) {
    let agent = agent(folder);
    let mut taken =
        agent.load_conversation(&"s".into()).await.unwrap_or_else(|error| panic!("step {step}: {error}"));
    let question = taken.conversation.messages().first().unwrap().content.text().into_owned();
    assert_eq!(question, "do three things", "step {step}");
    let watcher = super::support::RecordingFrontend::default();
    let answer = match taken.unfinished_turn.take() {
        Some(cut_off) => {
            assert!(!cut_off.parked);
            super::support::resume(&agent, &mut taken.conversation, cut_off, &watcher).await.response
        }
        // The turn had ended before the kill.
        None => taken.conversation.messages().last().map(|message| message.content.text().into_owned()),
    };
    assert_eq!(answer.as_deref(), Some("done"), "step {step}");
    for call in ["one", "two", "three"] {
        let answers: Vec<&Message> = taken
            .conversation
            .messages()
            .iter()
            .filter(|message| message.tool_call_id.as_ref().is_some_and(|id| id.as_str() == call))
            .collect();
        assert_eq!(answers.len(), 1, "step {step}: {call} has one answer");
        let effects = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
        let ran = effects.lines().filter(|line| *line == call).count();
        let said = answers[0].content.text();
        let known = said.starts_with("result of");
        assert!(ran <= 1, "step {step}: {call} ran {ran} times");
        assert!(!known || ran == 1, "step {step}: {call} has a result without having run");
        let unsure = said.starts_with("[Outcome unknown") || said.starts_with("[Not started");
        assert!(known || unsure, "step {step}: {said}");
        assert!(
            !said.starts_with("[Not started") || ran == 0,
            "step {step}: {call} ran, but is said not to have"
        );
    }
    let stored = agent.store().transcript(&"s".into()).await.unwrap();
    assert_eq!(stored.len(), taken.conversation.messages().len(), "step {step}");
    assert!(agent.store().check().await.unwrap().is_sound(), "step {step}");
    assert!(agent.store().running_turns().await.unwrap().is_empty(), "step {step}");
}
