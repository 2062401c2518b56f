//! Tests of the notices about background processes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{LocalHost, LocalOptions, OutputBounds, Sandbox, Variables};
use hermes_task::SystemClock;
use hermes_testkit::TestClock;
use hermes_tools::{
    Approvals, CommandApprovalMode, ProcessNotice, ProcessNoticeKind, ProcessNoticeSink, ProcessRegistry,
    SecretMasking, TaskFolders, TaskShells, TerminalOptions, TerminalTool,
};
use hermes_types::{Cancel, Clock, Deadline, Tool, ToolContext, ToolInvocation};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{UnattendedUser, parse};

#[derive(Debug, Clone, Default)]
struct Heard(Arc<Mutex<Vec<ProcessNotice>>>);

impl ProcessNoticeSink for Heard {
    fn notify(&self, notice: ProcessNotice) {
        self.0.lock().unwrap().push(notice);
    }
}

impl Heard {
    async fn wait_for(&self, count: usize) -> Vec<ProcessNotice> {
        loop {
            let heard = self.0.lock().unwrap().clone();
            if heard.len() >= count {
                return heard;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A fixture in which commands run in real time and are watched with a test clock.
struct Post {
    top: TempDir,
    clock: TestClock,
    heard: Heard,
    processes: ProcessRegistry,
    terminal: TerminalTool,
}

impl Post {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        let home = Home::new(root.join("home"));
        let text = root.to_str().unwrap();
        let options = LocalOptions {
            variables: Variables::for_commands(
                [("HOME", text), ("PATH", "/usr/local/bin:/usr/bin:/bin")],
                &[],
                &[],
            ),
            temp: root.clone(),
            bounds: OutputBounds::default(),
            sandbox: Sandbox::off(),
        };
        let system: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let clock = TestClock::new();
        let shells = TaskShells::new(LocalHost::new(options, system.clone()), TaskFolders::new(root.clone()));
        let processes = ProcessRegistry::new(&home, Arc::new(clock.clone()), Cancel::new());
        let heard = Heard::default();
        processes.report_to(Arc::new(heard.clone()));
        let approvals = Arc::new(Approvals::new(CommandApprovalMode::Off, Vec::new(), |_| {}));
        let options = TerminalOptions {
            timeout: Duration::from_mins(1),
            user_home: root.clone(),
            hermes_home: root.join("home"),
            secrets: SecretMasking::Mask,
        };
        let terminal = TerminalTool::new(options, shells, processes.clone(), approvals, system);
        Self { top, clock, heard, processes, terminal }
    }

    async fn start(&self, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let call = ToolInvocation {
            id: "call_1".into(),
            name: "terminal".to_owned(),
            arguments,
            session: "conversation".into(),
            turn: "turn".into(),
            task: "t".into(),
        };
        let cancel = Cancel::new();
        let deadline = Deadline::after(&SystemClock::new(), Duration::from_mins(5));
        let context = ToolContext {
            frontend: &UnattendedUser,
            cancel: &cancel,
            deadline,
            spawn: None,
            turn_model: None,
        };
        parse(&self.terminal.run(&call, context).await)
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.top.path().join(name), "").unwrap();
    }
}

#[tokio::test]
async fn an_end_is_told_once_with_its_code_and_its_last_words() {
    let post = Post::new();
    let started = post
        .start(json!({
            "command": "echo API_KEY=abcdefghij; exit 3", "background": true, "notify_on_complete": true,
            "watch_patterns": ["API"],
        }))
        .await;
    assert_eq!((&started["notify_on_complete"], &started["watch_patterns"]), (&json!(true), &Value::Null));
    let heard = post.heard.wait_for(1).await;
    let notice = &heard[0];
    assert_eq!((notice.kind, notice.session.as_str()), (ProcessNoticeKind::Ended(3), "conversation"));
    assert_eq!(notice.process, started["session_id"].as_str().unwrap());
    assert!(notice.text.contains("ended with exit code 3"), "{}", notice.text);
    assert!(!notice.text.contains("abcdefghij"), "{}", notice.text);
    // A process started without notices sends none.
    post.start(json!({"command": "true", "background": true})).await;
    post.start(json!({"command": "true", "background": true, "notify_on_complete": true})).await;
    assert_eq!(post.heard.wait_for(2).await.len(), 2);
}

#[tokio::test]
async fn progress_is_told_while_there_is_some() {
    let post = Post::new();
    let command =
        "echo one; until [ -e go ]; do sleep 0.02; done; echo two; until [ -e end ]; do sleep 0.02; done";
    let started = post.start(json!({"command": command, "background": true, "check_interval": 5})).await;
    assert_eq!(started["check_interval_note"], "raised from 5 to 30 s");
    // The clock advances until the expected notice arrives.
    let next = async |count: usize| loop {
        post.clock.advance(Duration::from_secs(31));
        tokio::time::sleep(Duration::from_millis(20)).await;
        if post.heard.0.lock().unwrap().len() >= count {
            return post.heard.0.lock().unwrap()[count - 1].clone();
        }
    };
    let first = next(1).await;
    assert_eq!(first.kind, ProcessNoticeKind::Running);
    assert!(first.text.ends_with("is still running]\none\n"), "{}", first.text);
    post.touch("go");
    let second = next(2).await;
    assert!(second.text.ends_with("one\ntwo\n"), "{}", second.text);
    for _ in 0..3 {
        post.clock.advance(Duration::from_secs(31));
        tokio::task::yield_now().await;
    }
    post.touch("end");
    let last = next(3).await;
    assert_eq!(last.kind, ProcessNoticeKind::Ended(0), "nothing was said that was not new");
}

#[tokio::test]
async fn patterns_are_told_and_a_flood_of_them_is_not() {
    let post = Post::new();
    let command = "echo listening on 80; n=0; until [ -e end ]; do echo listening again; sleep 0.02; done";
    let started = post
        .start(json!({"command": command, "background": true, "watch_patterns": ["listening", ""]}))
        .await;
    assert_eq!(started["watch_patterns"], json!(["listening"]));
    let heard = loop {
        post.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(25)).await;
        let heard = post.heard.0.lock().unwrap().clone();
        if heard.last().is_some_and(|notice| notice.kind == ProcessNoticeKind::Muted) {
            break heard;
        }
    };
    let kinds: Vec<ProcessNoticeKind> = heard.iter().map(|notice| notice.kind).collect();
    assert_eq!(
        kinds,
        [
            ProcessNoticeKind::Matched,
            ProcessNoticeKind::Matched,
            ProcessNoticeKind::Matched,
            ProcessNoticeKind::Muted
        ]
    );
    assert!(heard[0].text.ends_with("`listening` appeared]\nlistening on 80"), "{}", heard[0].text);
    post.touch("end");
    let heard = post.heard.wait_for(5).await;
    assert_eq!(heard[4].kind, ProcessNoticeKind::Ended(0), "only its end is told");
    post.processes.end_all().await;
}

/// Checks that a later start goes on watching what a dead one watched, and reports what ended in between.
#[tokio::test]
async fn ends_are_told_after_a_restart_of_the_program() {
    let post = Post::new();
    let wait = |file: &str| format!("until [ -e {file} ]; do sleep 0.02; done");
    post.start(json!({"command": wait("a"), "background": true, "notify_on_complete": true})).await;
    post.start(json!({"command": wait("b"), "background": true, "watch_patterns": ["never"]})).await;
    post.start(json!({"command": wait("c"), "background": true})).await;
    let home = Home::new(post.top.path().canonicalize().unwrap().join("home"));
    let mut records: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(home.processes()).unwrap()).unwrap();
    for record in &mut records {
        record["owner_pid"] = json!(i32::MAX);
    }
    let wanted: Vec<&Value> = records.iter().map(|record| &record["notify_on_complete"]).collect();
    assert_eq!(wanted, [&json!(true), &json!(true), &json!(false)]);
    // The first process ended while nobody watched.
    records[0]["pid"] = json!(i32::MAX);
    std::fs::write(home.processes(), json!(records).to_string()).unwrap();
    let later = ProcessRegistry::new(&home, Arc::new(SystemClock::new()), Cancel::new());
    let heard = Heard::default();
    later.report_to(Arc::new(heard.clone()));
    assert_eq!(later.recover(), 2);
    let missed = heard.wait_for(1).await.remove(0);
    assert!(missed.text.contains("ended while Hermes was not running"), "{}", missed.text);
    assert_eq!((missed.session.as_str(), missed.kind), ("conversation", ProcessNoticeKind::Ended(-1)));
    post.touch("c");
    post.touch("b");
    let seen = heard.wait_for(2).await.remove(1);
    assert_eq!(seen.process, records[1]["session_id"].as_str().unwrap(), "nobody asked about the third");
    assert!(seen.text.contains("its exit code is not known"), "{}", seen.text);
    post.processes.end_all().await;
}
