//! `hermes gateway`: the complete process, from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hermes_store::Store;
use hermes_testkit::telegram::FakeTelegram;
use hermes_testkit::{ModelScript, ModelServer, TempHome};
use hermes_types::random_hex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{program, until};

const KEY: &str = "0123456789abcdef0123456789abcdef";

const SCRIPT: &str =
    "replies: [{when: {user_contains: say hello}, repeat: forever, text: Hello wörld 日本}]\n";

pub(crate) struct GatewayHome {
    pub(crate) server: ModelServer,
    pub(crate) home: TempHome,
    port: u16,
}

pub(crate) struct RunningGateway<'a> {
    child: Child,
    place: &'a GatewayHome,
}

impl GatewayHome {
    fn new(script: &str) -> Self {
        Self::with(ModelScript::from_yaml("gateway", script).unwrap())
    }

    pub(crate) fn with(script: ModelScript) -> Self {
        Self::configured(script, json!({}))
    }

    /// Creates a home with these keys in the configuration.
    pub(crate) fn configured(script: ModelScript, more: Value) -> Self {
        let server = ModelServer::start_blocking(script).unwrap();
        let port = free_port();
        let mut config = more;
        config["model"]["provider"] = json!("custom");
        config["model"]["base_url"] = json!(server.base_url());
        config["model"]["default"] = json!("peer-model");
        let env = format!(
            "API_SERVER_ENABLED=1\nAPI_SERVER_HOST=127.0.0.1\nAPI_SERVER_PORT={port}\nAPI_SERVER_KEY={KEY}\n"
        );
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir(home.join("user")).unwrap();
        Self { server, home, port }
    }

    /// Adds lines to `.env`.
    pub(crate) fn add_env(&self, lines: &str) {
        let text = format!("{}{lines}", self.home.read(".env"));
        std::fs::write(self.home.join(".env"), text).unwrap();
    }

    fn hermes(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .current_dir(self.home.join("user"))
            .env_clear()
            .env("HERMES_HOME", self.home.path())
            .env("HOME", self.home.join("user"))
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    /// Starts a gateway and waits until it is healthy.
    pub(crate) fn start(&self) -> RunningGateway<'_> {
        let complaints = std::fs::File::create(self.home.join("complaints.txt")).unwrap();
        let child =
            self.hermes(&["gateway", "run"]).stdout(Stdio::null()).stderr(complaints).spawn().unwrap();
        let mut running = RunningGateway { child, place: self };
        until("the gateway is healthy", || {
            let ended = running.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.home.read("complaints.txt"));
            self.request("GET", "/health", "").is_some_and(|(status, _)| status == 200)
        });
        running
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let mut stream = self.send(method, path, body)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split_whitespace().nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or_default()))
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Option<TcpStream> {
        self.send_with(method, path, "", body)
    }

    /// Sends a request with further headers, each ending its line.
    pub(crate) fn send_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.address()).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {KEY}\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        Some(stream)
    }

    fn say(&self, text: &str) -> (u16, String) {
        let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
        let (status, body) = self.request("POST", "/v1/chat/completions", &body).unwrap();
        (status, body["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.hermes(arguments).output().unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap_or(-1), text)
    }
}

impl RunningGateway<'_> {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills the gateway with SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }

    pub(crate) fn wait(mut self) -> i32 {
        until("the gateway has ended", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for RunningGateway<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.place;
    }
}

/// Returns a port that stays free while nothing listens on it: below the range for outgoing connections.
fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let random = || 20_000 + u16::from_str_radix(&random_hex(3), 16).unwrap() * 3;
    std::iter::repeat_with(random).find(is_free).unwrap()
}

#[test]
fn a_gateway_lives_as_a_deployment_expects() {
    let place = GatewayHome::new(SCRIPT);
    let running = place.start();
    assert_eq!(place.say("say hello"), (200, "Hello wörld 日本".to_owned()));
    let (code, text) = place.output(&["gateway", "status"]);
    assert_eq!(code, 0);
    assert!(
        text.contains("✓ Gateway is running (PID: ") && text.contains("✓ api_server: connected"),
        "{text}"
    );
    let (code, text) = place.output(&["gateway", "run"]);
    assert_eq!(code, 1);
    assert!(text.contains("already running") && text.contains("hermes gateway run --replace"), "{text}");
    let state: Value = serde_json::from_str(&place.home.read("gateway_state.json")).unwrap();
    assert_eq!(state["gateway_state"], "running");
    // Memory edited while the gateway runs is read by the next conversation.
    std::fs::create_dir_all(place.home.join("memories")).unwrap();
    std::fs::write(place.home.join("memories/USER.md"), "Prefers tea over coffee.").unwrap();
    place.say("say hello once more");
    let system = place.server.requests().last().unwrap().body_text().into_owned();
    assert!(system.contains("Prefers tea over coffee."), "{system}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
    assert!(!place.home.join("gateway.pid").exists());
    let state: Value = serde_json::from_str(&place.home.read("gateway_state.json")).unwrap();
    assert_eq!(state["gateway_state"], "stopped");
    let log = place.home.read("logs/gateway.log");
    assert!(log.contains("API server listening on http://127.0.0.1:") && !log.contains(KEY), "{log}");
    let (code, seen) = place.output(&["gateway", "status"]);
    assert_eq!(code, 0);
    assert!(seen.contains("Gateway is not running"), "{seen}");
}

#[test]
fn another_gateway_can_take_the_place_of_one() {
    let place = GatewayHome::new(SCRIPT);
    let first = place.start();
    let child = place
        .hermes(&["gateway", "run", "--replace"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let second = RunningGateway { child, place: &place };
    assert_eq!(first.wait(), 0);
    until("the second is healthy", || place.request("GET", "/health", "").is_some());
    assert_eq!(place.say("say hello").0, 200);
    let (code, text) = place.output(&["gateway", "stop"]);
    assert_eq!((code, text.trim()), (0, "✓ Stopped 1 gateway process(es)"));
    assert_eq!(second.wait(), 0);
}

#[test]
fn a_lock_that_a_dead_gateway_left_to_a_child_is_waited_for() {
    let place = GatewayHome::new(SCRIPT);
    let lock = std::fs::File::create(place.home.join("gateway.lock")).unwrap();
    lock.lock().unwrap();
    let complaints = std::fs::File::create(place.home.join("complaints.txt")).unwrap();
    let child = place.hermes(&["gateway", "run"]).stdout(Stdio::null()).stderr(complaints).spawn().unwrap();
    let second = RunningGateway { child, place: &place };
    until("it waits for the lock", || place.home.read("complaints.txt").contains("waiting"));
    drop(lock);
    until("it is healthy", || place.request("GET", "/health", "").is_some());
    second.signal(Signal::TERM);
    assert_eq!(second.wait(), 0);
}

#[test]
fn restarting_without_a_service_runs_another_in_the_foreground() {
    let place = GatewayHome::new(SCRIPT);
    let first = place.start();
    let child =
        place.hermes(&["gateway", "restart"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let second = RunningGateway { child, place: &place };
    assert_eq!(first.wait(), 0);
    until("the second is healthy", || place.request("GET", "/health", "").is_some());
    assert_eq!(place.say("say hello").0, 200);
    second.signal(Signal::TERM);
    assert_eq!(second.wait(), 0);
}

#[test]
fn a_server_for_everybody_needs_a_key() {
    let place = GatewayHome::new(SCRIPT);
    std::fs::write(
        place.home.env_file(),
        format!("API_SERVER_ENABLED=1\nAPI_SERVER_HOST=0.0.0.0\nAPI_SERVER_PORT={}\n", place.port),
    )
    .unwrap();
    let (code, text) = place.output(&["gateway", "run"]);
    assert_eq!(code, 78, "a configuration that cannot work is no reason to start again");
    assert_eq!(text.matches("the API server needs a key").count(), 1, "{text}");
    assert!(text.contains("error: no platform can be reached"), "{text}");
    let state: Value = serde_json::from_str(&place.home.read("gateway_state.json")).unwrap();
    assert_eq!(state["gateway_state"], "startup_failed");
}

#[test]
fn setup_checks_values_before_it_stores_them() {
    let place = GatewayHome::new(SCRIPT);
    let telegram = FakeTelegram::start("1234:abc").unwrap();
    let extra = format!("platforms:\n  telegram:\n    extra:\n      base_url: {}\n", telegram.base_url());
    std::fs::write(place.home.join("config.yaml"), extra).unwrap();
    let token = |token: &str| format!("TELEGRAM_BOT_TOKEN={token}");
    let setup = |more: &[&str]| place.output(&[&["gateway", "setup", "--yes"], more].concat());
    let before = place.home.read(".env");
    let (code, text) = setup(&["telegram", "--set", &token("1234:wrong")]);
    assert!(
        code == 1 && text.contains("rejected the token") && text.contains("nothing was changed"),
        "{text}"
    );
    // The form is wrong, and nobody is asked.
    let number = ["sms", "--set", "TWILIO_ACCOUNT_SID=AC1", "--set", "TWILIO_AUTH_TOKEN=t"];
    let (code, text) = setup(&[&number[..], &["--set", "TWILIO_PHONE_NUMBER=5550001"]].concat());
    assert!(code == 1 && text.contains("TWILIO_PHONE_NUMBER is not a number in the form"), "{text}");
    assert_eq!(place.home.read(".env"), before);
    let (code, text) = setup(&["telegram", "--set", &token("1234:abc")]);
    assert!(code == 0 && text.contains("✓ Written"), "{text}");
    assert!(place.home.read(".env").contains("TELEGRAM_BOT_TOKEN=1234:abc"));
    // What cannot be asked is stored.
    drop(telegram);
    let (code, text) = setup(&["telegram", "--set", &token("1234:def")]);
    assert!(code == 0 && text.contains("could not be asked whether this is right"), "{text}");
    let (code, text) = setup(&["telegram", "--no-check", "--set", &token("1234:ghi")]);
    assert!(code == 0 && !text.contains("could not be asked"), "{text}");
    assert!(place.home.read(".env").contains("TELEGRAM_BOT_TOKEN=1234:ghi"));
}

#[test]
fn an_error_at_the_start_is_printed_once() {
    let place = GatewayHome::new(SCRIPT);
    let config = "model:\n  provider: no-such-provider\n  default: m\n";
    std::fs::write(place.home.join("config.yaml"), config).unwrap();
    place.add_env("SMS_WEBHOOK_URL=nonsense\nTWILIO_ACCOUNT_SID=AC1\nTWILIO_AUTH_TOKEN=t\nTWILIO_PHONE_NUMBER=+15550001\n");
    let running = place.start();
    until("the gateway runs", || place.home.read("complaints.txt").contains("the gateway is running"));
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
    let text = place.home.read("complaints.txt");
    for reason in ["SMS_WEBHOOK_URL is not a web address", "no-such-provider"] {
        assert_eq!(text.matches(reason).count(), 1, "{text}");
    }
}

#[test]
fn a_taken_port_costs_the_api_and_not_the_chats() {
    let telegram = FakeTelegram::start("1234:abc").unwrap();
    let more = json!({"platforms": {"telegram": {"extra": {"base_url": telegram.base_url()}}}});
    let place = GatewayHome::configured(ModelScript::from_yaml("gateway", SCRIPT).unwrap(), more);
    let env = place.home.read(".env");
    std::fs::write(place.home.env_file(), format!("{env}TELEGRAM_BOT_TOKEN=1234:abc\n")).unwrap();
    let _somebody = TcpListener::bind(place.address()).unwrap();
    let child =
        place.hermes(&["gateway", "run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = RunningGateway { child, place: &place };
    let state = || serde_json::from_str::<Value>(&place.home.read("gateway_state.json")).unwrap_or_default();
    until("the chats are served", || {
        place.home.join("gateway_state.json").exists()
            && state()["platforms"]["telegram"]["state"] == "connected"
            && state()["gateway_state"] == "running"
    });
    let api = state()["platforms"]["api_server"].clone();
    assert_eq!(
        (api["state"].as_str(), api["error_code"].as_str()),
        (Some("fatal"), Some("api_server_port_in_use"))
    );
    assert!(state()["start_time"].is_number() && state()["argv"].is_array());
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
}

#[test]
fn draining_lets_the_running_turn_end_and_takes_no_new_one() {
    let place = GatewayHome::new("replies: [{events: [{wait: gate}, {text: done}]}]\n");
    let running = place.start();
    let body = json!({"messages": [{"role": "user", "content": "work"}]}).to_string();
    let mut stream = place.send("POST", "/v1/chat/completions", &body).unwrap();
    place.server.wait_until_at_blocking("gate", 1);
    assert_eq!(place.output(&["gateway", "drain"]).0, 0);
    until("new turns are refused", || place.say("more").0 == 503);
    place.server.open("gate");
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("200 OK") && text.contains("done"), "{text}");
    assert_eq!(running.wait(), 0);
}

#[test]
fn a_stream_that_is_stopped_in_the_middle_says_so() {
    let place =
        GatewayHome::new("replies: [{repeat: forever, events: [{text: one}, {wait: gate}, {text: two}]}]\n");
    let running = place.start();
    let chat = json!({"messages": [{"role": "user", "content": "work"}], "stream": true}).to_string();
    let respond = json!({"input": "work", "stream": true}).to_string();
    let mut streams = [
        place.send("POST", "/v1/chat/completions", &chat).unwrap(),
        place.send("POST", "/v1/responses", &respond).unwrap(),
    ];
    place.server.wait_until_at_blocking("gate", 2);
    running.signal(Signal::TERM);
    let texts = streams.each_mut().map(|stream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    assert!(texts[0].contains("\"code\":\"interrupted\"") && texts[0].contains("\"error\""), "{}", texts[0]);
    assert!(
        texts[1].contains("event: response.failed") && texts[1].contains("\"text\":\"one\""),
        "{}",
        texts[1]
    );
    assert_eq!(running.wait(), 0);
}

#[test]
fn a_run_that_was_accepted_is_known_after_a_crash() {
    let place = GatewayHome::new("replies: [{repeat: forever, events: [{wait: gate}, {text: done}]}]\n");
    let running = place.start();
    let body = json!({"input": "work"}).to_string();
    let (status, run) = place.request("POST", "/v1/runs", &body).unwrap();
    assert_eq!(status, 202);
    place.server.wait_until_at_blocking("gate", 1);
    running.kill();
    let _running = place.start();
    let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
    let (status, found) = place.request("GET", &path, "").unwrap();
    assert_eq!((status, found["status"].as_str()), (200, Some("failed")), "{found}");
}

#[test]
fn killed_in_the_middle_nothing_is_forgotten_and_nothing_runs_on() {
    let place = GatewayHome::new(
        "replies:\n  - tool: {name: terminal, arguments: {command: 'echo $$ > shell.pid; sleep 600'}}\n",
    );
    let mut running = place.start();
    let body = json!({"messages": [{"role": "user", "content": "start something long"}]}).to_string();
    let _stream = place.send("POST", "/v1/chat/completions", &body).unwrap();
    let pid = place.home.join("user/shell.pid");
    until("the command runs", || std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    let shell: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    until("the command is gone too", || !Path::new(&format!("/proc/{shell}")).exists());
    let store = Store::open(&place.home.state_db()).unwrap();
    let turns = store.running_turns().wait().unwrap();
    assert_eq!(turns.len(), 1);
    let rows = store.transcript(&turns[0].session).wait().unwrap();
    assert_eq!(rows[0].message.content.text(), "start something long");
    store.close().wait().unwrap();
    let again = place.start();
    assert_eq!(place.request("GET", "/health/detailed", "").unwrap().0, 200);
    again.signal(Signal::TERM);
    assert_eq!(again.wait(), 0);
}

#[test]
fn hooks_are_told_and_a_broken_one_disturbs_nobody() {
    let place = GatewayHome::new(SCRIPT);
    let hook = |name: &str, events: &str, handler: &str| {
        let folder = place.home.join("hooks").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("HOOK.yaml"), format!("name: {name}\nevents: {events}\n")).unwrap();
        std::fs::write(folder.join("handler.py"), handler).unwrap();
    };
    hook("broken", "[gateway:startup]", "raise RuntimeError('no')\n");
    hook(
        "witness",
        "['gateway:*']",
        "import pathlib\ncount = 0\nasync def handle(event, context):\n    global count\n    count += 1\n    print('noise')\n    \
         pathlib.Path('seen').write_text(f'{event} {count} {sorted(context)}')\n",
    );
    let shell = place.home.join("hooks/shell");
    std::fs::create_dir_all(&shell).unwrap();
    std::fs::write(shell.join("HOOK.yaml"), "events: [gateway:startup]\n").unwrap();
    std::fs::write(shell.join("handler"), "#!/bin/sh\n{ echo \"$1\"; cat; } >seen.new && mv seen.new seen\n")
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(shell.join("handler"), mode).unwrap();
    let running = place.start();
    let program = shell.join("seen");
    until("the program was told", || program.exists());
    let told = std::fs::read_to_string(&program).unwrap();
    assert!(told.starts_with("gateway:startup\n{\"platforms\":["), "{told}");
    let seen = place.home.join("hooks/witness/seen");
    until("the hook was told", || std::fs::read_to_string(&seen).is_ok_and(|text| !text.is_empty()));
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "gateway:startup 1 ['platforms']");
    assert_eq!(place.say("say hello").0, 200);
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
    assert!(place.home.read("logs/gateway.log").contains("RuntimeError: no"));
}

#[test]
fn webhooks_are_subscribed_to_and_tested_from_the_shell() {
    let place = GatewayHome::new(SCRIPT);
    let (code, text) = place.output(&["webhook", "list"]);
    assert_eq!(code, 0);
    assert!(text.contains("WEBHOOK_ENABLED"), "{text}");
    let port = free_port();
    let env = format!("{}WEBHOOK_ENABLED=true\nWEBHOOK_PORT={port}\n", place.home.read(".env"));
    std::fs::write(place.home.env_file(), env).unwrap();
    let (code, text) = place.output(&["webhook", "subscribe", "My Route", "--prompt", "say hello to {name}"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("/webhooks/my-route") && text.contains("Secret: "), "{text}");
    let running = place.start();
    let (code, text) = place.output(&["webhook", "test", "my-route", "--payload", r#"{"name": "Ann"}"#]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("202 Accepted") && text.contains("\"status\":\"accepted\""), "{text}");
    place.server.wait_for_requests_blocking(1);
    assert!(place.server.request(0).body_text().contains("say hello to Ann"));
    let (_, text) = place.output(&["webhook", "remove", "my-route"]);
    assert!(text.contains("✓ Removed my-route"), "{text}");
    let (_, text) = place.output(&["webhook", "test", "my-route"]);
    assert!(text.contains("there is no route"), "{text}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
}

fn peers() -> PathBuf {
    std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    )
}

const PEER_SCRIPT: &str = include_str!("../peers/gateway.yaml");

/// Runs an official client against a gateway, or prints why not.
fn client(program: &Path, installed: &Path, file: &str) {
    if !installed.exists() {
        hermes_testkit::peer_is_missing(&format!("{} is not installed", installed.display()));
        return;
    }
    let place = GatewayHome::new(PEER_SCRIPT);
    std::fs::write(place.home.join("user/a.txt"), "hi\n").unwrap();
    let _running = place.start();
    let output = Command::new(program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(file))
        .arg(format!("http://127.0.0.1:{}/v1", place.port))
        .arg(KEY)
        .env("HERMES_PEERS", peers())
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.trim_end().ends_with("all well"), "{said}");
    let store = Store::open(&place.home.state_db()).unwrap();
    until("the client that left has ended its turn", || store.running_turns().wait().unwrap().is_empty());
}

#[test]
fn peer_openai_python_is_served() {
    let python = peers().join("openai-py/bin/python");
    client(&python, &python, "openai_gateway.py");
}

#[test]
fn peer_openai_node_is_served() {
    client(Path::new("node"), &peers().join("openai-js/node_modules/openai"), "openai_gateway.mjs");
}

#[test]
fn the_service_logs_its_life() {
    let place = GatewayHome::new(SCRIPT);
    let running = place.start();
    let seen = |words: &str| until(words, || place.home.read("complaints.txt").contains(words));
    seen("API server listening on http://127.0.0.1:");
    seen("the gateway is running");
    running.signal(Signal::HUP);
    seen("the configuration was read again");
    running.signal(Signal::TERM);
    seen("the gateway is stopping");
    assert_eq!(running.wait(), 0);
    seen("the gateway has stopped");
}

#[test]
fn a_server_without_descriptors_says_so_and_goes_on_when_there_are_some() {
    let place = GatewayHome::new(SCRIPT);
    let complaints = std::fs::File::create(place.home.join("complaints.txt")).unwrap();
    let mut command = Command::new("/bin/sh");
    let program = program();
    command.args(["-c", "ulimit -n 80; exec \"$0\" gateway run", &program]);
    for (name, value) in place.hermes(&[]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let child = command
        .current_dir(place.home.join("user"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaints)
        .spawn()
        .unwrap();
    let running = RunningGateway { child, place: &place };
    until("it is healthy", || place.request("GET", "/health", "").is_some_and(|(status, _)| status == 200));
    let held: Vec<TcpStream> = (0..100).filter_map(|_| TcpStream::connect(place.address()).ok()).collect();
    assert_eq!(held.len(), 100);
    until("it says what is missing", || {
        place.home.read("complaints.txt").contains("no file descriptors left")
    });
    drop(held);
    until("it answers again", || {
        place.request("GET", "/health", "").is_some_and(|(status, _)| status == 200)
    });
    assert_eq!(place.say("say hello").0, 200);
    let told = place.home.read("complaints.txt").matches("no file descriptors left").count();
    assert_eq!(told, 1, "told once: {}", place.home.read("complaints.txt"));
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
}

#[test]
fn a_database_taken_away_takes_no_requests_and_is_named() {
    let place = GatewayHome::new(SCRIPT);
    let running = place.start();
    assert_eq!(place.say("say hello").0, 200);
    let asked = place.server.request_count();
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = std::fs::remove_file(place.home.join(name));
    }
    let body = json!({"messages": [{"role": "user", "content": "say hello"}]}).to_string();
    let (status, answer) = place.request("POST", "/v1/chat/completions", &body).unwrap();
    assert!(status >= 500, "{status} {answer}");
    assert!(answer["error"]["message"].as_str().unwrap_or_default().contains("state.db"), "{answer}");
    assert_eq!(place.server.request_count(), asked, "the model is not asked for what cannot be kept");
    until("the log names the file", || place.home.read("complaints.txt").contains("state.db"));
    let (_, health) = place.request("GET", "/health/detailed", "").unwrap();
    assert!(health["readiness"]["checks"]["state_db"] != "ok", "{health}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
}

#[test]
fn the_log_has_the_configured_level() {
    for (level, lines) in [("ERROR", [false, false]), ("INFO", [true, false]), ("debug", [true, true])] {
        let script = ModelScript::from_yaml("gateway", SCRIPT).unwrap();
        let place = GatewayHome::configured(script, json!({"logging": {"level": level}}));
        let running = place.start();
        assert_eq!(place.say("say hello").0, 200);
        running.signal(Signal::TERM);
        assert_eq!(running.wait(), 0);
        let log = std::fs::read_to_string(place.home.join("logs/gateway.log")).unwrap_or_default();
        let has = |name: &str| log.lines().any(|line| line.split_whitespace().any(|word| word == name));
        assert_eq!([has("INFO"), has("DEBUG")], lines, "{level}: {log}");
    }
}

#[test]
fn plugins_and_shell_hooks_work_in_the_gateway() {
    let script =
        "replies:\n  - {tool: {name: greet, arguments: {who: you}}}\n  - {repeat: forever, text: greeted}\n";
    let telegram = FakeTelegram::start("1234:abc").unwrap();
    let seen = tempfile::tempdir().unwrap();
    let log = seen.path().join("log.sh");
    std::fs::write(&log, "#!/bin/sh\ncat >\"$0.new\" && mv \"$0.new\" \"$0.in\"\n").unwrap();
    std::fs::set_permissions(&log, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let place = GatewayHome::configured(
        ModelScript::from_yaml("gateway", script).unwrap(),
        json!({
            "plugins": {"enabled": ["greeter"]},
            "hooks_auto_accept": true,
            "hooks": {"post_tool_call": [{"matcher": "greet", "command": log}]},
            "platforms": {"telegram": {"extra": {"base_url": telegram.base_url()}}},
        }),
    );
    let folder = place.home.join("plugins/greeter");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("plugin.yaml"), "version: 1\n").unwrap();
    let code = "def register(ctx):\n    ctx.register_tool('greet', 'greet', {'parameters': {'type': 'object', 'properties': {'who': {'type': 'string'}}}}, lambda args, **_: 'Hello ' + args['who'])\n    ctx.register_command('roll', lambda text: 'You rolled ' + text, description='Roll dice')\n    ctx.register_command('quit-only', lambda text: 'no', cli_only=True)\n";
    std::fs::write(folder.join("__init__.py"), code).unwrap();
    place.add_env("TELEGRAM_BOT_TOKEN=1234:abc\nTELEGRAM_ALLOWED_USERS=7\nHERMES_PYTHON=/usr/bin/python3\n");
    let running = place.start();
    let ann = telegram.person(7, "Ann");
    ann.says(7, "/roll 6");
    telegram.until_said_blocking(7, "You rolled 6");
    ann.says(7, "/help");
    assert!(telegram.until_said_blocking(7, "Roll dice").text.contains("/roll"));
    ann.says(7, "/plugins");
    telegram.until_said_blocking(7, "greeter 1: 1 tools, 0 hooks, 2 commands");
    assert_eq!(place.say("greet me").0, 200);
    let results = place.server.request(1).tool_results();
    assert_eq!(results.last().map(|(_, text)| text.as_str()), Some("Hello you"));
    until("the hook was told", || seen.path().join("log.sh.in").exists());
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), 0);
}

/// A picture of one pixel, as clients send it.
const DOT_URL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";

#[test]
fn pictures_of_clients_reach_models_of_every_wire() {
    for (mode, carried) in super::life::PICTURE_WIRES {
        let script = r#"{"replies": [{"when": {"user_contains": "what is this"}, "text": "A grey dot.", "repeat": "forever"}], "default": "echo"}"#;
        let script = ModelScript::from_yaml("dot", script).unwrap();
        let (provider, model) = super::life::picture_model(mode);
        let named = json!({"provider": provider, "default": model, "api_mode": mode});
        let place = GatewayHome::configured(script, json!({"model": named}));
        place.add_env(super::life::AWS_KEYS);
        let running = place.start();
        let chat = json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": DOT_URL}},
        ]}]});
        let responses = json!({"input": [{"role": "user", "content": [
            {"type": "input_text", "text": "what is this"}, {"type": "input_image", "image_url": DOT_URL},
        ]}]});
        for (path, body) in [("/v1/chat/completions", chat), ("/v1/responses", responses)] {
            let before = place.server.request_count();
            let (status, said) = place.request("POST", path, &body.to_string()).unwrap();
            assert_eq!(status, 200, "{mode} {path}: {said}");
            assert!(said.to_string().contains("A grey dot."), "{mode} {path}: {said}");
            let requests = place.server.requests();
            let asked = requests[before].body_text();
            assert!(asked.contains(carried), "{mode} {path}: {asked}");
        }
        drop(running);
    }
}
