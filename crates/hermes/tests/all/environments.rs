//! Environments for reinforcement learning from the built binary: rewards in the sandbox, environments of users, the trainer's server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hermes_testkit::{HttpReply, JsonServer, TempHome, http_get, http_post};
use serde_json::{Value, json};

use super::support::{program, run_in, until, until_found};

/// Returns a model that runs the command which stands after `RUN ` in what the user says, and then answers.
fn model(answer: &'static str) -> JsonServer {
    JsonServer::start(move |request| {
        let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().cloned().unwrap_or_default();
        let said = last["content"].as_str().unwrap_or_default();
        let command = said.split_once("RUN ").map(|(_, command)| command.lines().next().unwrap_or_default());
        let message = match command.filter(|_| last["role"] == "user") {
            Some(command) => {
                let arguments = json!({"command": command}).to_string();
                let call = json!({"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": arguments}});
                json!({"role": "assistant", "content": null, "tool_calls": [call]})
            }
            None => json!({"role": "assistant", "content": answer}),
        };
        (200, json!({"choices": [{"message": message}]}))
    })
    .unwrap()
}

struct Stage {
    home: TempHome,
    folder: tempfile::TempDir,
    model: JsonServer,
}

impl Stage {
    fn new() -> Self {
        Self::with_model(model("Done."))
    }

    fn with_model(model: JsonServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        let home =
            TempHome::builder().env_file(&format!("TMPDIR={}\n", temporary.display())).build().unwrap();
        Self { home, folder, model }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let words = ["env"].iter().chain(words).map(|word| (*word).to_owned());
        words
            .chain([
                format!("--openai.base_url={}/v1", self.model.url()),
                "--openai.health_check=false".to_owned(),
            ])
            .collect()
    }

    fn env(&self, words: &[&str]) -> String {
        let arguments = self.arguments(words);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run_in(self.folder.path(), self.home.path(), &arguments)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Returns the scores of the groups in a file.
    fn scores(&self, name: &str) -> Vec<Value> {
        self.read(name)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["scores"].clone())
            .collect()
    }
}

#[test]
fn rewards_come_from_what_the_model_left_behind() {
    let stage = Stage::new();
    let tasks = [
        ("printf %s 'it'\\''s' > out.txt", "it's", 1.0),
        ("printf other > out.txt", "it's", 0.0),
        ("true", "it's", 0.0),
    ];
    let items: Vec<Value> =
        tasks.iter().map(|(command, answer, _)| json!({"command": command, "answer": answer})).collect();
    stage.write("tasks.jsonl", &items.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
    let yaml = "name: files\ndataset: tasks.jsonl\nprompt: 'RUN {{command}}'\n\
        prepare: touch prepared\nenv: {enabled_toolsets: [terminal], group_size: 2, total_steps: 3}\n\
        verify: {command: 'test -f prepared && test \"$(cat out.txt)\" = {{answer}}'}\n";
    stage.write("files.yaml", yaml);
    let seen = stage.env(&["./files.yaml", "process"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Groups: 3, mean score 0.333"), "{seen}");
    let expected: Vec<Value> = tasks.iter().map(|(_, _, score)| json!([score, score])).collect();
    assert_eq!(stage.scores("data/files.jsonl"), expected);
    assert!(stage.read("data/files.html").contains("score 1"));
    // Another run does not touch the first one's files.
    let seen = stage.env(&["process", "./files.yaml", "--env.total_steps", "1", "--env.group_size=1"]);
    assert!(
        seen.contains("data/files_1.jsonl") && stage.scores("data/files_1.jsonl") == [json!([1.0])],
        "{seen}"
    );
    let own = fs::read_dir(stage.folder.path().join("tmp")).unwrap().flatten();
    let own = own.filter(|entry| entry.file_name().to_string_lossy().starts_with("hermes-rollouts-"));
    assert_eq!(own.count(), 0, "folders of rollouts are removed");
    let seen = stage.env(&["./files.yaml", "evaluate", "--env.data_dir_to_save_evals=evals"]);
    assert!(seen.contains("\"eval/passed\": 1") && seen.contains("\"eval/total\": 3"), "{seen}");
    let metrics: Value = serde_json::from_str(&stage.read("evals/metrics.json")).unwrap();
    assert_eq!(metrics["results"]["atropos|files_eval|0"]["eval/total"], 3);
    assert_eq!(stage.read("evals/samples.jsonl").lines().count(), 3);
    assert!(stage.read("evals/evaluate_config.yaml").contains("group_size: 2"));
}

#[test]
fn files_and_flags_that_cannot_be_used_are_named() {
    let stage = Stage::new();
    let check = |words: &[&str], code: i32, expected: &str| {
        let seen = stage.env(words);
        assert!(seen.starts_with(&format!("exit {code}\n")) && seen.contains(expected), "{words:?}: {seen}");
    };
    stage.write("no-name.yaml", "items: [{a: 1}]\nprompt: x\nverify: {command: 'true'}\n");
    check(&["./no-name.yaml", "process"], 2, "missing field `name`");
    stage.write("field.yaml", "name: f\nitems: [{a: 1}]\nprompt: '{{b}}'\nverify: {command: 'true'}\n");
    check(&["./field.yaml", "process"], 2, "an item has no field `b`");
    stage.write("unknown.yaml", "name: f\nitems: [{a: 1}]\nprompt: x\nverfy: 1\nverify: {command: 'true'}\n");
    check(&["./unknown.yaml", "process"], 2, "unknown field `verfy`");
    check(&["nowhere", "process"], 1, "there is no environment `nowhere`");
    check(&["terminal-test", "train"], 2, "say what to do");
    check(&["terminal-test", "process", "--env.group_sise=1"], 2, "env.group_sise is not a setting");
    check(
        &["terminal-test", "process", "--env.enabled_toolsets", "[\"nothing\"]"],
        2,
        "there is no toolset `nothing`",
    );
    check(&["terminal-test", "process", "--env.tool_call_parser", "x"], 2, "is not a tool-call parser");
    check(&["terminal-test", "process", "--openai.server_type=sglang"], 2, "openai.proxy_url");
    check(&["hermes-swe", "process"], 2, "env.dataset_name must name a dataset file");
    check(&["terminal-bench-2", "serve"], 2, "only for evaluations");
    stage.write("bad.jsonl", "{\"prompt\": \"x\"}\n");
    check(
        &["hermes-swe", "process", "--env.dataset_name=bad.jsonl"],
        2,
        "item 0 needs `prompt` and one of test",
    );
    stage.write("program", "not a program");
    check(&["./program", "process"], 2, "nor executable");
    assert!(stage.model.requests().is_empty() && !stage.folder.path().join("data").exists());
    let seen = run_in(stage.folder.path(), stage.home.path(), &["env", "list"]);
    assert!(seen.contains("terminal-test") && seen.contains("(evaluate)"), "{seen}");
}

/// What a program answers: it asks for a file with a tool while it judges.
const PROGRAM: &str = r#"#!/usr/bin/env python3
import json, sys
def send(message):
    print(json.dumps(message), flush=True)
items = [{"command": "echo %d > n.txt" % n, "n": n} for n in range(4)]
at = 0
waiting = {}
for line in sys.stdin:
    m = json.loads(line)
    if "call" in m:
        question, item = waiting.pop(m["call"])
        right = m["result"]["output"].strip() == str(item["n"]) and m["result"]["exit_code"] == 0
        send({"id": question, "result": 0.25 * item["n"] if right else -1})
        continue
    method, params = m["method"], m["params"]
    if method == "describe":
        send({"id": m["id"], "result": {"name": "python-env", "own_keys": ["odd"], "methods": ["evaluation_items"],
              "env": {"group_size": 2, "enabled_toolsets": ["terminal"], "total_steps": 100, "odd": True}}})
    elif method == "setup":
        assert params["own"] == {"odd": True}, params
        send({"id": m["id"], "result": None})
    elif method == "next_item":
        send({"id": m["id"], "result": items[at] if at < len(items) else None})
        at += 1
    elif method == "prompt":
        send({"id": m["id"], "result": "RUN " + params["item"]["command"]})
    elif method == "evaluation_items":
        send({"id": m["id"], "result": items[:1]})
    elif method == "reward":
        if params["item"]["n"] == 3:
            send({"id": m["id"], "error": "no reward for three"})
            continue
        assert params["result"]["messages"][1]["tool_calls"][0]["function"]["name"] == "terminal"
        call = len(waiting) + 1000 * m["id"]
        waiting[call] = (m["id"], params["item"])
        send({"call": call, "rollout": params["rollout"], "method": "terminal", "params": {"command": "cat n.txt"}})
"#;

#[test]
fn an_environment_can_be_a_program_that_uses_the_tools_of_a_rollout() {
    let stage = Stage::new();
    let path = stage.write("environment.py", PROGRAM);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let seen = stage.env(&["./environment.py", "process"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Groups: 4"), "{seen}");
    let expected = [json!([0.0, 0.0]), json!([0.25, 0.25]), json!([0.5, 0.5]), json!([0.0, 0.0])];
    assert_eq!(stage.scores("data/python-env.jsonl"), expected, "what cannot be judged counts 0");
    let seen = stage.env(&["./environment.py", "evaluate"]);
    assert!(seen.contains("\"eval/total\": 1"), "{seen}");
    // A program that ends, or that writes nonsense, is named.
    for (text, words) in [
        ("#!/bin/sh\nexit 3\n", "has ended"),
        ("#!/bin/sh\necho hello\ncat\n", "wrote no JSON object but `hello`"),
    ] {
        fs::write(&path, text).unwrap();
        let seen = stage.env(&["./environment.py", "process"]);
        assert!(seen.starts_with("exit 2") && seen.contains(words), "{seen}");
    }
}

#[test]
fn shipped_environments_judge_by_their_rules() {
    let stage = Stage::new();
    let seen = stage.env(&["terminal-test", "process"]);
    // The model does nothing that helps.
    assert!(seen.contains("Groups: 3, mean score 0.000"), "{seen}");
    let test = "assert double(4) == 8";
    let tasks = [
        json!({"prompt": "RUN printf 'def double(n):\\n    return 2*n\\n' > solution.py", "test": test}),
        json!({"prompt": "RUN printf 'def double(n):\\n    return n\\n' > solution.py", "tests": test}),
        json!({"prompt": "RUN true", "test_code": test}),
    ];
    stage.write("swe.jsonl", &tasks.map(|task| task.to_string()).join("\n"));
    let swe = [
        "hermes-swe",
        "process",
        "--env.dataset_name=swe.jsonl",
        "--env.total_steps=3",
        "--env.group_size=1",
    ];
    let seen = stage.env(&swe);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(stage.scores("data/hermes-swe.jsonl"), [json!([1.0]), json!([0.1]), json!([0.0])]);
}

#[test]
fn tasks_of_a_benchmark_are_judged_by_their_own_tests() {
    let stage = Stage::new();
    let place = stage.folder.path().join("place");
    let (tests, logs) = (place.join("tests"), place.join("logs"));
    // Folders where commands may write; in a container they are /tests and /logs/verifier.
    let home = TempHome::builder()
        .config_yaml(&format!("terminal:\n  sandbox_writable: [{}]\n", place.display()))
        .build()
        .unwrap();
    let stage = Stage { home, ..stage };
    fs::create_dir(&place).unwrap();
    let task = |name: &str, command: &str, script: String, category: &str| json!({"task_name": name, "instruction": format!("RUN {command}"), "test_sh": script, "category": category});
    let lines = [
        task("passes", "echo 1 > x", "test -f x".to_owned(), "a"),
        task("fails", "true", "test -f x".to_owned(), "a"),
        task("partly", "true", format!("echo 0.5 > {}/reward.txt; exit 1", logs.display()), "b"),
        task("skipped", "true", "true".to_owned(), "b"),
    ];
    stage.write("bench.jsonl", &lines.map(|line| line.to_string()).join("\n"));
    let flags = [
        "terminal-bench-2".to_owned(),
        "evaluate".to_owned(),
        "--env.dataset_name=bench.jsonl".to_owned(),
        "--env.skip_tasks=skipped".to_owned(),
        "--env.max_concurrent_tasks=1".to_owned(),
        "--env.data_dir_to_save_evals=evals".to_owned(),
        format!("--env.tests_folder={}", tests.display()),
        format!("--env.logs_folder={}", logs.display()),
    ];
    let seen = stage.env(&flags.each_ref().map(String::as_str));
    assert!(seen.contains("\"eval/total\": 3") && seen.contains("\"eval/passed\": 1"), "{seen}");
    assert!(
        seen.contains("\"eval/pass_rate_a\": 0.5") && seen.contains("\"eval/mean_score\": 0.5"),
        "{seen}"
    );
    let files = fs::read_dir(stage.folder.path().join("evals")).unwrap().flatten();
    let files: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert!(files.iter().any(|name| name.starts_with("samples_20")), "{files:?}");
}

/// Returns what an evaluation wrote about each task.
fn samples(stage: &Stage) -> String {
    let files = fs::read_dir(stage.folder.path().join("evals")).unwrap().flatten();
    let named = files.filter(|file| file.file_name().to_string_lossy().starts_with("samples_"));
    named.map(|file| fs::read_to_string(file.path()).unwrap()).collect()
}

/// Packs a folder with a Dockerfile.
fn packed(dockerfile: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Dockerfile"), dockerfile).unwrap();
    fs::write(folder.path().join("note"), "from the image\n").unwrap();
    let tar = Command::new("tar").args(["-cz", "-C"]).arg(folder.path()).arg(".").output().unwrap();
    assert!(tar.status.success(), "{tar:?}");
    data_encoding::BASE64.encode(&tar.stdout)
}

#[test]
fn without_docker_a_task_that_needs_its_image_built_says_so() {
    let stage = Stage::new();
    let task = json!({"task_name": "built", "instruction": "RUN true", "test_sh": "true", "environment_tar": "H4s="});
    stage.write("bench.jsonl", &task.to_string());
    let flags = ["--env.dataset_name=bench.jsonl", "--env.data_dir_to_save_evals=evals"];
    let seen = stage.env(&[&["terminal-bench-2", "evaluate"][..], &flags].concat());
    assert!(seen.contains("\"eval/passed\": 0"), "{seen}");
    let samples = samples(&stage);
    assert!(samples.contains("only for terminal.backend docker"), "{samples}");
}

#[test]
fn peer_docker_the_image_of_a_task_is_built_from_its_packed_folder() {
    let found =
        std::env::var("HERMES_TEST_DOCKER_HOST").ok().zip(std::env::var("HERMES_TEST_DOCKER_IMAGE").ok());
    let Some((address, image)) = found else {
        return hermes_testkit::peer_is_missing(
            "HERMES_TEST_DOCKER_HOST is not set (scripts/peers/docker start)",
        );
    };
    let stage = Stage::new();
    let config = format!(
        "terminal:\n  backend: docker\n  docker_image: {image}\n  docker_network: false\n  docker_read_only: false\n"
    );
    let home = TempHome::builder()
        .config_yaml(&config)
        .env_file(&format!("DOCKER_HOST={address}\n"))
        .build()
        .unwrap();
    let stage = Stage { home, ..stage };
    let mark = hermes_types::random_hex(8);
    let good = packed(&format!("FROM {image}\nLABEL mark={mark}\nCOPY note /app/note\n"));
    let task = |name: &str, tar: &str| {
        json!({"task_name": name, "instruction": "RUN cp note seen", "environment_tar": tar,
            "test_sh": "grep -q 'from the image' /app/seen"})
    };
    let broken = packed(&format!("FROM {image}\nCOPY missing /app/\n"));
    let lines = [task("one", &good), task("two", &good), task("broken", &broken), task("odd", "!")];
    stage.write("bench.jsonl", &lines.map(|line| line.to_string()).join("\n"));
    let flags = [
        "terminal-bench-2",
        "evaluate",
        "--env.dataset_name=bench.jsonl",
        "--env.data_dir_to_save_evals=evals",
    ];
    let seen = stage.env(&flags);
    assert!(seen.contains("\"eval/total\": 4") && seen.contains("\"eval/passed\": 2"), "{seen}");
    let samples = samples(&stage);
    assert!(
        samples.contains("the image of the task was not built") && samples.contains("not base64"),
        "{samples}"
    );
    let images = || {
        let filter = format!("label=mark={mark}");
        let list = Command::new("docker")
            .args(["images", "-q", "--no-trunc", "--filter", &filter])
            .env("DOCKER_HOST", &address)
            .output()
            .unwrap();
        String::from_utf8(list.stdout).unwrap()
    };
    let built = images();
    assert_eq!(built.lines().count(), 1, "both tasks have the same image: {built}");
    // Another run uses it.
    let seen = stage.env(&flags);
    assert!(seen.contains("\"eval/passed\": 2"), "{seen}");
    assert_eq!(images(), built);
    assert_eq!(fs::read_dir(stage.home.path().join("cache/task-images")).unwrap().count(), 0);
}

/// The trainer's API server, of which nobody here wrote a line.
struct AtroposServer {
    child: Child,
    port: u16,
}

impl AtroposServer {
    fn program() -> Option<PathBuf> {
        let peers = std::env::var("HERMES_PEERS")
            .unwrap_or_else(|_| format!("{}/.cache/hermes-peers", std::env::var("HOME").unwrap_or_default()));
        let path = Path::new(&peers).join("atropos/bin/run-api");
        if !path.is_file() {
            hermes_testkit::peer_is_missing("the Atropos API server (scripts/test installs it)");
            return None;
        }
        Some(path)
    }

    fn start(path: &Path, port: u16) -> Self {
        let port_text = port.to_string();
        let child = Command::new(path)
            .args(["--host", "127.0.0.1", "--port", &port_text])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, port };
        until("the API server", || server.get("/").is_ok_and(|reply| reply.status == 200));
        server
    }

    fn get(&self, path: &str) -> std::io::Result<HttpReply> {
        http_get(([127, 0, 0, 1], self.port).into(), path)
    }

    /// Registers as the trainer, and begins.
    fn begin(&self) {
        let body = json!({"wandb_group": "g", "wandb_project": "p", "batch_size": 4, "max_token_len": 2048,
            "checkpoint_dir": "", "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": 100});
        let reply = http_post(([127, 0, 0, 1], self.port).into(), "/register", &body).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(self.batch(), Value::Null);
    }

    fn batch(&self) -> Value {
        self.get("/batch").unwrap().json()["batch"].clone()
    }

    /// Waits for a batch, as a trainer does.
    fn next_batch(&self) -> Vec<Value> {
        until_found(|| "a batch".to_owned(), || self.batch().as_array().cloned())
    }
}

impl Drop for AtroposServer {
    fn drop(&mut self) {
        // It may have been ended by the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn peer_atropos_groups_reach_the_trainer_also_after_its_server_was_restarted() {
    let Some(path) = AtroposServer::program() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = AtroposServer::start(&path, port);
    // Long enough to be sent compressed.
    let stage = Stage::with_model(model(Box::leak("words ".repeat(500).into_boxed_str())));
    stage.write(
        "random.yaml",
        "name: random\nitems: [{a: 1}, {a: 2}]\nprompt: 'Say {{a}}.'\nenv: {enabled_toolsets: [terminal], group_size: 2, steps_per_eval: 0}\n\
         verify: {command: 'echo $RANDOM', reward: stdout}\n",
    );
    let url = format!("http://127.0.0.1:{port}");
    let arguments = stage.arguments(&[
        "./random.yaml",
        "serve",
        &format!("--env.rollout_server_url={url}"),
        "--env.total_steps=50",
    ]);
    let mut child = Command::new(program())
        .args(&arguments)
        .current_dir(stage.folder.path())
        .env_clear()
        .env("HERMES_HOME", stage.home.path())
        .env("HOME", "/nonexistent")
        .env("PATH", std::env::var("PATH").unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    server.begin();
    for _ in 0..2 {
        let batch = server.next_batch();
        let sequences: usize = batch.iter().map(|group| group["tokens"].as_array().unwrap().len()).sum();
        assert_eq!(sequences, 4, "{batch:?}");
        for group in &batch {
            assert_eq!(group["env_id"], 0);
            assert_ne!(group["scores"][0], group["scores"][1], "groups with one score are not sent");
            assert_eq!(group["messages"][0][0]["role"], "user");
        }
    }
    drop(server);
    assert!(child.try_wait().unwrap().is_none(), "it waits for the server");
    let server = AtroposServer::start(&path, port);
    server.begin();
    assert!(!server.next_batch().is_empty() && child.try_wait().unwrap().is_none());
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(server.get("/status").unwrap().status, 200);
}
