//! Child processes of a turn: subagents, background processes, scripts; and their cleanup when the program ends
//! badly.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hermes_testkit::{ModelScript, ModelServer, TempHome, divisible_group};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::gateway;

const LONG: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);

struct ChatHome {
    server: ModelServer,
    home: TempHome,
    folder: tempfile::TempDir,
}

impl ChatHome {
    fn new(script: &str, more: &Value) -> Self {
        let script = ModelScript::from_yaml("children", script).unwrap();
        let server = ModelServer::start_blocking(script).unwrap();
        let mut config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let config = config.to_string().replace("{server}", &server.base_url());
        let home = TempHome::builder().config_yaml(&config).build().unwrap();
        Self { server, home, folder: tempfile::tempdir().unwrap() }
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.start_in(self.folder.path(), arguments)
    }

    #[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
    fn start_in(&self, folder: &Path, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_hermes"))
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("HERMES_HOME", self.home.path())
            .env("HOME", self.home.path().join("user"))
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn say(&self, words: &str) -> Child {
        self.start(&["chat", "-Q", "-q", words])
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn exported(&self) -> Vec<Value> {
        let output = self.start(&["sessions", "export", "-"]).wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the tool results of the newest session.
    fn results(&self) -> Vec<String> {
        let sessions = self.exported();
        let started = |session: &Value| session["started_at"].as_f64().unwrap_or_default();
        let parents = sessions.iter().filter(|session| session["source"] != "tool");
        let newest = parents.max_by(|a, b| started(a).total_cmp(&started(b))).unwrap();
        let messages = newest["messages"].as_array().unwrap();
        let tools = messages.iter().filter(|message| message["role"] == "tool");
        tools.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Polls until the condition holds, within a time limit.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let mut looks = 0;
    while !holds() {
        looks += 1;
        assert!(looks * LOOK.as_millis() < LONG.as_millis(), "it does not come to pass: {what}");
        std::thread::sleep(LOOK);
    }
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

fn shown(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn pid_in(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')).map(|text| text.trim().to_owned())
}

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn one_subagent_that_hangs_holds_up_no_other_and_an_interrupt_ends_all() {
    let place = ChatHome::new(
        r#"
replies:
  - {when: {user_contains: begin}, tool: {name: delegate_task, arguments: {tasks: [{goal: alpha part}, {goal: beta part}, {goal: gamma part}]}}}
  - {when: {user_contains: alpha}, text: alpha is done}
  - {when: {user_contains: beta}, tool: {name: terminal, arguments: {command: "echo $$ > beta.pid; echo ready"}}}
  - {when: {user_contains: beta}, text: beta is done}
  - when: {user_contains: gamma}
    events: [{wait: hanging}, {text: never}]
"#,
        &json!({}),
    );
    let child = place.say("begin");
    place.server.wait_until_at_blocking("hanging", 1);
    let says = |session: &Value, words: &str| {
        let messages = session["messages"].as_array();
        messages.is_some_and(|messages| messages.iter().any(|message| message["content"] == words))
    };
    until("the others finish", || {
        let sessions = place.exported();
        ["alpha is done", "beta is done"]
            .iter()
            .all(|words| sessions.iter().any(|session| says(session, words)))
    });
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", shown(&output));
    let results = place.results();
    let told: Value = serde_json::from_str(&results[0]).unwrap_or_else(|_| panic!("{results:?}"));
    let ends: Vec<&str> =
        told["results"].as_array().unwrap().iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["completed", "completed", "interrupted"], "{told:#}");
    assert!(!lives(&pid_in(&place.file("beta.pid")).unwrap()));
    let open: Vec<Value> = place
        .exported()
        .into_iter()
        .filter(|session| session["source"] == "tool" && session["ended_at"].is_null())
        .collect();
    assert!(open.is_empty(), "sessions of subagents are closed: {open:#?}");
}

#[test]
fn a_background_process_of_a_subagent_ends_with_it() {
    let place = ChatHome::new(
        r#"
replies:
  - {when: {user_contains: begin}, tool: {name: delegate_task, arguments: {goal: alpha part}}}
  - when: {user_contains: alpha}
    tool: {name: terminal, arguments: {command: "echo $$ > alpha.pid; exec sleep 1000", background: true}}
  - {when: {user_contains: alpha}, text: alpha is done}
  - when: {user_contains: begin}
    events: [{wait: told}, {text: all is done}]
"#,
        &json!({}),
    );
    let child = place.say("begin");
    place.server.wait_until_at_blocking("told", 1);
    until("it was started", || pid_in(&place.file("alpha.pid")).is_some());
    let pid = pid_in(&place.file("alpha.pid")).unwrap();
    until("it ends while its parent goes on", || !lives(&pid));
    place.server.open("told");
    let output = child.wait_with_output().unwrap();
    assert!(shown(&output).contains("all is done"), "{}", shown(&output));
}

#[test]
fn what_subagents_had_said_survives_the_death_of_the_program() {
    let place = ChatHome::new(
        r"
replies:
  - {when: {user_contains: begin}, tool: {name: delegate_task, arguments: {tasks: [{goal: alpha part}, {goal: beta part}]}}}
  - {when: {user_contains: alpha}, text: alpha found 42 beans}
  - when: {user_contains: beta}
    events: [{wait: hanging}, {text: never}]
  - {when: {user_contains: go on}, text: going on}
",
        &json!({}),
    );
    let mut child = place.say("begin");
    place.server.wait_until_at_blocking("hanging", 1);
    until("one is done", || {
        place.exported().iter().any(|session| session["source"] == "tool" && !session["ended_at"].is_null())
    });
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let output = place.start(&["chat", "-Q", "-c", "-q", "go on"]).wait_with_output().unwrap();
    assert!(shown(&output).contains("going on"), "{}", shown(&output));
    let results = place.results();
    assert!(results[0].contains("alpha found 42 beans"), "{results:?}");
    assert!(results[0].contains("\"beta part\" was cut off"), "{results:?}");
}

#[test]
fn a_single_question_that_is_told_to_end_takes_its_processes_with_it() {
    let place = ChatHome::new(
        r#"
replies:
  - {tool: {name: terminal, arguments: {command: "echo $$ > a.pid; exec sleep 1000", background: true}}}
  - events: [{wait: hanging}, {text: never}]
"#,
        &json!({}),
    );
    let child = place.say("begin");
    place.server.wait_until_at_blocking("hanging", 1);
    until("it was started", || pid_in(&place.file("a.pid")).is_some());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", shown(&output));
    assert!(!lives(&pid_in(&place.file("a.pid")).unwrap()));
}

#[test]
fn a_folder_whose_name_is_no_text_keeps_no_command_from_running() {
    use std::os::unix::ffi::OsStrExt;
    let place = ChatHome::new(
        r#"
replies:
  - {tool: {name: terminal, arguments: {command: "echo ran; touch here"}}}
  - {text: told}
"#,
        &json!({}),
    );
    let odd = place.folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    let output = place.start_in(&odd, &["chat", "-Q", "-q", "begin"]).wait_with_output().unwrap();
    assert!(shown(&output).contains("told"), "{}", shown(&output));
    let results = place.results();
    assert!(results[0].contains("\"ran\""), "{results:?}");
    assert!(place.file("here").exists(), "it ran in the folder above");
}

#[test]
fn subagents_may_have_a_model_of_their_own() {
    let script = r"
replies:
  - {when: {user_contains: begin, model: test-model}, tool: {name: delegate_task, arguments: {goal: alpha part}}}
  - {when: {model: small-model}, text: small is done}
  - {when: {model: test-model}, text: all is done}
";
    for delegation in [
        json!({"model": "small-model"}),
        json!({"model": "small-model", "base_url": "{server}", "api_key": "k"}),
    ] {
        let place = ChatHome::new(script, &json!({"delegation": delegation}));
        let output = place.say("begin").wait_with_output().unwrap();
        assert!(shown(&output).contains("all is done"), "{delegation}: {}", shown(&output));
        let results = place.results();
        assert!(results[0].contains("small is done") && results[0].contains("small-model"), "{results:?}");
    }
    let place = ChatHome::new(
        "replies:\n  - {tool: {name: delegate_task, arguments: {goal: part}}}\n  - {text: told}\n",
        &json!({"delegation": {"provider": "anthropic", "model": "m"}}),
    );
    let output = place.say("begin").wait_with_output().unwrap();
    assert!(shown(&output).contains("told"), "{}", shown(&output));
    let results = place.results();
    assert!(results[0].contains("`delegation` in config.yaml"), "{results:?}");
}

#[test]
fn a_killed_program_leaves_nothing_that_should_not_run_and_finds_the_rest_again() {
    let started = |name: &str| {
        format!(
            "{{name: terminal, arguments: {{command: \"echo $$ > {name}.pid; exec sleep 1000\", background: true}}}}"
        )
    };
    let script = format!(
        r#"
replies:
  - tools: [{}, {}, {}]
  - tool:
      name: execute_code
      arguments:
        code: |
          import os, subprocess
          p = subprocess.Popen(["sleep", "1000"])
          open("grandchild.pid", "w").write("%d\n" % p.pid)
          leaves = "(setsid sh -c 'echo $$ > new; mv new orphan.pid; exec sleep 1000' &)"
          subprocess.run(["sh", "-c", leaves])
          open("script.pid", "w").write("%d\n" % os.getpid())
          p.wait()
  - {{tool: {{name: process, arguments: {{action: list}}}}}}
  - {{text: listed}}
"#,
        started("a"),
        started("b"),
        started("c")
    );
    let place = ChatHome::new(&script, &json!({}));
    let mut child = place.say("begin");
    until("everything runs", || {
        ["a", "b", "c", "grandchild", "orphan", "script"]
            .iter()
            .all(|name| pid_in(&place.file(&format!("{name}.pid"))).is_some())
    });
    let pid = |name: &str| pid_in(&place.file(&format!("{name}.pid"))).unwrap();
    // Where the system supports it, a cgroup holds background processes, even those that left their process group
    // and lost their parent.
    let cells = divisible_group();
    if cells.is_some() {
        until("it is kept together", || {
            let group = fs::read_to_string(format!("/proc/{}/cgroup", pid("orphan"))).unwrap_or_default();
            group.contains(&format!("hermes-{}-", child.id()))
        });
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    for name in ["script", "grandchild", "orphan"] {
        until(name, || !lives(&pid(name)));
    }
    // One of the three is killed in the meantime.
    kill_process(Pid::from_raw(pid("b").parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    until("b ends", || !lives(&pid("b")));
    let output = place.start(&["chat", "-Q", "-c", "-q", "what runs?"]).wait_with_output().unwrap();
    assert!(shown(&output).contains("listed"), "{}", shown(&output));
    let results = place.results();
    let listed: Value = serde_json::from_str(results.last().unwrap()).unwrap();
    let mut pids: Vec<String> = listed["processes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|process| process["status"] == "running")
        .map(|process| process["pid"].to_string())
        .collect();
    pids.sort();
    let mut expected = vec![pid("a"), pid("c")];
    expected.sort();
    let alive: Vec<String> =
        ["a", "c"].into_iter().filter(|name| lives(&pid(name))).map(str::to_owned).collect();
    for name in ["a", "c"] {
        if let Some(pid) = Pid::from_raw(pid(name).parse().unwrap()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    assert_eq!(pids, expected, "{listed:#}; alive: {alive:?}");
}

#[test]
fn a_program_killed_together_with_its_watchdog_leaves_nothing_behind_after_the_next_start() {
    let place = ChatHome::new(
        r#"
replies:
  - tool:
      name: execute_code
      arguments:
        code: |
          import subprocess
          left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
          open("left.pid", "w").write("%d\n" % left.pid)
          left.wait()
  - {text: going on}
"#,
        &json!({}),
    );
    let mut child = place.say("begin");
    until("it runs", || pid_in(&place.file("left.pid")).is_some());
    let left = pid_in(&place.file("left.pid")).unwrap();
    let watchdog = watchdog_of(&child);
    kill_process(watchdog, Signal::STOP).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    kill_process(watchdog, Signal::KILL).unwrap();
    assert!(lives(&left), "nobody is there who could have ended it");
    let output = place.say("is anything left?").wait_with_output().unwrap();
    assert!(shown(&output).contains("going on"), "{}", shown(&output));
    until("it has ended", || !lives(&left));
}

/// Returns the process that reads the pipe from the program to its watchdog process.
fn watchdog_of(program: &Child) -> Pid {
    let links = |folder: String| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
    };
    let ours = links(format!("/proc/{}/fd", program.id()));
    let mut numbers =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let found = numbers.find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("hermes-watchdog")
            && fs::read_link(format!("/proc/{pid}/fd/3")).is_ok_and(|pipe| ours.contains(&pipe))
    });
    Pid::from_raw(found.unwrap().parse().unwrap()).unwrap()
}

#[test]
fn background_processes_a_killed_gateway_left_end_when_its_successor_is_stopped() {
    let script = r#"
replies:
  - tool: {name: terminal, arguments: {command: "echo $$ > a.new; mv a.new a.pid; exec sleep 1000", background: true}}
  - {text: started}
"#;
    let place = gateway::GatewayHome::with(ModelScript::from_yaml("background", script).unwrap());
    let running = place.start();
    let body = json!({"messages": [{"role": "user", "content": "begin"}]}).to_string();
    assert_eq!(place.request("POST", "/v1/chat/completions", &body).unwrap().0, 200);
    let file = place.home.join("user/a.pid");
    until("it runs", || pid_in(&file).is_some());
    let pid = pid_in(&file).unwrap();
    running.kill();
    assert!(lives(&pid), "it was started to run on");
    let again = place.start();
    assert!(lives(&pid));
    again.signal(Signal::TERM);
    assert_eq!(again.wait(), 0);
    assert!(!lives(&pid));
}
