//! `hermes db`.

use hermes_store::Store;
use hermes_testkit::{DatabaseFixture, TempHome};

use super::support::hermes;

#[test]
fn a_sound_file_is_called_sound() {
    let home = TempHome::builder().state_db(DatabaseFixture::V22).build().unwrap();
    let seen = hermes(&home, &["db", "check"]);
    assert!(
        seen.starts_with("exit 0") && seen.contains("schema version 22") && seen.contains("is sound"),
        "{seen}"
    );
}

#[test]
fn garbage_is_named_kept_and_not_replaced() {
    let home = TempHome::builder()
        .file("state.db", "not a database at all, only words. ".repeat(40))
        .build()
        .unwrap();
    let seen = hermes(&home, &["sessions", "list"]);
    assert!(
        seen.starts_with("exit 1") && seen.contains("[HOME]/state.db") && seen.contains("hermes db repair"),
        "{seen}"
    );
    assert!(home.read("state.db").starts_with("not a database"));
    let seen = hermes(&home, &["db", "repair"]);
    assert!(seen.starts_with("exit 1") && seen.contains("move it away"), "{seen}");
    assert!(home.read("state.db").starts_with("not a database"), "and it is still there");
}

#[test]
fn a_backup_opens_elsewhere() {
    let home = TempHome::builder().state_db(DatabaseFixture::V6).build().unwrap();
    let other = TempHome::new().unwrap();
    let target = other.join("state.db");
    let seen = hermes(&home, &["db", "backup", target.to_str().unwrap()]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    // A copy is one file; the newest part of the original may still be in its write-ahead log.
    let counts = |home: &TempHome| {
        let seen = hermes(home, &["sessions", "stats"]);
        seen.lines().filter(|line| !line.starts_with("Database size")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(counts(&other), counts(&home));
}

#[test]
fn a_repair_keeps_what_was_there() {
    let home = TempHome::builder().state_db(DatabaseFixture::V22).build().unwrap();
    let before = hermes(&home, &["sessions", "list"]);
    let seen = hermes(&home, &["db", "repair"]);
    assert!(seen.starts_with("exit 0") && seen.contains("is sound; nothing was changed"), "{seen}");
    assert_eq!(hermes(&home, &["sessions", "list"]), before);
    assert!(!home.join("state.db.damaged-1").exists());

    // Simulates a copy to a full disk: the end is missing, and so is the write-ahead log, which could replace it.
    Store::open(&home.state_db()).unwrap().close().wait().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(home.state_db()).unwrap();
    file.set_len(file.metadata().unwrap().len() * 9 / 10).unwrap();
    let seen = hermes(&home, &["db", "repair"]);
    assert!(seen.contains("Rescued") && seen.contains("state.db.damaged-1"), "{seen}");
    assert!(hermes(&home, &["db", "check"]).contains("schema version 22"));
}
