//! `hermes chat` and `hermes model`: complete turns of the built binary.

use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TempHome};
use serde_json::json;

use super::support::{hermes, run_in};

/// Creates a home that uses the scripted server.
fn home_for(server: &ModelServer) -> TempHome {
    let config =
        format!("model:\n  provider: custom\n  base_url: {}\n  default: test-model\n", server.base_url());
    TempHome::builder().config_yaml(&config).build().unwrap()
}

#[test]
fn with_nothing_configured_the_offline_model_uses_real_tools() {
    let home = TempHome::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "first line\nTODO: second\n").unwrap();
    let seen =
        run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "read notes.txt, then search for TODO"]);
    assert!(seen.contains("     1|first line") && seen.contains("notes.txt:2: TODO: second"), "{seen}");
    assert!(seen.contains("offline model"), "{seen}");
    let seen = run_in(folder.path(), home.path(), &["chat", "-q", "list the files here and read notes.txt"]);
    assert!(seen.contains("┊ 💻 $") && seen.contains("     1|first line"), "{seen}");
    assert!(hermes(&home, &["model"]).contains("offline"));
    assert!(hermes(&home, &["sessions", "stats"]).contains("Total sessions: 2\nTotal messages: 12"));
}

#[test]
fn a_turn_with_a_tool_call_goes_through_and_is_stored() {
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("read_file", json!({"path": "a.txt"})))
        .reply(ScriptedReply::deltas(["It says ", "hello."]));
    let server = ModelServer::start_blocking(script).unwrap();
    let home = home_for(&server);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
    let seen = run_in(folder.path(), home.path(), &["chat", "-Q", "-q", "what does a.txt say?"]);
    let (said, session) = seen.split_once("--- stderr\n").unwrap();
    assert_eq!(said, "exit 0\n--- stdout\nIt says hello.\n");
    assert!(session.trim().starts_with("session_id: "), "{session}");
    let second = server.request(1);
    assert!(
        second.body_text().contains("     1|hello"),
        "the result reaches the model: {}",
        second.body_text()
    );
    assert!(second.tool_names().iter().any(|name| name == "search_files"));
    assert!(second.header("user-agent").unwrap_or_default().starts_with("HermesAgent/"));
    let listed = hermes(&home, &["sessions", "list"]);
    assert!(listed.contains("what does a.txt say?"), "{listed}");
}

#[test]
fn what_a_question_points_at_goes_with_it() {
    let server = ModelServer::start_blocking(ModelScript::new().reply(ScriptedReply::text("seen"))).unwrap();
    let home = home_for(&server);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(folder.path().join(".env"), "KEY=hush\n").unwrap();
    let seen = run_in(folder.path(), home.path(), &["chat", "-q", "what is @file:a.txt:2, and @file:.env?"]);
    assert!(seen.contains("[@ context: 2 ref(s), "), "{seen}");
    let request = server.request(0);
    let asked = request.body_text();
    assert!(asked.contains("📄 @file:a.txt:2 (1 tokens)\\n```txt\\ntwo\\n```"), "{asked}");
    assert!(asked.contains("- @file:.env: Access denied") && !asked.contains("hush"), "{asked}");
    std::fs::write(folder.path().join("long.txt"), "word ".repeat(200_000)).unwrap();
    let seen = run_in(folder.path(), home.path(), &["chat", "-q", "@file:long.txt"]);
    assert!(seen.starts_with("exit 1\n") && seen.contains("more than half of the model's window"), "{seen}");
}

#[test]
fn a_session_goes_on_where_it_was() {
    let server = ModelServer::start_blocking(
        ModelScript::new().reply(ScriptedReply::text("one")).reply(ScriptedReply::text("two")),
    )
    .unwrap();
    let home = home_for(&server);
    hermes(&home, &["chat", "-q", "first"]);
    let listed = hermes(&home, &["sessions", "list"]);
    let id = listed
        .lines()
        .find(|line| line.starts_with("first"))
        .and_then(|line| line.split_whitespace().last())
        .unwrap();
    let seen = hermes(&home, &["chat", "-Q", "--resume", id, "-q", "second"]);
    assert!(seen.contains("two"), "{seen}");
    let (one, two) = (server.request(0), server.request(1));
    assert_eq!(one.system_text(), two.system_text(), "the prompt's beginning stays the same");
    assert!(
        two.body_text().contains("\"first\"") && two.body_text().contains("\"one\""),
        "{}",
        two.body_text()
    );
    let seen = hermes(&home, &["chat", "--resume", "nobody", "-q", "x"]);
    assert!(seen.starts_with("exit 1") && seen.contains("Session not found: nobody"), "{seen}");
}

#[test]
fn a_refusal_is_said_without_the_key_and_the_question_is_kept() {
    let body = json!({"error": {"message": "Incorrect API key provided: sk-live-abcdefghijklmnopqrstuv"}});
    let server =
        ModelServer::start_blocking(ModelScript::new().reply(ScriptedReply::http(401, body).forever()))
            .unwrap();
    let home = home_for(&server);
    let seen = hermes(&home, &["config", "set", "model.api_key", "sk-live-abcdefghijklmnopqrstuv"]);
    assert!(!seen.contains("abcdefghij"), "{seen}");
    let seen = hermes(&home, &["chat", "-q", "hello there"]);
    assert!(seen.starts_with("exit 1") && seen.contains("401") && !seen.contains("abcdefghij"), "{seen}");
    assert!(hermes(&home, &["sessions", "list"]).contains("hello there"));
    for entry in std::fs::read_dir(home.join("sessions")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains("abcdefghijklmnopqrstuv"), "{text}");
    }
}

#[test]
fn a_provider_without_a_key_is_named() {
    let home =
        TempHome::builder().config_yaml("model:\n  provider: openrouter\n  default: a/b\n").build().unwrap();
    let seen = hermes(&home, &["chat", "-q", "hi"]);
    assert!(
        seen.starts_with("exit 1")
            && seen.contains("OPENROUTER_API_KEY")
            && seen.contains("hermes config set"),
        "{seen}"
    );
    let seen = hermes(&home, &["chat", "--provider", "nonsense", "-q", "hi"]);
    assert!(seen.contains("Unknown provider 'nonsense'."), "{seen}");
}

#[test]
fn an_empty_question_is_refused() {
    let home = TempHome::new().unwrap();
    assert!(hermes(&home, &["chat", "-q", "  "]).starts_with("exit 1"));
}

#[test]
fn a_spending_limit_stops_the_turn_before_the_next_call() {
    let script = "replies:\n  - tool: {name: read_file, arguments: {path: a.txt}}\n    usage: {input: 10, output: 5, at: always, extra: {cost: 0.5}}\n  - text: never said\n";
    let server = ModelServer::start_blocking(ModelScript::from_yaml("costly", script).unwrap()).unwrap();
    let home = home_for(&server);
    hermes(&home, &["config", "set", "budget.per_turn_usd", "0.3"]);
    let seen = hermes(&home, &["chat", "-q", "read a.txt"]);
    assert!(seen.starts_with("exit 1") && seen.contains("spent $0.5000 of its limit of $0.3000"), "{seen}");
    assert!(seen.contains("budget.per_turn_usd"), "{seen}");
    server.assert_requests(1);
}

#[test]
fn a_turn_is_finished_when_nobody_reads_it_any_more() {
    let script = ModelScript::new()
        .reply(ScriptedReply::tool("read_file", json!({"path": "a.txt"})))
        .reply(ScriptedReply::text("written for nobody"));
    let server = ModelServer::start_blocking(script).unwrap();
    let home = home_for(&server);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(["chat", "-q", "hello"])
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", "/nonexistent")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    let exported = hermes(&home, &["sessions", "export", "-"]);
    assert!(exported.contains("written for nobody"), "{exported}");
}
