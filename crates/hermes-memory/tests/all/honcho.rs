//! Honcho: its settings, names of sessions, modes and tools.

use hermes_config::{Env, Home};
use hermes_memory::honcho::{HonchoFile, HonchoMemoryMode, HonchoRecallMode, HonchoSettings};
use hermes_testkit::{MEMORY_KEY, TempHome};
use hermes_types::{ExternalMemory as _, MemorySessionChange, SessionId};
use serde_json::{Value, json};

use super::support::{Bench, Talk};

fn settings(file: &str) -> HonchoSettings {
    let home = TempHome::builder().file("honcho.json", file).build().unwrap();
    HonchoFile::load(&Home::new(home.path()), home.path())
        .settings(&Env::from_pairs(Vec::<(String, String)>::new()))
}

#[test]
fn the_block_wins_over_the_root_and_the_root_over_the_default() {
    let found = settings(
        r#"{"apiKey": "k", "workspace": "shared", "peerName": "root-name", "sessions": {"/a": "alpha"},
            "hosts": {"hermes": {"peerName": "olga", "recallMode": "tools", "contextTokens": 100,
                "memoryMode": {"olga": "honcho", "hermes": "hybrid"}, "dialecticReasoningLevel": "huge"}}}"#,
    );
    assert_eq!(
        (found.peer.as_str(), found.workspace.as_str(), found.ai_peer.as_str()),
        ("olga", "shared", "hermes")
    );
    assert_eq!(found.recall_mode, HonchoRecallMode::Tools);
    assert_eq!((found.user_mode, found.ai_mode), (HonchoMemoryMode::Honcho, HonchoMemoryMode::Hybrid));
    assert!(found.is_active() && found.replaces_profile() && !found.replaces_notes());
    assert_eq!((found.reasoning_level.as_str(), found.dialectic_chars), ("low", 600));
    assert_eq!(found.sessions, [("/a".to_owned(), "alpha".to_owned())]);

    assert!(!settings("{}").is_active());
    assert!(settings(r#"{"baseUrl": "http://localhost:8000"}"#).is_active());
    assert!(!settings(r#"{"apiKey": "k", "hosts": {"hermes": {"enabled": false}}}"#).is_active());
    assert!(!settings(r#"{"apiKey": "k", "hosts": {"hermes": {"memoryMode": "local"}}}"#).is_active());
    assert!(!settings("not json").is_active());
}

#[test]
fn unknown_fields_stay_and_a_broken_file_is_not_replaced() {
    let home = TempHome::builder()
        .file("honcho.json", r#"{"other": 1, "hosts": {"obsidian": {"x": 2}}}"#)
        .build()
        .unwrap();
    let at = Home::new(home.path());
    let mut file = HonchoFile::load(&at, home.path());
    file.set("peerName", json!("olga"));
    file.map_folder("/work", "work");
    file.save().unwrap();
    let saved: Value = serde_json::from_str(&home.read("honcho.json")).unwrap();
    assert_eq!(
        saved,
        json!({"other": 1, "hosts": {"obsidian": {"x": 2}, "hermes": {"peerName": "olga"}}, "sessions": {"/work": "work"}})
    );
    std::fs::write(home.join("honcho.json"), "{oops").unwrap();
    let mut file = HonchoFile::load(&at, home.path());
    file.set("peerName", json!("olga"));
    assert!(file.save().unwrap_err().contains("nothing was changed"));
    assert_eq!(home.read("honcho.json"), "{oops");
}

/// Returns the sessions to which a turn in this folder goes.
async fn session_of(block: Value, account: Option<&str>) -> Vec<String> {
    let bench = Bench::new("honcho");
    let file = json!({"hosts": {"hermes": block}, "sessions": {"/elsewhere": "mapped"}});
    std::fs::write(bench.home.join("honcho.json"), file.to_string()).unwrap();
    let service = bench.service("honcho");
    Talk::new(&service, account, "20260101_s1").say("My dentist is called Weber.", "Noted.");
    service.shut_down().await;
    bench.servers.owners("honcho-session")
}

#[tokio::test]
async fn strategies_name_sessions() {
    for (block, account, expected) in [
        (json!({}), None, "20260101_s1"),
        (json!({"sessionStrategy": "per-directory"}), None, "project"),
        (json!({"sessionStrategy": "per-repo"}), None, "project"),
        (json!({"sessionStrategy": "global", "workspace": "w1"}), None, "w1"),
        (
            json!({"sessionStrategy": "global", "sessionPeerPrefix": true, "peerName": "olga"}),
            None,
            "olga-hermes",
        ),
        (json!({"sessionStrategy": "per-directory"}), Some("7"), "telegram_7-20260101_s1"),
    ] {
        assert_eq!(session_of(block.clone(), account).await, [expected], "{block}");
    }
}

#[tokio::test]
async fn a_compressed_conversation_stays_in_its_session() {
    let bench = Bench::new("honcho");
    let service = bench.service("honcho");
    let talk = Talk::new(&service, None, "first");
    talk.say("My dentist is called Weber.", "Noted.");
    let next = SessionId::from("second");
    talk.memory.session_changed(MemorySessionChange::Compressed { from: &talk.session, to: &next });
    Talk::new(&service, None, "second").say("My doctor is called Klein.", "Noted.");
    service.shut_down().await;
    assert_eq!(bench.servers.owners("honcho-session"), ["first"]);
}

#[tokio::test]
async fn turns_wait_for_their_time() {
    for (frequency, after_one, after_two, at_end) in
        [(json!("session"), 0, 0, 4), (json!(2), 0, 4, 4), (json!("turn"), 2, 4, 4)]
    {
        let bench = Bench::new("honcho");
        let file = json!({"hosts": {"hermes": {"writeFrequency": frequency}}});
        std::fs::write(bench.home.join("honcho.json"), file.to_string()).unwrap();
        let service = bench.service("honcho");
        let talk = Talk::new(&service, None, "s1");
        let count = || bench.servers.stored("honcho-session", "s1").len();
        talk.say("one fish", "Noted.");
        service.shut_down().await;
        assert_eq!(count(), after_one, "{frequency}");
        talk.say("two fish", "Noted.");
        service.shut_down().await;
        assert_eq!(count(), after_two, "{frequency}");
        talk.memory.session_ended(talk.place(), &[hermes_types::Message::user("x")]);
        service.shut_down().await;
        assert_eq!(count(), at_end, "{frequency}");
    }
}

#[tokio::test]
async fn long_messages_are_sent_in_pieces() {
    let bench = Bench::new("honcho");
    let service = bench.service("honcho");
    Talk::new(&service, None, "s1").say(&"zeppelin ".repeat(5_000), "Noted.");
    service.shut_down().await;
    let stored = bench.servers.stored("honcho", "user");
    assert!(stored.len() == 2 && stored.concat().len() >= 44_990, "{}", stored.len());
}

#[tokio::test]
async fn modes_decide_between_recall_and_tools() {
    for (mode, recalls, tools) in [("hybrid", true, 4), ("context", true, 0), ("tools", false, 4)] {
        let bench = Bench::new("honcho");
        let file = json!({"hosts": {"hermes": {"recallMode": mode, "contextTokens": 100}}});
        std::fs::write(bench.home.join("honcho.json"), file.to_string()).unwrap();
        bench.servers.remember("honcho", "user", &format!("The dentist is Weber. {}", "word ".repeat(200)));
        let service = bench.service("honcho");
        let talk = Talk::new(&service, None, "s1");
        let note = talk.recall("Which dentist?").await;
        assert_eq!(note.is_some(), recalls, "{mode}");
        assert!(note.unwrap_or_default().len() < 600, "{mode}");
        assert_eq!(talk.memory.tools().len(), tools, "{mode}");
    }
}

#[tokio::test]
async fn the_four_tools_and_the_dialectic_answer() {
    let bench = Bench::new("honcho");
    bench.servers.remember("honcho-card", "user", "Name: Olga");
    bench.servers.remember("honcho", "user", "Olga keeps a tortoise.");
    let service = bench.service("honcho");
    let talk = Talk::new(&service, None, "s1");
    assert!(talk.call("honcho_profile", json!({})).await.contains("Name: Olga"));
    let found = talk.call("honcho_search", json!({"query": "tortoise", "max_tokens": 2})).await;
    assert_eq!(found, r#"{"result":"Olga kee"}"#);
    assert!(talk.call("honcho_context", json!({"query": "Who?"})).await.contains("about user (low)"));
    assert!(
        talk.call("honcho_context", json!({"query": "Who?", "peer": "ai"})).await.contains("about hermes")
    );
    assert!(
        talk.call("honcho_conclude", json!({"conclusion": "Likes figs."}))
            .await
            .contains("Stored: Likes figs.")
    );
    assert_eq!(bench.servers.stored("honcho-conclusion", "user"), ["Likes figs."]);
    // After a turn Honcho is asked about the person; the next turn has the answer.
    talk.say("I feed the tortoise.", "Good.");
    service.shut_down().await;
    let note = talk.recall("What does the tortoise eat?").await.unwrap();
    assert!(note.contains("Honcho says about user") && note.contains("Name: Olga"), "{note}");
    assert!(bench.servers.calls("/v3/").iter().all(|call| call.status == 200));
    let keys = bench.servers.calls("").into_iter().flat_map(|call| call.headers);
    assert!(keys.filter(|(_, value)| value.contains(MEMORY_KEY)).all(|(name, _)| name == "authorization"));
}
