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

/// Returns the ids of the sessions that an export with these filters covers.
fn exported(home: &TempHome, filters: &[&str]) -> Vec<String> {
    let seen = hermes(home, &[&["sessions", "export", "-"], filters].concat());
    let lines = seen.lines().filter(|line| line.starts_with('{'));
    let id = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
    };
    lines.map(id).collect()
}

#[test]
fn an_export_is_filtered() {
    let home = home(DatabaseFixture::V22);
    let all = exported(&home, &[]);
    assert!(all.iter().any(|id| id == fixture::ARCHIVED), "{all:?}");
    for filters in [
        &["--source", "cron"][..],
        &["--min-messages", "3"],
        &["--max-messages", "2"],
        &["--title", "e"],
        &["--after", "2025-12-30"],
        &["--older-than", "1d"],
        &["--end-reason", "compression"],
    ] {
        let some = exported(&home, filters);
        assert!(!some.is_empty() && some.iter().all(|id| all.contains(id)), "{filters:?}: {some:?}");
    }
    for filters in [
        &["--newer-than", "1h"][..],
        &["--before", "2001-01-01"],
        &["--cwd", "/nonexistent/place"],
        &["--chat-id", "nobody"],
        &["--branch", "nothing"],
        &["--min-cost", "1000000"],
    ] {
        assert!(exported(&home, filters).is_empty(), "{filters:?}");
    }
    for filters in [&["--older-than", "soon"][..], &["--before", "yesterday"]] {
        let seen = hermes(&home, &[&["sessions", "export", "-"], filters].concat());
        assert!(seen.starts_with("exit 1") && seen.contains("is not a"), "{seen}");
    }
    let seen = hermes(&home, &["sessions", "export", "x.jsonl", "--source", "cron", "--dry-run"]);
    assert!(seen.contains("Would export") && !seen.contains("Exported"), "{seen}");
}

#[test]
fn an_export_as_documents_is_readable_and_masks_secrets() {
    let home = home(DatabaseFixture::V22);
    for (format, ending, mark) in
        [("md", "md", "## You ("), ("qmd", "qmd", "---\ntitle: "), ("html", "html", "<!doctype html>")]
    {
        let folder = home.join(format!("out-{format}"));
        let name = folder.to_str().unwrap();
        let seen = hermes(&home, &["sessions", "export", name, "--format", format]);
        assert!(seen.contains("Exported"), "{format}: {seen}");
        let path = folder.join(format!("{}.{ending}", fixture::FIRST));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(mark), "{format}: {text}");
        let lines = std::fs::read_to_string(folder.join("manifest.jsonl")).unwrap();
        assert!(lines.lines().any(|line| line.contains(fixture::FIRST)), "{lines}");
        let seen = hermes(&home, &["sessions", "export", name, "--format", format]);
        assert!(seen.starts_with("exit 1") && seen.contains("--force replaces it"), "{seen}");
        assert!(
            hermes(&home, &["sessions", "export", name, "--format", format, "--force"]).starts_with("exit 0")
        );
    }
    let seen = hermes(&home, &["sessions", "export", "--format", "md", "--session-id", fixture::FIRST]);
    assert!(seen.contains("[HOME]/session-exports"), "{seen}");
    let prompts = hermes(&home, &["sessions", "export", "--only", "user-prompts"]);
    assert!(prompts.contains(r#""role":"user""#) && !prompts.contains(r#""role":"assistant""#), "{prompts}");
}

#[test]
fn secrets_are_masked_in_documents_and_on_request() {
    const KEY: &str = "sk-or-v1-0123456789abcdef0123456789abcdef";
    let home = TempHome::new().unwrap();
    hermes(&home, &["-q", &format!("my key is {KEY}")]);
    let export = |arguments: &[&str]| hermes(&home, &[&["sessions", "export", "-"], arguments].concat());
    assert!(export(&[]).contains(KEY), "a copy is a copy");
    assert!(!export(&["--redact"]).contains(KEY));
    assert!(!export(&["--format", "md"]).contains(KEY));
    assert!(export(&["--format", "md", "--no-redact"]).contains(KEY));
    assert!(!export(&["--only", "user-prompts", "--redact"]).contains(KEY));
}

#[test]
fn a_compressed_conversation_is_one_document() {
    let home = home(DatabaseFixture::V22);
    let single = exported(&home, &[]);
    let whole = exported(&home, &["--lineage", "logical"]);
    assert!(whole.len() < single.len(), "{single:?} {whole:?}");
    let seen = hermes(
        &home,
        &["sessions", "export", "-", "--lineage", "logical", "--session-id", fixture::CONTINUATION],
    );
    let line = seen.lines().find(|line| line.starts_with('{')).unwrap();
    let session: serde_json::Value = serde_json::from_str(line).unwrap();
    assert!(session["segments"].as_array().unwrap().len() > 1, "{session}");
}

#[test]
fn a_session_is_deleted_only_after_its_export_was_read_back() {
    let home = home(DatabaseFixture::V6);
    let file = home.join("one.jsonl");
    let name = file.to_str().unwrap();
    let id = ["--session-id", fixture::UNTITLED];
    let seen = hermes(&home, &["sessions", "export", name, "--delete-after-verified", "--yes"]);
    assert!(seen.starts_with("exit 2"), "{seen}");
    let seen = hermes(&home, &["sessions", "export", name, id[0], id[1], "--delete-after-verified"]);
    assert!(seen.starts_with("exit 2"), "{seen}");
    let verified = ["--delete-after-verified", "--yes", id[0], id[1]];
    let seen = hermes(&home, &[&["sessions", "export", "-"][..], &verified].concat());
    assert!(seen.starts_with("exit 1") && seen.contains("cannot be verified"), "{seen}");
    let seen =
        hermes(&home, &[&["sessions", "export", name, "--only", "user-prompts"][..], &verified].concat());
    assert!(seen.starts_with("exit 1") && seen.contains("nothing was deleted"), "{seen}");
    let seen = hermes(&home, &[&["sessions", "export", name][..], &verified].concat());
    assert!(seen.contains("Deleted session"), "{seen}");
    assert!(std::fs::read_to_string(&file).unwrap().contains(fixture::UNTITLED));
    assert!(!exported(&home, &[]).iter().any(|found| found == fixture::UNTITLED));
}

#[test]
fn pruning_can_be_tried_and_is_filtered() {
    let home = home(DatabaseFixture::V22);
    let before = exported(&home, &[]);
    let seen = hermes(&home, &["sessions", "prune", "--source", "cron", "--older-than", "1", "--dry-run"]);
    assert!(seen.contains("Would delete") && seen.contains("cron_"), "{seen}");
    assert_eq!(exported(&home, &[]), before);
    hermes(&home, &["sessions", "archive", fixture::CRON]);
    hermes(&home, &["sessions", "prune", "--source", "cron", "--older-than", "1", "-y"]);
    assert_eq!(exported(&home, &[]), before, "archived sessions are kept");
    let doomed = ["sessions", "prune", "--source", "cron", "--older-than", "1", "--include-archived", "-y"];
    assert!(hermes(&home, &doomed).contains("Pruned 1 sessions."));
    let after = exported(&home, &[]);
    assert!(after.len() < before.len() && after.iter().all(|id| !id.starts_with("cron_")), "{after:?}");
}

#[test]
fn archived_sessions_leave_the_lists_and_come_back() {
    for generation in [DatabaseFixture::V6, DatabaseFixture::V22] {
        let home = home(generation);
        let is_listed = || hermes(&home, &["sessions", "list"]).contains(fixture::UNTITLED);
        assert!(is_listed());
        let seen = hermes(&home, &["sessions", "archive"]);
        assert!(seen.starts_with("exit 1") && seen.contains("name a session or a filter"), "{seen}");
        assert!(hermes(&home, &["sessions", "archive", fixture::UNTITLED]).contains("Archived 1 session."));
        assert!(!is_listed());
        assert!(hermes(&home, &["sessions", "archive", "--restore", fixture::UNTITLED]).contains("Restored"));
        assert!(is_listed());
        let seen = hermes(&home, &["sessions", "archive", "--source", "cron", "--dry-run"]);
        assert!(seen.contains("Would archive"), "{seen}");
        assert!(hermes(&home, &["sessions", "archive", "nobody"]).contains("Session 'nobody' not found."));
    }
}

#[test]
fn sessions_are_listed_by_the_folder_they_worked_in() {
    let home = TempHome::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("my-project");
    std::fs::create_dir(&project).unwrap();
    super::support::run_in(&project, home.path(), &["-q", "hello from the project"]);
    hermes(&home, &["-q", "hello from elsewhere"]);
    let seen = hermes(&home, &["sessions", "list", "--workspace", "MY-proj"]);
    assert!(seen.contains("my-project") && !seen.contains("elsewhere"), "{seen}");
    let there = exported(&home, &["--cwd", project.to_str().unwrap()]);
    assert_eq!(there.len(), 1, "{there:?}");
}

#[test]
fn a_database_is_compacted_and_repaired() {
    let home = home(DatabaseFixture::V22);
    let before = exported(&home, &[]);
    let seen = hermes(&home, &["sessions", "optimize"]);
    assert!(seen.starts_with("exit 0") && seen.contains("MB before"), "{seen}");
    assert_eq!(exported(&home, &[]), before);
    assert!(hermes(&home, &["db", "check"]).contains("The database is sound."));
    assert!(hermes(&home, &["sessions", "search", "Hermes"]).contains(">>>Hermes<<<"));
    assert!(hermes(&home, &["sessions", "repair"]).contains("is sound; nothing was changed"));
}
