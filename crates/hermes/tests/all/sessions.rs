//! `hermes sessions` on databases of other releases.

use hermes_testkit::{DatabaseFixture, TempHome, fixture};
use insta::assert_snapshot;

use super::support::hermes;

fn home(fixture: DatabaseFixture) -> TempHome {
    TempHome::builder().state_db(fixture).build().unwrap()
}

#[test]
fn a_list_shows_titles_previews_and_ids() {
    for generation in [DatabaseFixture::V6, DatabaseFixture::V22] {
        let seen = hermes(&home(generation), &["sessions", "list"]);
        assert!(
            seen.contains("Title ") && seen.contains("Preview") && seen.contains(fixture::CONTINUATION),
            "{seen}"
        );
        assert!(!seen.contains(fixture::ARCHIVED), "{seen}");
    }
}

#[test]
fn an_empty_home_says_so() {
    let home = TempHome::new().unwrap();
    assert_snapshot!(hermes(&home, &["sessions", "list"]), @r"
    exit 0
    --- stdout
    No sessions found.
    ");
}

#[test]
fn an_export_is_one_json_object_a_line() {
    let home = home(DatabaseFixture::V22);
    let seen = hermes(&home, &["sessions", "export", "-"]);
    let lines: Vec<&str> = seen.lines().filter(|line| line.starts_with('{')).collect();
    assert!(lines.len() >= 8, "{seen}");
    for line in &lines {
        let session: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(session["messages"].is_array() && session["id"].is_string());
    }
    let target = home.join("out.jsonl");
    let seen = hermes(&home, &["sessions", "export", target.to_str().unwrap(), "--session-id", "cron_daily"]);
    assert!(seen.contains("Exported 1 session to"), "{seen}");
    assert_eq!(home.read("out.jsonl").lines().count(), 1);
    let seen = hermes(&home, &["sessions", "export", "/nonexistent/folder/x.jsonl"]);
    assert!(seen.starts_with("exit 1") && seen.contains("/nonexistent/folder/x.jsonl"), "{seen}");
}

#[test]
fn removal_asks_and_without_anybody_to_ask_does_nothing() {
    let home = home(DatabaseFixture::V6);
    let seen = hermes(&home, &["sessions", "delete", fixture::UNTITLED]);
    assert!(seen.contains("Use -y"), "{seen}");
    let log = home.join("sessions").join(format!("session_{}.json", fixture::UNTITLED));
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "{}").unwrap();
    let seen = hermes(&home, &["sessions", "delete", "-y", fixture::UNTITLED]);
    assert!(seen.contains("Deleted session"), "{seen}");
    assert!(!log.exists());
    assert_snapshot!(hermes(&home, &["sessions", "delete", "-y", "nobody"]), @r"
    exit 0
    --- stdout
    Session 'nobody' not found.
    ");
}

#[test]
fn renaming_cleans_the_title_and_refuses_a_taken_one() {
    let home = home(DatabaseFixture::V6);
    let seen = hermes(&home, &["sessions", "rename", fixture::UNTITLED, "my", "  new\u{200b}  title"]);
    assert!(seen.contains("renamed to: my new title"), "{seen}");
    let seen = hermes(&home, &["sessions", "rename", fixture::CRON, "my new title"]);
    assert!(seen.starts_with("exit 1") && seen.contains("already in use by session"), "{seen}");
}

#[test]
fn words_are_found_across_sessions() {
    let home = home(DatabaseFixture::V22);
    let seen = hermes(&home, &["sessions", "search", "Hermes"]);
    assert!(seen.contains(">>>Hermes<<<"), "{seen}");
    assert!(hermes(&home, &["sessions", "search", "***"]).contains("Nothing to search for."));
}

#[test]
fn totals_are_counted() {
    let seen = hermes(&home(DatabaseFixture::V6), &["sessions", "stats"]);
    assert!(
        seen.contains("Total sessions: ") && seen.contains("cli: ") && seen.contains("Database size: "),
        "{seen}"
    );
}
