//! Tests of Modal sandboxes with a fake of the gateway that manages them, which runs command lines on this
//! machine.
#![expect(clippy::disallowed_methods, reason = "the stand-in starts what it is asked to run")]

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_exec::{
    CredentialFiles, ForwardedVariables, HostExposure, InstanceRetention, ModalGateway, ModalGatewayBackend,
    ModalGatewayEnvironment, ModalOptions, OutputBounds, RemoteBackend, RemoteFiles, ResourceLimits,
};
use hermes_net::{Config, HttpClient, ProxyMode};
use hermes_task::{SystemClock, Task, spawn_named};
use hermes_types::{Cancel, Environment, RunError, Secret, ShellCommand};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use super::files::works_on_files;
use super::http::{RecordedHttpRequest, serve};
use super::remote::{RemoteFixture, keeps_its_state, speaks_plainly, takes_input};
use super::support::LONG;

#[derive(Default)]
struct State {
    /// The request for each sandbox; `None` once the sandbox was ended.
    sandboxes: Vec<Option<Value>>,
    /// The response to each command line, once there is one, and the handle that cancels it.
    execs: HashMap<String, (Option<Value>, Cancel)>,
    ended: Vec<Value>,
    keys: Vec<String>,
}

struct Gateway {
    service: Arc<ModalGateway>,
    state: Arc<Mutex<State>>,
    home: TempDir,
    address: String,
    _task: Task<()>,
}

impl Gateway {
    async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let home = tempfile::tempdir().unwrap();
        let (shared, folder) = (Arc::clone(&state), home.path().to_owned());
        let (address, task) = serve(Arc::new(move |asked| {
            let (state, folder) = (Arc::clone(&shared), folder.clone());
            Box::pin(async move { answer(&asked, &state, &folder) })
        }))
        .await;
        let clock = Arc::new(SystemClock::new());
        let client =
            HttpClient::new(Config { proxies: ProxyMode::Direct, ..Config::new(clock.clone()) }).unwrap();
        let service = ModalGateway::new(client, &address, Secret::new("token"), clock);
        Self { service, state, home, address, _task: task }
    }

    fn options(&self, keep: InstanceRetention) -> ModalOptions {
        ModalOptions {
            task: "task".to_owned(),
            image: "python:3.11-slim".to_owned(),
            directory: Some(self.home.path().to_str().unwrap().to_owned()),
            exports: ForwardedVariables::select(["FORWARDED"], |_| Some("f".to_owned()), |_| None),
            limits: ResourceLimits { cpus: 1.0, memory_mb: 1024, disk_mb: 0 },
            retention: keep,
            idle: Duration::from_mins(5),
            bounds: OutputBounds::default(),
        }
    }

    fn open(&self, keep: InstanceRetention) -> Arc<ModalGatewayEnvironment> {
        self.service.open(self.options(keep))
    }
}

fn answer(asked: &RecordedHttpRequest, state: &Arc<Mutex<State>>, home: &std::path::Path) -> (u16, Value) {
    if asked.header("authorization") != Some("Bearer token") {
        return (401, json!({ "message": "Unauthorized" }));
    }
    let mut now = state.lock().unwrap();
    let path: Vec<&str> = asked.path.trim_start_matches('/').split('/').collect();
    match (asked.method.as_str(), path.as_slice()) {
        ("POST", ["v1", "sandboxes"]) => {
            now.keys.push(asked.header("x-idempotency-key").unwrap().to_owned());
            now.sandboxes.push(Some(asked.body.clone()));
            (200, json!({ "id": format!("{}", now.sandboxes.len() - 1) }))
        }
        ("POST", ["v1", "sandboxes", id, "terminate"]) => {
            now.sandboxes[id.parse::<usize>().unwrap()] = None;
            now.ended.push(asked.body.clone());
            (200, json!({}))
        }
        ("POST", ["v1", "sandboxes", id, "execs"]) => {
            if now.sandboxes[id.parse::<usize>().unwrap()].is_none() {
                return (404, json!({ "message": "no such sandbox" }));
            }
            let name = asked.body["execId"].as_str().unwrap().to_owned();
            let cancel = Cancel::new();
            now.execs.insert(name.clone(), (None, cancel.clone()));
            let (state, body, home) = (Arc::clone(state), asked.body.clone(), home.to_owned());
            drop(spawn_named("exec", &Cancel::new(), async move {
                let value = execute(&body, &home, &cancel).await;
                state.lock().unwrap().execs.get_mut(&name).unwrap().0 = Some(value);
            }));
            (202, json!({}))
        }
        ("GET", ["v1", "sandboxes", _, "execs", name]) => match now.execs.get(*name) {
            Some((Some(value), _)) => (200, value.clone()),
            Some((None, _)) => (200, json!({ "status": "running" })),
            None => (404, json!({})),
        },
        ("POST", ["v1", "sandboxes", _, "execs", name, "cancel"]) => {
            now.execs.get(*name).unwrap().1.cancel();
            (200, json!({}))
        }
        other => panic!("{other:?}"),
    }
}

async fn execute(body: &Value, home: &std::path::Path, cancel: &Cancel) -> Value {
    let limit = Duration::from_millis(body["timeoutMs"].as_u64().unwrap());
    let mut child = tokio::process::Command::new("bash")
        .args(["-c", &format!("exec 2>&1; {}", body["command"].as_str().unwrap())])
        .current_dir(body["cwd"].as_str().unwrap())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut input, text) = (child.stdin.take().unwrap(), body["stdinData"].as_str().unwrap().to_owned());
    let feed = async move {
        let _ = input.write_all(text.as_bytes()).await;
    };
    tokio::select! {
        () = cancel.cancelled() => json!({ "status": "cancelled", "output": "" }),
        () = tokio::time::sleep(limit) => json!({ "status": "timeout", "output": "" }),
        ((), output) = async { tokio::join!(feed, child.wait_with_output()) } => {
            let output = output.unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            json!({ "status": "completed", "output": text, "returncode": output.status.code() })
        }
    }
}

#[tokio::test]
async fn commands_run_as_they_do_here() {
    let gateway = Gateway::start().await;
    let place = gateway.open(InstanceRetention::Ephemeral);
    let there = RemoteFixture(&*place);
    speaks_plainly(there).await;
    takes_input(there).await;
    there.check("echo $FORWARDED", "f\n").await;
    keeps_its_state(there, gateway.home.path().join("x").to_str().unwrap()).await;
    works_on_files(RemoteFiles::new(&*place, OutputBounds::default()), there).await;
    place.close().await;
    assert_eq!(gateway.state.lock().unwrap().ended, [json!({ "snapshotBeforeTerminate": false })]);
}

#[tokio::test]
async fn a_sandbox_is_asked_for_by_a_key_and_made_again_when_it_is_gone() {
    let gateway = Gateway::start().await;
    let place = gateway.open(InstanceRetention::Persistent);
    RemoteFixture(&*place).check("echo one", "one\n").await;
    let asked = gateway.state.lock().unwrap().sandboxes[0].clone().unwrap();
    let home = gateway.home.path().to_str().unwrap();
    assert_eq!(
        asked,
        json!({
            "image": "python:3.11-slim", "cwd": home, "timeoutMs": 3_600_000, "idleTimeoutMs": 300_000,
            "persistentFilesystem": true, "logicalKey": "task", "cpu": 1.0, "memoryMiB": 1024,
        })
    );
    // The gateway ended the sandbox without a request.
    gateway.state.lock().unwrap().sandboxes[0] = None;
    RemoteFixture(&*place).check("echo two", "two\n").await;
    place.close().await;
    let state = gateway.state.lock().unwrap();
    assert_eq!(state.sandboxes.len(), 2);
    assert_ne!(state.keys[0], state.keys[1]);
    assert_eq!(state.ended, [json!({ "snapshotBeforeTerminate": true })]);
}

#[tokio::test]
async fn time_and_interrupts_end_a_command() {
    let gateway = Gateway::start().await;
    let place = gateway.open(InstanceRetention::Ephemeral);
    let there = RemoteFixture(&*place);
    let cancel = Cancel::new();
    there.check("true", "").await;
    let late = there.run_with("sleep 600", None, None, Duration::from_secs(1), &cancel).await;
    assert_eq!((late.output.as_str(), late.exit_code), ("Command timed out after 1s", 124));
    let flag = gateway.home.path().join("begun");
    let command = format!("touch {}; sleep 600", flag.display());
    let (stopped, ()) = tokio::join!(there.run_with(&command, None, None, LONG, &cancel), async {
        super::support::until(|| flag.exists()).await;
        cancel.cancel();
    });
    assert_eq!((stopped.output.as_str(), stopped.exit_code), ("\n[Command interrupted]", 130));
    there.check("echo still here", "still here\n").await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_said() {
    let gateway = Gateway::start().await;
    let clock = Arc::new(SystemClock::new());
    let client =
        HttpClient::new(Config { proxies: ProxyMode::Direct, ..Config::new(clock.clone()) }).unwrap();
    let other = ModalGateway::new(client, &gateway.address, Secret::new("wrong"), clock);
    let place = other.open(gateway.options(InstanceRetention::Ephemeral));
    let command = ShellCommand { shell: "true", directory: None, stdin: None, timeout: LONG };
    let refused = place.run(command, &Cancel::new()).await;
    assert!(
        matches!(&refused, Err(RunError::Unavailable(text)) if text.contains("401") && !text.contains("wrong")),
        "{refused:?}"
    );
}

/// Checks that credential files are uploaded where nothing can be mounted, again when they change, and to a
/// new sandbox.
#[tokio::test]
async fn credential_files_are_brought_and_kept_fresh() {
    let gateway = Gateway::start().await;
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("google")).unwrap();
    std::fs::write(home.path().join("google/token.json"), "first").unwrap();
    let credentials = CredentialFiles::new(home.path());
    credentials.add("google/token.json").unwrap();
    let options = gateway.options(InstanceRetention::Ephemeral);
    let backend = ModalGatewayBackend { gateway: Arc::clone(&gateway.service), options };
    let elsewhere = RemoteBackend { backend: Arc::new(backend), credentials };
    assert_eq!(elsewhere.host_exposure(), HostExposure::Isolated);
    let seat = elsewhere.open("task").open_session();
    let show = "cat ~/.hermes/google/token.json; stat -c ' %a' ~/.hermes/google/token.json";
    RemoteFixture(&seat).check(show, "first 600\n").await;
    std::fs::write(home.path().join("google/token.json"), "second").unwrap();
    RemoteFixture(&seat).check(show, "second 600\n").await;
    // The gateway ended the sandbox; the new one has none of the files.
    std::fs::remove_dir_all(gateway.home.path().join(".hermes")).unwrap();
    gateway.state.lock().unwrap().sandboxes[0] = None;
    RemoteFixture(&seat).check("true", "").await;
    RemoteFixture(&seat).check(show, "second 600\n").await;
}
