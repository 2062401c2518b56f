//! Training data from the built binary: batch runs, compression, trajectories of sessions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hermes_testkit::{ModelScript, ModelServer, RealClock, ScriptedReply, TempHome};
use hermes_text::JsonTree;
use hermes_types::Clock as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::support::{program, run_in, until};

/// Returns a server whose model reasons and answers, for ever.
fn thinking_server() -> ModelServer {
    let reply = ScriptedReply::new().reasoning("because").then_text("an answer").forever();
    ModelServer::start_blocking(ModelScript::new().reply(reply)).unwrap()
}

fn home_for(server: &ModelServer, more: &str) -> TempHome {
    let config = format!(
        "model:\n  provider: custom\n  base_url: {}\n  default: test-model\n{more}",
        server.base_url()
    );
    TempHome::builder().config_yaml(&config).build().unwrap()
}

fn write_prompts(folder: &Path, count: usize) {
    let lines = (0..count).map(|number| json!({"prompt": format!("p{number}")}).to_string());
    fs::write(folder.join("prompts.jsonl"), lines.collect::<Vec<_>>().join("\n")).unwrap();
}

const RUN: [&str; 6] = [
    "batch",
    "--dataset_file=prompts.jsonl",
    "--batch_size",
    "7",
    "--run_name=42",
    "--distribution=terminal_only",
];

fn batch(folder: &Path, home: &TempHome, more: &[&str]) -> String {
    run_in(folder, home.path(), &[&RUN[..], more].concat())
}

/// Starts a run that can be signalled.
fn start(folder: &Path, home: &TempHome, more: &[&str]) -> Child {
    Command::new(program())
        .args(RUN)
        .args(more)
        .current_dir(folder)
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Returns how often each prompt occurs in the files with this beginning.
fn recorded(folder: &Path, begin: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder.join("data/42")) else { return counts };
    for entry in entries.map(Result::unwrap) {
        if !entry.file_name().to_string_lossy().starts_with(begin) {
            continue;
        }
        for line in fs::read_to_string(entry.path()).unwrap().lines() {
            let Ok(record) = JsonTree::parse(line) else { continue };
            let turns = record.get("conversations").and_then(JsonTree::as_array).unwrap();
            *counts.entry(turns[1].get("value").unwrap().as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn flags_reach_the_requests_and_the_users_database_is_left_alone() {
    let server = thinking_server();
    let home = home_for(&server, "");
    let folder = tempfile::tempdir().unwrap();
    write_prompts(folder.path(), 3);
    fs::write(
        folder.path().join("prefill.json"),
        r#"[{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}]"#,
    )
    .unwrap();
    fs::write(folder.path().join("AGENTS.md"), "Never to be read.").unwrap();
    let seen = batch(
        folder.path(),
        &home,
        &[
            "--ephemeral_system_prompt=Be brief.",
            "--prefill-messages-file",
            "prefill.json",
            "--max_tokens=77",
            "--max_samples=2",
            "--verbose",
        ],
    );
    assert!(seen.contains("exit 0") && seen.contains("Processed 2 of 2 prompts"), "{seen}");
    assert!(seen.contains("[B0:P1] p1\n[B0:P1] toolsets terminal, file"), "{seen}");
    let request = server.request(0);
    assert!(
        request.system_text().ends_with("Be brief.") && !request.body_text().contains("Never to be read")
    );
    assert_eq!(request.at("/messages/1/content").as_str(), Some("before"));
    assert_eq!(request.at("/max_tokens").as_u64(), Some(77));
    let tools = request.tool_names();
    assert!(
        tools.iter().any(|tool| tool == "terminal") && !tools.iter().any(|tool| tool == "web_search"),
        "{tools:?}"
    );
    let text = fs::read_to_string(folder.path().join("data/42/trajectories.jsonl")).unwrap();
    assert!(!text.contains("Be brief") && !text.contains("before") && text.contains("because"), "{text}");
    assert!(!home.state_db().exists(), "the user's database is not touched");
    assert_eq!(fs::read_dir(home.join("cache/research")).unwrap().count(), 0, "and the run's own is gone");
    let seen = batch(folder.path(), &home, &["--max_samples=2"]);
    assert!(seen.contains("2 of 2 prompts are done already") && server.request_count() == 2, "{seen}");
}

#[test]
fn wrong_flags_are_named_and_nothing_is_run() {
    let server = thinking_server();
    let home = home_for(&server, "");
    let folder = tempfile::tempdir().unwrap();
    write_prompts(folder.path(), 1);
    let check = |arguments: &[&str], code: i32, words: &str| {
        let seen = run_in(folder.path(), home.path(), arguments);
        assert!(seen.starts_with(&format!("exit {code}\n")) && seen.contains(words), "{arguments:?}: {seen}");
    };
    check(&["batch"], 2, "--dataset-file is missing");
    check(&["batch", "--dataset_file=x", "--batch_size=1"], 2, "--run-name is missing");
    check(
        &["batch", "--dataset_file=x", "--batch_size=0", "--run_name=r"],
        2,
        "--batch-size must be at least 1",
    );
    check(
        &["batch", "--dataset_file=x", "--batch_size=1", "--run_name=../r"],
        2,
        "must be the name of a folder",
    );
    check(&["batch", "--dataset_file=x", "--batch_size=1", "--run_name=r"], 1, "x: No such file");
    let with = |flag| [&RUN[..], &[flag]].concat();
    check(&with("--reasoning_effort=huge"), 2, "it can be one of none, minimal, low");
    check(
        &with("--distribution=none"),
        2,
        "the argument '--distribution <NAME>' cannot be used multiple times",
    );
    check(&with("--prefill_messages_file=prompts.jsonl"), 2, "cannot be used as prefill");
    check(&with("--shard=2/2"), 2, "is not a shard");
    check(&with("--max_cost=-1"), 1, "is not a sum");
    assert_eq!(server.request_count(), 0);
    check(&["batch", "--list_distributions", "--dataset_file=x"], 0, "terminal_tasks");
    let empty = TempHome::new().unwrap();
    let seen = batch(folder.path(), &empty, &[]);
    assert!(seen.starts_with("exit 1") && seen.contains("no model is configured"), "{seen}");
}

/// Kills a run again and again, and lets it end.
fn run_with_kills(kills: u64, prompts: usize) {
    let server = thinking_server();
    let home = home_for(&server, "");
    let folder = tempfile::tempdir().unwrap();
    write_prompts(folder.path(), prompts);
    let mut seed = 7_u64;
    for _ in 0..kills {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before: usize = recorded(folder.path(), "batch_").values().sum();
        let until_then = before + usize::try_from(seed >> 33).unwrap() % 9;
        let resume =
            if seed >> 40 & 1 == 1 { &["--resume", "--num_workers=3"][..] } else { &["--num_workers=16"] };
        let mut child = start(folder.path(), &home, resume);
        until("some records, or the end", || {
            recorded(folder.path(), "batch_").values().sum::<usize>() >= until_then
                || child.try_wait().unwrap().is_some()
        });
        // It may have ended.
        let _ = child.kill();
        child.wait().unwrap();
    }
    let seen = batch(folder.path(), &home, &["--resume"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let expected: BTreeMap<String, usize> = (0..prompts).map(|number| (format!("p{number}"), 1)).collect();
    assert_eq!(recorded(folder.path(), "batch_"), expected);
    assert_eq!(recorded(folder.path(), "trajectories"), expected);
    assert_eq!(fs::read_dir(home.join("cache/research")).unwrap().count(), 0);
}

#[test]
fn a_run_that_is_killed_again_and_again_has_one_record_for_each_prompt() {
    run_with_kills(6, 120);
}

#[test]
#[ignore = "takes a minute; the same with more kills"]
fn a_run_that_is_killed_fifty_times_has_one_record_for_each_prompt() {
    run_with_kills(50, 400);
}

#[test]
fn ctrl_c_lets_running_conversations_end_and_the_run_be_resumed() {
    let held = ScriptedReply::new().wait("gate").reasoning("because").then_text("an answer").forever();
    let server = ModelServer::start_blocking(ModelScript::new().reply(held)).unwrap();
    let home = home_for(&server, "");
    let folder = tempfile::tempdir().unwrap();
    write_prompts(folder.path(), 6);
    let mut child = start(folder.path(), &home, &["--num_workers=2"]);
    server.wait_for_requests_blocking(2);
    signal(&child, Signal::INT);
    // It goes on until the answers are there.
    assert!(child.try_wait().unwrap().is_none());
    server.open("gate");
    let code = child.wait().unwrap().code();
    let written = recorded(folder.path(), "batch_").len();
    assert!(code == Some(130) && (2..6).contains(&written), "{code:?}, {written} records");
    let seen = batch(folder.path(), &home, &["--resume"]);
    assert!(seen.starts_with("exit 0") && recorded(folder.path(), "batch_").len() == 6, "{seen}");
}

#[test]
fn rows_with_images_never_run_on_this_machine() {
    let server = thinking_server();
    let home = home_for(&server, "");
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("prompts.jsonl"),
        "{\"prompt\": \"a\", \"image\": \"debian\"}\n{\"prompt\": \"b\"}\n",
    )
    .unwrap();
    let seen = batch(folder.path(), &home, &[]);
    assert!(
        seen.contains("[B0:P0] failed: the image debian needs a terminal.backend with containers"),
        "{seen}"
    );
    assert!(seen.starts_with("exit 1") && recorded(folder.path(), "batch_").len() == 1, "{seen}");
}

#[test]
fn trajectories_are_compressed() {
    let server = ModelServer::start_blocking(ModelScript::always("What happened.")).unwrap();
    let home = TempHome::builder().env_file("SUMMARY_KEY=k\n").build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let turns: Vec<_> =
        ["system", "human", "gpt", "tool", "gpt", "tool", "gpt", "tool", "gpt", "tool", "gpt", "gpt"]
            .iter()
            .map(|from| json!({"from": from, "value": "word ".repeat(100)}))
            .collect();
    fs::write(folder.path().join("in.jsonl"), json!({"conversations": turns}).to_string()).unwrap();
    let config = format!(
        "compression: {{target_max_tokens: 1200, summary_target_tokens: 20}}\n\
         summarization: {{model: test-model, base_url: {}, api_key_env: SUMMARY_KEY}}\n",
        server.base_url()
    );
    fs::write(folder.path().join("c.yaml"), config).unwrap();
    let seen =
        run_in(folder.path(), home.path(), &["compress", "--input=in.jsonl", "--config=c.yaml", "--dry_run"]);
    assert!(seen.contains("in.jsonl: 1 of 1 trajectories to in_compressed.jsonl"), "{seen}");
    let seen = run_in(folder.path(), home.path(), &["compress", "--input", "in.jsonl", "--config", "c.yaml"]);
    assert!(seen.starts_with("exit 0") && seen.contains("compressed      1"), "{seen}");
    let text = fs::read_to_string(folder.path().join("in_compressed.jsonl")).unwrap();
    assert!(text.contains("[CONTEXT SUMMARY]: What happened."), "{text}");
    assert!(folder.path().join("in_compressed_metrics.json").exists());
    let seen = run_in(folder.path(), home.path(), &["compress", "--input=in.jsonl", "--sample_percent=200"]);
    assert!(seen.starts_with("exit 2") && seen.contains("above 0 and at most 100"), "{seen}");
}

#[test]
fn a_server_that_returns_raw_text_calls_tools() {
    let script = ModelScript::new()
        .reply(ScriptedReply::text(
            "Let me look.\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>",
        ))
        .reply(ScriptedReply::text("It says hello."))
        .echo();
    let server = ModelServer::start_blocking(script).unwrap();
    let home = home_for(&server, "  tool_parser: hermes\nagent: {save_trajectories: true}\n");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
    let seen = run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "what does a.txt say?"]);
    assert!(seen.starts_with("exit 0\n--- stdout\nIt says hello.\n"), "{seen}");
    assert!(server.request(1).body_text().contains("     1|hello"));
    // The conversation is training data, at once and from the database.
    let saved = fs::read_to_string(folder.path().join("trajectory_samples.jsonl")).unwrap();
    let exported = run_in(folder.path(), home.path(), &["sessions", "export", "--format", "sharegpt"]);
    for text in [saved.as_str(), exported.as_str()] {
        assert!(text.contains(r#"{"from": "human", "value": "what does a.txt say?"}"#), "{text}");
        assert!(text.contains(r#"<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>"#), "{text}");
        assert!(text.contains(r#""model": "test-model", "completed": true}"#), "{text}");
    }
    let wrong = home_for(&server, "  tool_parser: gpt\n");
    let seen = run_in(folder.path(), wrong.path(), &["chat", "-Q", "-q", "x"]);
    assert!(seen.contains("tool_parser"), "{seen}");
}

/// Returns the address of a PostgreSQL server, if a script started one.
fn postgres() -> Option<String> {
    let address = std::env::var("HERMES_TEST_POSTGRES").ok();
    if address.is_none() {
        hermes_testkit::peer_is_missing("HERMES_TEST_POSTGRES is not set (scripts/peers/postgres start)");
    }
    address
}

/// A run in a queue, with a home and a folder of its own.
struct QueuedRun {
    home: TempHome,
    folder: tempfile::TempDir,
    name: String,
}

impl QueuedRun {
    fn new(server: &ModelServer, address: &str, prompts: usize) -> Self {
        let config =
            format!("model:\n  provider: custom\n  base_url: {}\n  default: test-model\n", server.base_url());
        let secrets = format!("HERMES_BATCH_QUEUE={address}\n");
        let home = TempHome::builder().config_yaml(&config).env_file(&secrets).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        write_prompts(folder.path(), prompts);
        let name = format!("test-{}", hermes_types::random_hex(12));
        let run = Self { home, folder, name };
        let seen = run.batch(
            "enqueue",
            &["--dataset-file=prompts.jsonl", "--batch-size=7", "--distribution=terminal_only"],
        );
        assert!(seen.contains(&format!("{prompts} of {prompts} prompts are new")), "{seen}");
        run
    }

    fn arguments<'a>(&'a self, action: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["batch", action, "--run-name", &self.name], more].concat()
    }

    fn batch(&self, action: &str, more: &[&str]) -> String {
        run_in(self.folder.path(), self.home.path(), &self.arguments(action, more))
    }

    fn start_worker(&self, more: &[&str]) -> Child {
        Command::new(program())
            .args(self.arguments("worker", more))
            .current_dir(self.folder.path())
            .env_clear()
            .env("HERMES_HOME", self.home.path())
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn done(&self) -> usize {
        let seen = self.batch("status", &[]);
        let line =
            seen.lines().find(|line| line.trim_start().starts_with("done")).unwrap_or_default().to_owned();
        line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).unwrap_or_default()
    }

    /// Exports the run, and returns how often each prompt occurs.
    fn exported(&self) -> BTreeMap<String, usize> {
        let seen = self.batch("export", &[]);
        assert!(seen.starts_with("exit 0"), "{seen}");
        let text =
            fs::read_to_string(self.folder.path().join("data").join(&self.name).join("trajectories.jsonl"))
                .unwrap();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            let record = JsonTree::parse(line).unwrap();
            let turns = record.get("conversations").and_then(JsonTree::as_array).unwrap();
            *counts.entry(turns[1].get("value").unwrap().as_str().unwrap().to_owned()).or_default() += 1;
        }
        counts
    }
}

/// Runs workers that are killed, and one that is paused past its lease, and checks that every prompt has exactly one record.
fn run_queue_with_kills(workers: usize, kills: usize, prompts: usize) {
    let Some(address) = postgres() else { return };
    let slow = ScriptedReply::new().delay(std::time::Duration::from_millis(50));
    let reply = slow.reasoning("because").then_text("an answer").forever();
    let server = ModelServer::start_blocking(ModelScript::new().real_time().reply(reply)).unwrap();
    let run = QueuedRun::new(&server, &address, prompts);
    let flags = ["--num-workers=8", "--lease-seconds=2"];
    let mut running: Vec<Child> = (0..workers).map(|_| run.start_worker(&flags)).collect();
    let mut seed = 11_u64;
    for _ in 0..kills {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = run.done();
        until("some more records", || run.done() > before || run.done() >= prompts);
        let at = usize::try_from(seed >> 33).unwrap() % workers;
        let _ = running[at].kill();
        running[at].wait().unwrap();
        running[at] = run.start_worker(&flags);
    }
    // Paused past its lease, it comes back to items that others have done.
    let before = run.done();
    until("some more records", || run.done() > before || run.done() >= prompts);
    signal(&running[0], Signal::STOP);
    until("the others to do everything", || run.done() >= prompts);
    signal(&running[0], Signal::CONT);
    for mut worker in running {
        worker.wait().unwrap();
    }
    let expected: BTreeMap<String, usize> = (0..prompts).map(|number| (format!("p{number}"), 1)).collect();
    assert_eq!(run.exported(), expected, "{}", run.batch("status", &[]));
}

#[test]
fn peer_postgres_workers_that_are_killed_and_paused_do_every_prompt_once() {
    run_queue_with_kills(3, 3, 400);
}

#[test]
#[ignore = "takes minutes; the same with eight workers and 2,000 prompts"]
fn peer_postgres_eight_workers_and_two_thousand_prompts() {
    run_queue_with_kills(8, 12, 2000);
}

#[test]
fn peer_postgres_a_local_run_is_promoted_and_exported() {
    let Some(address) = postgres() else { return };
    let server = thinking_server();
    let run = QueuedRun::new(&server, &address, 12);
    let local = [
        "batch",
        "--run-name",
        &run.name,
        "--dataset-file=prompts.jsonl",
        "--batch-size=7",
        "--max-samples=5",
        "--distribution=terminal_only",
    ];
    let seen = run_in(run.folder.path(), run.home.path(), &local);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let seen = run.batch("import", &[]);
    assert!(seen.contains("Imported 5 records"), "{seen}");
    let seen = run.batch("worker", &[]);
    assert!(seen.contains("Wrote 7 records, discarded 0, failed 0"), "{seen}");
    assert_eq!(server.request_count(), 12, "nothing was done twice");
    assert_eq!(run.exported().len(), 12);
    let folder = run.folder.path().join("data").join(&run.name);
    let statistics = JsonTree::parse(&fs::read_to_string(folder.join("statistics.json")).unwrap()).unwrap();
    assert_eq!(statistics.get("total_prompts").unwrap().as_u64(), Some(12));
    let checkpoint = JsonTree::parse(&fs::read_to_string(folder.join("checkpoint.json")).unwrap()).unwrap();
    assert_eq!(checkpoint.get("completed_prompts").unwrap().as_array().unwrap().len(), 12);
    let unknown =
        run_in(run.folder.path(), run.home.path(), &["batch", "worker", "--run-name=nothing-of-this-name"]);
    assert!(unknown.starts_with("exit 1") && unknown.contains("there is no such run"), "{unknown}");
}

#[test]
#[ignore = "prints how much of the time eight workers use"]
#[expect(clippy::cast_precision_loss, reason = "figures")]
fn peer_postgres_efficiency_of_eight_workers() {
    const PROMPTS: usize = 800;
    const WORKERS: usize = 8;
    let Some(address) = postgres() else { return };
    let slow = ScriptedReply::new().delay(std::time::Duration::from_millis(200));
    let reply = slow.reasoning("because").then_text("an answer").forever();
    let server = ModelServer::start_blocking(ModelScript::new().real_time().reply(reply)).unwrap();
    let run = QueuedRun::new(&server, &address, PROMPTS);
    let clock = RealClock::default();
    let began = clock.monotonic();
    let running: Vec<Child> = (0..WORKERS).map(|_| run.start_worker(&["--num-workers=1"])).collect();
    for mut worker in running {
        worker.wait().unwrap();
    }
    let seconds = clock.monotonic().saturating_sub(began).as_secs_f64();
    let ideal = PROMPTS as f64 * 0.2 / WORKERS as f64;
    println!(
        "{PROMPTS} prompts, {WORKERS} workers, a model that takes 200 ms: {seconds:.2} s, {:.3} of ideal",
        ideal / seconds
    );
}

#[test]
fn a_queue_has_to_be_named() {
    let home = TempHome::new().unwrap();
    let seen = run_in(Path::new("/"), home.path(), &["batch", "status", "--run-name=x"]);
    assert!(seen.starts_with("exit 2") && seen.contains("--queue is missing"), "{seen}");
    let seen = run_in(
        Path::new("/"),
        home.path(),
        &["batch", "status", "--run-name=x", "--queue=postgresql://u:hush@127.0.0.1:9/x"],
    );
    assert!(seen.starts_with("exit 1") && seen.contains("the queue: ") && !seen.contains("hush"), "{seen}");
}
