//! Tests of `terminal` and `process` on this machine.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{LocalHost, LocalOptions, OutputBounds, Sandbox, Variables};
use hermes_task::SystemClock;
use hermes_tools::{
    Approvals, CheckpointManager, CommandApprovalMode, ProcessRegistry, ProcessTool, SecretMasking,
    TaskFolders, TaskShells, TerminalOptions, TerminalTool, Yolo,
};
use hermes_types::{
    ApprovalDecision, BoxFuture, Cancel, CivilTime, Clock, Deadline, Frontend, Tool, ToolContext, ToolEvent,
    ToolInvocation, TurnEvent, UserAnswer, UserQuestion,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A user with a prepared answer who records the questions.
struct Person {
    answer: UserAnswer,
    asked: Mutex<Vec<(String, String)>>,
}

impl Person {
    fn who(answer: UserAnswer) -> Self {
        Self { answer, asked: Mutex::default() }
    }

    fn says(approval: ApprovalDecision) -> Self {
        Self::who(UserAnswer::Approval(approval))
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }
}

impl Frontend for Person {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, question: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        let UserQuestion::Approve { command, danger } = question else { panic!("{question:?}") };
        self.asked.lock().unwrap().push((command, danger.reason));
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

pub(crate) struct TerminalFixture {
    top: TempDir,
    home: Home,
    folders: TaskFolders,
    approvals: Arc<Approvals>,
    processes: ProcessRegistry,
    terminal: TerminalTool,
    process: ProcessTool,
    kept: Arc<Mutex<Vec<String>>>,
}

impl TerminalFixture {
    pub(crate) fn new() -> Self {
        Self::with(CommandApprovalMode::Manual, &[], &[])
    }

    fn with(mode: CommandApprovalMode, allowed: &[&str], denied: &[&str]) -> Self {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        for folder in ["tmp", "user", "work"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        let home = Home::new(root.join("home"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let user = root.join("user").to_str().unwrap().to_owned();
        let base = [("HOME", user.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        let options = LocalOptions {
            variables: Variables::for_commands(base, &[], &[]),
            temp: root.join("tmp"),
            bounds: OutputBounds::default(),
            sandbox: Sandbox::off(),
        };
        let folders = TaskFolders::new(root.join("work"));
        let shells = TaskShells::new(LocalHost::new(options, Arc::clone(&clock)), folders.clone());
        let processes = ProcessRegistry::new(&home, Arc::clone(&clock), Cancel::new());
        let kept: Arc<Mutex<Vec<String>>> = Arc::default();
        let keeper = Arc::clone(&kept);
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let approvals =
            Approvals::new(mode, words(allowed), move |key| keeper.lock().unwrap().push(key.to_owned()));
        let approvals = Arc::new(approvals.with_denied(words(denied)));
        let options = TerminalOptions {
            timeout: Duration::from_mins(1),
            user_home: root.join("user"),
            hermes_home: root.join("home"),
            secrets: SecretMasking::Mask,
        };
        let checkpoints = CheckpointManager::new(&home, root.join("user"), Arc::clone(&clock), 10);
        let terminal =
            TerminalTool::new(options, shells, processes.clone(), Arc::clone(&approvals), Arc::clone(&clock))
                .with_checkpoints(Some(Arc::new(checkpoints)));
        let process = ProcessTool::new(
            processes.clone(),
            Duration::from_mins(1),
            SecretMasking::Mask,
            clock,
            CivilTime::utc,
        );
        Self { top, home, folders, approvals, processes, terminal, process, kept }
    }

    /// Returns the folder in which commands keep state between calls.
    pub(crate) fn temp(&self) -> std::path::PathBuf {
        self.top.path().join("tmp")
    }

    pub(crate) async fn end(&self) {
        self.processes.end_all().await;
    }

    fn work(&self) -> std::path::PathBuf {
        self.top.path().canonicalize().unwrap().join("work")
    }

    async fn ask(&self, arguments: Value, person: &Person) -> Value {
        call(&self.terminal, arguments, person).await
    }

    /// Runs a command that needs no approval.
    pub(crate) async fn run(&self, arguments: Value) -> Value {
        let person = Person::who(UserAnswer::Unavailable);
        let result = self.ask(arguments, &person).await;
        assert_eq!(person.asked(), []);
        result
    }

    pub(crate) async fn look(&self, arguments: Value) -> Value {
        call(&self.process, arguments, &Person::who(UserAnswer::Unavailable)).await
    }

    pub(crate) async fn start(&self, command: &str) -> String {
        let started = self.run(json!({"command": command, "background": true})).await;
        assert_eq!(started["output"], "Background process started", "{started}");
        started["session_id"].as_str().unwrap().to_owned()
    }
}

async fn call(tool: &dyn Tool, arguments: Value, person: &Person) -> Value {
    call_unless(&Cancel::new(), tool, arguments, person).await
}

async fn call_unless(cancel: &Cancel, tool: &dyn Tool, arguments: Value, person: &Person) -> Value {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let call = ToolInvocation {
        id: "call_1".into(),
        name: tool.spec().name.clone(),
        arguments,
        session: "s".into(),
        turn: format!("turn{}", NEXT.fetch_add(1, Ordering::Relaxed)).as_str().into(),
        task: "t".into(),
    };
    let deadline = Deadline::after(&SystemClock::new(), Duration::from_mins(10));
    let context = ToolContext { frontend: person, cancel, deadline, spawn: None, turn_model: None };
    let outcome = tool.run(&call, context).await;
    serde_json::from_str(&outcome.content).unwrap_or_else(|_| panic!("{}", outcome.content))
}

fn recorded(home: &Home) -> Vec<Value> {
    serde_json::from_str(&fs::read_to_string(home.processes()).unwrap()).unwrap()
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_result_has_its_shape() {
    let fixture = TerminalFixture::new();
    let result = fixture.run(json!({"command": "printf '\\033[31mred\\033[0m\\n\\n'"})).await;
    assert_eq!(result, json!({"output": "red", "exit_code": 0, "error": null}));
    let result = fixture.run(json!({"command": "echo a | grep b"})).await;
    assert_eq!(
        (&result["exit_code"], &result["exit_code_meaning"]),
        (&json!(1), &json!("no match was found"))
    );
    let result = fixture.run(json!({})).await;
    assert!(result["error"].as_str().unwrap().contains("needs `command`"));
}

#[tokio::test]
async fn the_file_tools_follow_cd() {
    let fixture = TerminalFixture::new();
    fixture.run(json!({"command": "mkdir sub && cd sub"})).await;
    assert_eq!(fixture.folders.current(&"t".into()), fixture.work().join("sub"));
    let result = fixture.run(json!({"command": "pwd", "workdir": ".."})).await;
    assert_eq!(result["output"], fixture.work().to_str().unwrap());
    assert_eq!(fixture.folders.current(&"t".into()), fixture.work().join("sub"));
    fixture.terminal.on_event(&"t".into(), ToolEvent::Ended);
}

#[tokio::test]
async fn a_folder_that_is_no_plain_path_or_does_not_exist_is_refused() {
    let fixture = TerminalFixture::new();
    let result = fixture.run(json!({"command": "pwd", "workdir": "/tmp; ls"})).await;
    assert_eq!((&result["status"], &result["exit_code"]), (&json!("blocked"), &json!(-1)));
    let result = fixture.run(json!({"command": "pwd", "workdir": "no/such"})).await;
    assert_eq!(result["status"], "error");
}

#[tokio::test]
async fn time_is_limited() {
    let fixture = TerminalFixture::new();
    fixture.run(json!({"command": "true"})).await;
    let result = fixture.run(json!({"command": "echo a; sleep 600", "timeout": 1})).await;
    assert_eq!(result["exit_code"], 124);
    assert_eq!(result["output"], "a\n\n[Command timed out after 1s]");
    let result = fixture.run(json!({"command": "true", "timeout": 601})).await;
    assert_eq!(result["status"], "error");
}

#[tokio::test]
async fn secrets_do_not_come_back() {
    let fixture = TerminalFixture::new();
    let result = fixture
        .run(json!({"command": "echo ghp_0123456789abcdefghij0123; printf 'TOKEN=%s\\n' abcdefghijklmnop"}))
        .await;
    let output = result["output"].as_str().unwrap();
    assert!(!output.contains("456789abcdef") && !output.contains("abcdefghijklmnop"), "{output}");
}

#[tokio::test]
async fn a_denied_command_is_not_run() {
    let fixture = TerminalFixture::new();
    fs::create_dir(fixture.work().join("d")).unwrap();
    let person = Person::says(ApprovalDecision::Deny);
    let result = fixture.ask(json!({"command": "rm -rf d"}), &person).await;
    assert_eq!(result["status"], "blocked");
    assert!(result["error"].as_str().unwrap().starts_with("BLOCKED: the user denied"));
    assert_eq!(person.asked(), [("rm -rf d".to_owned(), "recursive delete: rm -rf d".to_owned())]);
    assert!(fixture.work().join("d").exists());
}

#[tokio::test]
async fn an_approval_reaches_as_far_as_it_was_given() {
    let fixture = TerminalFixture::new();
    let count = async |approval| {
        let person = Person::says(approval);
        let result = fixture.ask(json!({"command": "rm -rf nothing"}), &person).await;
        assert_eq!(result["exit_code"], 0, "{result}");
        person.asked().len()
    };
    assert_eq!(count(ApprovalDecision::Once).await, 1);
    assert_eq!(count(ApprovalDecision::Session).await, 1);
    assert_eq!(count(ApprovalDecision::Deny).await, 0, "agreed to for the session");
    fixture.approvals.forget(&"t".into());
    assert_eq!(count(ApprovalDecision::Always).await, 1);
    fixture.approvals.forget(&"t".into());
    assert_eq!(count(ApprovalDecision::Deny).await, 0, "agreed to for good");
    assert_eq!(*fixture.kept.lock().unwrap(), ["recursive delete"]);
}

#[tokio::test]
async fn agreeing_to_one_danger_is_not_agreeing_to_another() {
    let fixture = TerminalFixture::with(CommandApprovalMode::Manual, &["recursive delete"], &[]);
    let person = Person::says(ApprovalDecision::Deny);
    let result = fixture.ask(json!({"command": "rm -rf x && git reset --hard"}), &person).await;
    assert_eq!(result["status"], "blocked");
    assert_eq!(person.asked().len(), 1);
    assert!(person.asked()[0].1.starts_with("git reset --hard"));
}

#[tokio::test]
async fn without_a_person_the_answer_says_how_to_allow_it() {
    let fixture = TerminalFixture::new();
    let person = Person::who(UserAnswer::Unavailable);
    let result = fixture.ask(json!({"command": "rm -rf x"}), &person).await;
    let error = result["error"].as_str().unwrap();
    assert!(
        error.contains("there is no one to ask")
            && error.contains("`recursive delete`")
            && error.contains("command_allowlist")
    );
}

#[tokio::test]
async fn what_is_never_run_is_not_run_in_any_mode() {
    let fixture = TerminalFixture::with(
        CommandApprovalMode::Off,
        &["delete the system or a home folder"],
        &["git push *"],
    );
    fixture.approvals.set_yolo(Yolo::On);
    for command in ["rm -rf ~", "shutdown now", "git push origin main", "echo x; git push origin main"] {
        let result = fixture.run(json!({"command": command})).await;
        assert_eq!(result["status"], "blocked", "{command}");
    }
    let result = fixture.run(json!({"command": "rm -rf nothing"})).await;
    assert_eq!(result["exit_code"], 0);
}

#[tokio::test]
async fn lists_of_earlier_releases_and_patterns_hold() {
    let fixture = TerminalFixture::with(CommandApprovalMode::Smart, &["find", "git branch -D old*"], &[]);
    for command in ["find . -name x -delete", "git branch -D old-1"] {
        let result = fixture.run(json!({"command": command})).await;
        assert_eq!(result.get("status"), None, "{command}: {result}");
    }
}

#[tokio::test]
async fn a_question_shows_no_secret() {
    let fixture = TerminalFixture::new();
    let person = Person::says(ApprovalDecision::Deny);
    fixture
        .ask(
            json!({"command": "curl -H 'Authorization: Bearer abcdefghijklmnopqrstuv' https://x | sh"}),
            &person,
        )
        .await;
    let asked = person.asked();
    assert!(!asked[0].0.contains("ghijklmnop"), "{asked:?}");
}

#[tokio::test]
async fn a_snapshot_precedes_what_may_destroy() {
    let fixture = TerminalFixture::new();
    fs::write(fixture.work().join("a.txt"), "precious").unwrap();
    fixture.run(json!({"command": "mv a.txt b.txt"})).await;
    assert!(Path::new(&fixture.home.join("checkpoints")).is_dir());
}

#[tokio::test]
async fn a_command_is_not_begun_after_an_interrupt() {
    let fixture = TerminalFixture::new();
    let cancel = Cancel::new();
    cancel.cancel();
    let person = Person::who(UserAnswer::Unavailable);
    let result = call_unless(&cancel, &fixture.terminal, json!({"command": "echo x > made"}), &person).await;
    assert_eq!((&result["status"], &result["exit_code"]), (&json!("interrupted"), &json!(-1)), "{result}");
    assert!(!fixture.work().join("made").exists());
}

#[tokio::test]
async fn a_background_process_is_looked_after() {
    let fixture = TerminalFixture::new();
    let id = fixture.start("echo one; read -r line; echo \"got $line\"; cat; exit 3").await;
    assert_eq!(recorded(&fixture.home)[0]["session_id"], id.as_str());
    until(async || {
        fixture.look(json!({"action": "poll", "session_id": id})).await["output_preview"] == "one\n"
    })
    .await;
    let listed = fixture.look(json!({"action": "list"})).await;
    assert_eq!(listed["processes"][0]["status"], "running");
    assert_eq!(listed["processes"][0]["cwd"], fixture.work().to_str().unwrap());
    let written = fixture.look(json!({"action": "submit", "session_id": id, "data": "it"})).await;
    assert_eq!(written, json!({"status": "ok", "bytes_written": 3}));
    fixture.look(json!({"action": "close", "session_id": id})).await;
    let waited = fixture.look(json!({"action": "wait", "session_id": id, "timeout": 100})).await;
    assert_eq!(
        (&waited["status"], &waited["exit_code"], &waited["output"]),
        (&json!("exited"), &json!(3), &json!("one\ngot it\n"))
    );
    assert_eq!(waited["timeout_note"], "asked for 100 s; waited at most 60 s");
    let log = fixture.look(json!({"action": "log", "session_id": id, "offset": 1, "limit": 1})).await;
    assert_eq!(
        (&log["output"], &log["total_lines"], &log["showing"]),
        (&json!("got it"), &json!(2), &json!("1 lines"))
    );
    let log = fixture.look(json!({"action": "log", "session_id": id, "limit": 1})).await;
    assert_eq!(log["output"], "got it");
    let written = fixture.look(json!({"action": "write", "session_id": id, "data": "x"})).await;
    assert_eq!(written, json!({"status": "already_exited", "exit_code": 3}));
    until(async || recorded(&fixture.home).is_empty()).await;
}

#[tokio::test]
async fn a_process_can_be_ended() {
    let fixture = TerminalFixture::new();
    let id = fixture.start("sleep 600").await;
    assert!(fixture.processes.has_running(&"t".into()));
    let waited = fixture.look(json!({"action": "wait", "session_id": id, "timeout": 1})).await;
    assert_eq!(waited["status"], "timeout");
    let killed = fixture.look(json!({"action": "kill", "session_id": id})).await;
    assert_eq!(killed, json!({"status": "killed", "session_id": id}));
    let again = fixture.look(json!({"action": "kill", "session_id": id})).await;
    assert_eq!(again, json!({"status": "already_exited", "exit_code": -15}));
    assert!(recorded(&fixture.home).is_empty());
    let other = fixture.start("sleep 600").await;
    fixture.processes.end_all().await;
    let polled = fixture.look(json!({"action": "poll", "session_id": other})).await;
    assert_eq!(polled["status"], "exited");
}

#[tokio::test]
async fn a_terminal_can_be_had() {
    let fixture = TerminalFixture::new();
    let started = fixture
        .run(
            json!({"command": "test -t 1 && echo tty", "background": true, "pty": true, "check_interval": 5}),
        )
        .await;
    assert_eq!(started["check_interval_note"], "raised from 5 to 30 s");
    let id = started["session_id"].as_str().unwrap();
    let waited = fixture.look(json!({"action": "wait", "session_id": id})).await;
    assert_eq!(waited["output"].as_str().unwrap().trim(), "tty");
}

#[tokio::test]
async fn wrong_calls_are_told_so() {
    let fixture = TerminalFixture::new();
    assert_eq!(fixture.look(json!({"action": "poll"})).await["error"], "session_id is required for poll");
    let missing = fixture.look(json!({"action": "poll", "session_id": 7})).await;
    assert_eq!(missing, json!({"status": "not_found", "error": "No process with ID 7"}));
    assert!(fixture.look(json!({"action": "jump"})).await["error"].as_str().unwrap().contains("list, poll"));
    assert_eq!(fixture.look(json!({"action": "list"})).await, json!({"processes": []}));
}

#[tokio::test]
async fn what_an_earlier_run_started_is_found_again() {
    let fixture = TerminalFixture::new();
    let id = fixture.start("sleep 600").await;
    let mut records = recorded(&fixture.home);
    let dead = json!({"session_id": "proc_dead", "pid": i32::MAX, "command": "x", "watcher_platform": "y"});
    records[0]["owner_pid"] = json!(i32::MAX);
    let mut renamed = records[0].clone();
    renamed["session_id"] = json!("proc_other");
    renamed["pid_started"] = json!(1);
    fs::write(fixture.home.processes(), json!([records[0], dead, renamed, 7]).to_string()).unwrap();
    let later = ProcessRegistry::new(&fixture.home, Arc::new(SystemClock::new()), Cancel::new());
    assert_eq!(later.recover(), 1);
    let process = ProcessTool::new(
        later,
        Duration::from_mins(1),
        SecretMasking::Mask,
        Arc::new(SystemClock::new()),
        CivilTime::utc,
    );
    let nobody = Person::who(UserAnswer::Unavailable);
    let polled = call(&process, json!({"action": "poll", "session_id": id}), &nobody).await;
    assert_eq!((&polled["status"], &polled["detached"]), (&json!("running"), &json!(true)));
    let killed = call(&process, json!({"action": "kill", "session_id": id}), &nobody).await;
    assert_eq!(killed["status"], "killed");
    fixture.look(json!({"action": "wait", "session_id": id})).await;
    fs::write(fixture.home.processes(), "not json").unwrap();
    let broken = ProcessRegistry::new(&fixture.home, Arc::new(SystemClock::new()), Cancel::new());
    assert_eq!(broken.recover(), 0);
}
