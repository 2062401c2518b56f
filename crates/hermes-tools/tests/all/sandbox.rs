//! Tests of what the model and the user are told when the sandbox refuses a command something. They need
//! Landlock.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{
    LocalHost, LocalOptions, OutputBounds, Sandbox, SandboxActivation, SandboxPaths, Variables,
};
use hermes_task::SystemClock;
use hermes_tools::{
    Approvals, CommandApprovalMode, ProcessRegistry, SecretMasking, TaskFolders, TaskShells, TerminalOptions,
    TerminalTool, Yolo,
};
use hermes_types::{
    ApprovalDecision, BoxFuture, Cancel, Clock, Danger, Deadline, Frontend, Tool, ToolContext,
    ToolInvocation, TurnEvent, UserAnswer, UserQuestion,
};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Person(UserAnswer, Mutex<Vec<Danger>>);

impl Frontend for Person {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, question: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        let UserQuestion::Approve { danger, .. } = question else { panic!("{question:?}") };
        self.1.lock().unwrap().push(danger);
        Box::pin(std::future::ready(self.0.clone()))
    }
}

struct SandboxToolsFixture {
    _top: TempDir,
    root: PathBuf,
    terminal: TerminalTool,
    approvals: Arc<Approvals>,
    kept: Arc<Mutex<Vec<String>>>,
}

impl SandboxToolsFixture {
    fn new() -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["tmp", "user", "work", "out", "home"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        let home = Home::new(root.join("home"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let user = root.join("user").to_str().unwrap().to_owned();
        let base = [("HOME", user.as_str()), ("PATH", "/usr/bin:/bin")];
        let places = SandboxPaths {
            user_home: root.join("user"),
            hermes_home: root.join("home"),
            temporary: Vec::new(),
            writable: Vec::new(),
            programs: Vec::new(),
        };
        let options = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: Sandbox::new(SandboxActivation::Auto, places),
        };
        let folders = TaskFolders::new(root.join("work"));
        let shells = TaskShells::new(LocalHost::new(options, Arc::clone(&clock)), folders);
        let processes = ProcessRegistry::new(&home, Arc::clone(&clock), Cancel::new());
        let kept: Arc<Mutex<Vec<String>>> = Arc::default();
        let keeper = Arc::clone(&kept);
        let keep = move |key: &str| keeper.lock().unwrap().push(key.to_owned());
        let approvals = Arc::new(Approvals::new(CommandApprovalMode::Manual, Vec::new(), keep));
        let options = TerminalOptions {
            timeout: Duration::from_mins(1),
            user_home: root.join("user"),
            hermes_home: root.join("home"),
            secrets: SecretMasking::Mask,
        };
        let terminal = TerminalTool::new(options, shells, processes, Arc::clone(&approvals), clock);
        if !Sandbox::is_possible() {
            hermes_testkit::peer_is_missing("Landlock");
            return None;
        }
        Some(Self { _top: top, root, terminal, approvals, kept })
    }

    async fn run(&self, command: &str, answer: UserAnswer) -> (Value, Vec<Danger>) {
        let person = Person(answer, Mutex::default());
        let call = ToolInvocation {
            id: "call_1".into(),
            name: "terminal".into(),
            arguments: json!({"command": command}).as_object().unwrap().clone(),
            session: "s".into(),
            turn: "turn".into(),
            task: "t".into(),
        };
        let cancel = Cancel::new();
        let deadline = Deadline::after(&SystemClock::new(), Duration::from_mins(10));
        let context =
            ToolContext { frontend: &person, cancel: &cancel, deadline, spawn: None, turn_model: None };
        let outcome = self.terminal.run(&call, context).await;
        let asked = person.1.into_inner().unwrap();
        (serde_json::from_str(&outcome.content).unwrap(), asked)
    }

    fn exists(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }
}

fn says(approval: ApprovalDecision) -> UserAnswer {
    UserAnswer::Approval(approval)
}

#[tokio::test]
async fn a_refusal_is_told_and_stays_where_nobody_lets_it_out() {
    let Some(fixture) = SandboxToolsFixture::new() else { return };
    for answer in [UserAnswer::Unavailable, says(ApprovalDecision::Deny)] {
        let (result, asked) = fixture.run("echo x > ../out/a", answer).await;
        let path = fixture.root.join("out/a");
        assert_ne!(result["exit_code"], 0);
        assert_eq!(result["sandbox"]["refused"], path.to_str().unwrap(), "{result:#}");
        assert!(result["sandbox"]["rule"].as_str().unwrap().contains("outside the folders"), "{result:#}");
        assert!(
            result["sandbox"]["setting"].as_str().unwrap().contains("`terminal.sandbox_writable: ["),
            "{result:#}"
        );
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].key, "outside the sandbox: echo x > ../out/a");
        assert!(
            asked[0].reason.contains("inside it ran once") && asked[0].reason.contains("out/a"),
            "{asked:?}"
        );
        assert!(!fixture.exists("out/a"));
    }
}

#[tokio::test]
async fn what_somebody_lets_out_runs_once_more_outside() {
    let Some(fixture) = SandboxToolsFixture::new() else { return };
    let (result, _) = fixture.run("echo x >> runs; echo x > ../out/a", says(ApprovalDecision::Once)).await;
    assert_eq!((&result["exit_code"], &result["sandbox"]), (&json!(0), &Value::Null), "{result:#}");
    assert_eq!(result["approval"], "approved by the user: outside the sandbox");
    assert!(fixture.exists("out/a"));
    assert_eq!(fs::read_to_string(fixture.root.join("work/runs")).unwrap(), "x\nx\n", "inside, then outside");
    // An approval for one run does not cover the next.
    let (_, asked) = fixture.run("echo x >> runs; echo x > ../out/a", UserAnswer::Unavailable).await;
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn an_agreement_that_lasts_is_for_that_command_alone() {
    let Some(fixture) = SandboxToolsFixture::new() else { return };
    fixture.run("echo x > ../out/a", says(ApprovalDecision::Always)).await;
    assert_eq!(*fixture.kept.lock().unwrap(), ["outside the sandbox: echo x > ../out/a"]);
    fs::remove_file(fixture.root.join("out/a")).unwrap();
    let (result, asked) = fixture.run("echo x > ../out/a", UserAnswer::Unavailable).await;
    assert_eq!((&result["exit_code"], asked.len()), (&json!(0), 0), "{result:#}");
    let (result, asked) = fixture.run("echo x > ../out/b", UserAnswer::Unavailable).await;
    assert_eq!(asked.len(), 1);
    assert_ne!(result["exit_code"], 0);
}

#[tokio::test]
async fn skipping_questions_does_not_open_the_fence() {
    let Some(fixture) = SandboxToolsFixture::new() else { return };
    fixture.approvals.set_yolo(Yolo::On);
    let (result, asked) = fixture.run("echo x > ../out/a", says(ApprovalDecision::Always)).await;
    assert!(asked.is_empty() && !fixture.exists("out/a"), "{result:#}");
    assert!(result["sandbox"]["rule"].is_string());
}

#[tokio::test]
async fn what_was_put_back_is_told() {
    let Some(fixture) = SandboxToolsFixture::new() else { return };
    let (result, asked) = fixture
        .run(
            "mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
            UserAnswer::Unavailable,
        )
        .await;
    assert_eq!(result["sandbox"]["restored"], json!([".git/hooks/pre-commit"]), "{result:#}");
    assert!(asked.is_empty() && !fixture.exists("work/.git/hooks/pre-commit"));
}
