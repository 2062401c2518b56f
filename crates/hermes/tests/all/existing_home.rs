//! A home that another release has used for a long time: all of it is used, and none of it is damaged.

use hermes_testkit::{DatabaseFixture, ModelScript, ModelServer, ScriptedReply, TempHome};

use super::support::hermes;

/// Creates a home with comments and unknown keys in the configuration, memories, a skill, and a database of the
/// newest schema.
fn home(server: &ModelServer) -> TempHome {
    let config = format!(
        "# my settings\n_config_version: 33\nmodel:\n  provider: custom\n  base_url: {}\n  default: test-model\nagent:\n  max_turns: 90\nfuture_key: {{kept: true}}\n",
        server.base_url()
    );
    TempHome::builder()
        .config_yaml(&config)
        .file("memories/MEMORY.md", "the build needs cmake\n§\nthe server is called luna")
        .file("memories/USER.md", "prefers short answers")
        .file("SOUL.md", "You are Luna, terse and kind.")
        .file("skills/media/video/SKILL.md", "---\nname: video\ndescription: Cut clips\n---\nsteps")
        .state_db(DatabaseFixture::V22)
        .build()
        .unwrap()
}

#[test]
fn sessions_list_search_and_resume_work_and_the_file_stays_sound() {
    let script =
        ModelScript::new().reply(ScriptedReply::text("Going on.")).reply(ScriptedReply::text("And on."));
    let server = ModelServer::start_blocking(script).unwrap();
    let home = home(&server);
    let listed = hermes(&home, &["sessions", "list"]);
    assert!(listed.contains("Überblick — 日本旅行 🌸"), "{listed}");
    assert!(!listed.contains("20251201_080000_01d000"), "archived ones are hidden: {listed}");
    let found = hermes(&home, &["sessions", "search", "cargo"]);
    assert!(found.starts_with("exit 0") && found.contains("20260105"), "{found}");

    let seen = hermes(&home, &["-Q", "--resume", "20260105_091500_a1b2c3", "-q", "where were we?"]);
    assert!(seen.contains("Going on."), "{seen}");
    assert!(
        seen.contains("session_id: 20260105_101500_d4e5f6"),
        "it goes on where the compressed one did: {seen}"
    );
    let body = server.request(0).body_text().into_owned();
    assert!(body.contains("where were we?") && body.contains("\"assistant\""), "{body}");

    let seen = hermes(&home, &["-Q", "-q", "hello"]);
    assert!(seen.contains("And on."), "{seen}");
    let system = server.request(1).system_text();
    for part in ["You are Luna, terse and kind.", "the build needs cmake", "prefers short answers"] {
        assert!(system.contains(part), "{part}: {system}");
    }

    let checked = hermes(&home, &["db", "check"]);
    assert!(checked.starts_with("exit 0") && checked.contains("schema version 22"), "{checked}");
    let config = home.read("config.yaml");
    assert!(config.starts_with("# my settings\n") && config.contains("future_key: {kept: true}"), "{config}");
    assert_eq!(home.read("memories/MEMORY.md"), "the build needs cmake\n§\nthe server is called luna");
}

#[test]
fn what_the_other_program_needs_is_in_the_rows_we_write() {
    let server =
        ModelServer::start_blocking(ModelScript::new().reply(ScriptedReply::text("Noted."))).unwrap();
    let home = home(&server);
    hermes(&home, &["-Q", "-q", "a new conversation"]);
    let exported = hermes(&home, &["sessions", "export", "-"]);
    let ours = exported.lines().find(|line| line.contains("a new conversation")).unwrap();
    let session: serde_json::Value = serde_json::from_str(ours).unwrap();
    assert_eq!(session["source"], "cli");
    assert_eq!(session["message_count"], 2);
    assert!(session["system_prompt"].as_str().unwrap().starts_with("You are Luna"));
    assert_eq!(session["end_reason"], "cli_close");
    for message in session["messages"].as_array().unwrap() {
        assert_eq!(message["active"], 1, "{message}");
    }
    let log = std::fs::read_dir(home.join("sessions")).unwrap().next().unwrap().unwrap().path();
    let log: serde_json::Value = serde_json::from_slice(&std::fs::read(log).unwrap()).unwrap();
    assert_eq!((&log["message_count"], &log["platform"]), (&2.into(), &"cli".into()));
}
