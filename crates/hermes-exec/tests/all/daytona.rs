//! Tests of Daytona sandboxes with a fake service, which keeps their states and runs commands on this
//! machine.
#![expect(clippy::disallowed_methods, reason = "the stand-in starts what it is asked to run")]

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use hermes_exec::{
    DaytonaAccount, DaytonaEnvironment, DaytonaOptions, ForwardedVariables, InstanceRetention, OutputBounds,
    RemoteFiles, ResourceLimits,
};
use hermes_net::{Config, HttpClient, ProxyMode};
use hermes_task::{SystemClock, Task};
use hermes_types::{Cancel, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::files::works_on_files;
use super::http::{RecordedHttpRequest, serve};
use super::remote::{RemoteFixture, keeps_its_state, speaks_plainly, takes_input};
use super::support::LONG;

/// The state of the service: at most one sandbox, and the received requests.
#[derive(Default)]
struct State {
    sandbox: Option<(String, &'static str)>,
    asked: Vec<String>,
}

struct Service {
    account: Arc<DaytonaAccount>,
    state: Arc<Mutex<State>>,
    home: TempDir,
    _task: Task<()>,
}

impl Service {
    async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let home = tempfile::tempdir().unwrap();
        let (shared, folder) = (Arc::clone(&state), home.path().to_owned());
        let (address, task) = serve(Arc::new(move |asked| {
            let (state, folder) = (Arc::clone(&shared), folder.clone());
            Box::pin(async move { answer(asked, &state, &folder).await })
        }))
        .await;
        let address = format!("{address}/api/");
        let clock = Arc::new(SystemClock::new());
        let client =
            HttpClient::new(Config { proxies: ProxyMode::Direct, ..Config::new(clock.clone()) }).unwrap();
        let account = DaytonaAccount::new(client, Some(&address), Secret::new("key"), clock).unwrap();
        Self { account, state, home, _task: task }
    }

    fn open(&self, keep: InstanceRetention) -> Arc<DaytonaEnvironment> {
        self.account.open(DaytonaOptions {
            task: "task".to_owned(),
            image: "python:3.11-slim".to_owned(),
            directory: None,
            exports: ForwardedVariables::select(["FORWARDED"], |_| Some("f".to_owned()), |_| None),
            limits: ResourceLimits { cpus: 1.0, memory_mb: 1024, disk_mb: 1024 },
            retention: keep,
            bounds: OutputBounds::default(),
        })
    }

    fn set(&self, state: &'static str) {
        self.state.lock().unwrap().sandbox.as_mut().unwrap().1 = state;
    }

    /// Returns the requests since the last call, without commands.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }
}

async fn answer(asked: RecordedHttpRequest, state: &Mutex<State>, home: &std::path::Path) -> (u16, Value) {
    let path = asked.path.strip_prefix("/api/").unwrap();
    if asked.header("authorization") != Some("Bearer key") {
        (401, json!({ "message": "Unauthorized" }))
    } else if path.ends_with("/process/execute") {
        execute(state, &asked.body, home).await
    } else {
        manage(&mut state.lock().unwrap(), &asked.method, path, &asked.body)
    }
}

async fn execute(state: &Mutex<State>, body: &Value, home: &std::path::Path) -> (u16, Value) {
    if state.lock().unwrap().sandbox.as_ref().is_none_or(|(_, state)| *state != "started") {
        return (400, json!({ "message": "sandbox is not started" }));
    }
    let output = tokio::process::Command::new("sh")
        .args(["-c", body["command"].as_str().unwrap()])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (200, json!({ "exitCode": output.status.code().unwrap_or(-1), "result": text }))
}

fn manage(state: &mut State, method: &str, path: &str, body: &Value) -> (u16, Value) {
    state.asked.push(format!("{method} {path}"));
    let show = |state: &State| match &state.sandbox {
        Some((name, state)) => (200, json!({ "id": "id-1", "name": name, "state": state })),
        None => (404, json!({ "message": "not found" })),
    };
    match (method, path) {
        ("GET", "sandbox/id-1") => {
            let answer = show(state);
            if let Some((_, now)) = &mut state.sandbox
                && *now == "starting"
            {
                *now = "started";
            }
            answer
        }
        ("GET", path) if path.starts_with("sandbox?") => {
            let all = state.sandbox.as_ref().map(|(_, state)| json!({ "id": "id-1", "state": state }));
            (200, json!({ "items": all.into_iter().collect::<Vec<_>>() }))
        }
        ("GET", _) => {
            if state.sandbox.as_ref().is_some_and(|(name, _)| path.ends_with(name.as_str())) {
                show(state)
            } else {
                (404, json!({}))
            }
        }
        ("POST", "sandbox") => {
            state.sandbox = Some((body["name"].as_str().unwrap().to_owned(), "starting"));
            show(state)
        }
        ("POST", "sandbox/id-1/start") => {
            state.sandbox.as_mut().unwrap().1 = "starting";
            show(state)
        }
        ("POST", "sandbox/id-1/stop") => {
            state.sandbox.as_mut().unwrap().1 = "stopped";
            show(state)
        }
        ("DELETE", "sandbox/id-1") => {
            state.sandbox = None;
            (200, json!({}))
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn commands_run_as_they_do_here() {
    let service = Service::start().await;
    let place = service.open(InstanceRetention::Ephemeral);
    let there = RemoteFixture(&*place);
    speaks_plainly(there).await;
    takes_input(there).await;
    there.check("echo $FORWARDED; [ \"$PWD\" = ~ ] && echo home", "f\nhome\n").await;
    keeps_its_state(there, service.home.path().join("x").to_str().unwrap()).await;
    works_on_files(RemoteFiles::new(&*place, OutputBounds::default()), there).await;
    place.close().await;
    assert!(service.state.lock().unwrap().sandbox.is_none());
}

#[tokio::test]
async fn a_sandbox_that_lasts_is_found_again_and_started() {
    let service = Service::start().await;
    let place = service.open(InstanceRetention::Persistent);
    let there = RemoteFixture(&*place);
    there.check("export A=1; cd /usr", "").await;
    let look = "GET sandbox/hermes-task".to_owned();
    let label = "GET sandbox?labels=%7B%22hermes_task_id%22%3A%22task%22%7D".to_owned();
    assert_eq!(
        service.asked(),
        [
            look.clone(),
            label,
            "POST sandbox".to_owned(),
            "GET sandbox/id-1".to_owned(),
            "GET sandbox/id-1".to_owned()
        ]
    );
    place.close().await;
    assert_eq!(service.asked(), ["POST sandbox/id-1/stop"]);
    there.check("pwd", "/usr\n").await;
    assert_eq!(service.asked()[..2], [look, "POST sandbox/id-1/start".to_owned()]);
    // The sandbox is stopped from outside: nothing of the call has run, so it runs after a start.
    service.set("archived");
    there.check("pwd", "/usr\n").await;
    place.close().await;
}

#[tokio::test]
async fn time_and_interrupts_end_a_command() {
    let service = Service::start().await;
    let place = service.open(InstanceRetention::Persistent);
    let there = RemoteFixture(&*place);
    there.check("true", "").await;
    let cancel = Cancel::new();
    let second = std::time::Duration::from_secs(1);
    let late = there.run_with("echo a; sleep 600", None, None, second, &cancel).await;
    assert_eq!(late.exit_code, 124, "{late:?}");
    assert!(
        late.output.starts_with("a\n") && late.output.ends_with("[Command timed out after 1s]"),
        "{late:?}"
    );
    let begun = service.home.path().join("begun");
    let (stopped, ()) = tokio::join!(
        there.run_with("echo $$ > ~/b; mv ~/b ~/begun; sleep 30", None, None, LONG, &cancel),
        async {
            super::support::until(|| begun.exists()).await;
            cancel.cancel();
        }
    );
    assert_eq!((stopped.output.as_str(), stopped.exit_code), ("\n[Command interrupted]", 130));
    assert_eq!(service.state.lock().unwrap().sandbox.as_ref().unwrap().1, "stopped");
    there.check("echo again", "again\n").await;
    // A real sandbox would have ended the process.
    there.check("kill -9 -- -$(cut -d' ' -f5 /proc/$(cat ~/begun)/stat)", "").await;
    place.close().await;
}

#[tokio::test]
async fn a_key_that_is_missing_or_refused_is_said() {
    let clock = Arc::new(SystemClock::new());
    let client = HttpClient::new(Config::new(clock.clone())).unwrap();
    let none = DaytonaAccount::new(client, None, Secret::new(""), clock).unwrap_err();
    assert!(none.to_string().contains("DAYTONA_API_KEY"));
}
