//! A damaged file, a full disk, a foreign file: the error is clear, and nothing is lost.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::process::Command;

use hermes_store::{
    Error, NewMessage, NewSession, RepairOutcome, RepairReport, SessionFilter, Store, StoreNotice, repair,
};
use hermes_types::{Message, Timestamp};
use rusqlite::Connection;

use super::support::{StoreFixture, mode_of, store_fixture};

fn repaired(path: &std::path::Path) -> RepairReport {
    match repair(path).unwrap() {
        RepairOutcome::Repaired(repaired) => repaired,
        RepairOutcome::Sound => panic!("the file is said to be sound"),
    }
}

fn filled() -> StoreFixture {
    let place = store_fixture();
    for session in 0..20 {
        let id = place.session(&format!("s{session}"), f64::from(session));
        for number in 0..50 {
            place.append_user_message(
                &id,
                &format!("message {number} of {session} {}", "pad ".repeat(40)),
                f64::from(number),
            );
        }
    }
    place
}

/// Checks that an error names the file and the remedy.
fn check_words(error: &Error, remedy: &str) {
    let text = error.to_string();
    assert!(text.contains("state.db") && text.contains(remedy), "{text}");
}

#[test]
fn a_backup_is_complete_private_and_independent() {
    let place = filled();
    let target = place.folder.path().join("copy.db");
    place.store.back_up(&target).unwrap();
    place.append_user_message(&"s0".into(), "later", 99.0);
    assert_eq!(mode_of(&target), 0o600);
    let copy = Store::open(&target).unwrap();
    assert_eq!(copy.stats().wait().unwrap().messages, 1000);
    assert!(copy.check().wait().unwrap().is_sound());
    let leftovers: Vec<_> = fs::read_dir(place.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("tmp"))
        .collect();
    assert_eq!(leftovers, Vec::<String>::new());
}

#[test]
fn a_backup_onto_nothing_says_so() {
    let place = store_fixture();
    let error = place.store.back_up(&place.folder.path().join("no/such/folder/copy.db")).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    fs::write(
        &path,
        "this is a letter, not a database, and it is long enough to be read as a header. ".repeat(20),
    )
    .unwrap();
    let before = fs::read(&path).unwrap();
    let error = Store::open(&path).unwrap_err();
    check_words(&error, "hermes db repair");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn somebody_elses_database_is_not_added_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE sessions (token TEXT); INSERT INTO sessions VALUES ('x')").unwrap();
    drop(other);
    let error = Store::open(&path).unwrap_err();
    check_words(&error, "not a Hermes database");
    let tables: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT COUNT(*) FROM sqlite_master WHERE name <> 'sessions'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 0);
}

#[test]
fn a_zero_length_log_is_no_problem() {
    let place = filled();
    place.store.close().wait().unwrap();
    fs::write(place.folder.path().join("state.db-wal"), b"").unwrap();
    let store = Store::open(&place.db()).unwrap();
    assert_eq!(store.stats().wait().unwrap().messages, 1000);
    assert!(store.check().wait().unwrap().is_sound());
}

#[test]
fn a_version_from_the_future_is_used_without_being_changed() {
    let place = filled();
    place.store.close().wait().unwrap();
    let other = place.sql();
    other
        .execute_batch("UPDATE schema_version SET version = 97; ALTER TABLE messages ADD COLUMN mood TEXT")
        .unwrap();
    let schema = |connection: &Connection| -> Vec<String> {
        let mut statement = connection.prepare("SELECT sql FROM sqlite_master ORDER BY name").unwrap();
        statement
            .query_map([], |row| row.get::<_, Option<String>>(0))
            .unwrap()
            .map(|sql| sql.unwrap().unwrap_or_default())
            .collect()
    };
    let before = schema(&other);
    let store = Store::open(&place.db()).unwrap();
    assert_eq!(store.notices(), [StoreNotice::NewerVersion { version: 97 }]);
    store.append(&"s0".into(), NewMessage::new(Message::user("x"), Timestamp(1.0))).wait().unwrap();
    assert_eq!(schema(&other), before);
    let version: i64 = other.query_row("SELECT version FROM schema_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 97);
}

/// A file system of a few megabytes that the test mounts and removes. Only root can mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(folder.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
    }

    fn make_read_only(&self) {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(self.0.path()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_costs_only_what_was_refused() {
    let Some(disk) = SmallDisk::mount() else {
        hermes_testkit::peer_is_missing("mounting a small file system needs root");
        return;
    };
    let path = disk.0.path().join("state.db");
    let store = Store::open(&path).unwrap();
    let session = hermes_types::SessionId::from("s");
    store.create_session(NewSession::new(session.clone(), "cli", Timestamp(1.0))).wait().unwrap();
    let message = || NewMessage::new(Message::user("words ".repeat(400)), Timestamp(1.0));
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![0; 400_000]).unwrap();

    let mut kept = 0;
    let error = loop {
        match store.append(&session, message()).wait() {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 5000, "the disk never filled up");
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    check_words(&error, "Free some space");
    fs::remove_file(&ballast).unwrap();
    store.append(&session, message()).wait().unwrap();
    assert_eq!(store.transcript(&session).wait().unwrap().len(), kept + 1);
    assert!(store.check().wait().unwrap().is_sound());
}

#[test]
fn a_read_only_home_can_still_be_read() {
    let Some(disk) = SmallDisk::mount() else {
        hermes_testkit::peer_is_missing("mounting a small file system needs root");
        return;
    };
    let path = disk.0.path().join("state.db");
    let store = Store::open(&path).unwrap();
    store.create_session(NewSession::new("s".into(), "cli", Timestamp(1.0))).wait().unwrap();
    store.close().wait().unwrap();
    drop(store);
    disk.make_read_only();

    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    check_words(&error, "HERMES_HOME");
    let store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.list_sessions(SessionFilter::default(), 5).wait().unwrap().len(), 1);
    let error =
        store.append(&"s".into(), NewMessage::new(Message::user("x"), Timestamp(1.0))).wait().unwrap_err();
    check_words(&error, "HERMES_HOME");
}

#[test]
fn what_can_be_read_from_a_damaged_file_is_saved() {
    let place = filled();
    place.sql().execute_batch("CREATE TABLE gateway_routing (k TEXT PRIMARY KEY, v TEXT); INSERT INTO gateway_routing VALUES ('a', 'b')").unwrap();
    place.store.close().wait().unwrap();
    // Overwrite some pages in the middle of the message table.
    let page: i64 = place
        .sql()
        .query_row(
            "SELECT pageno FROM dbstat WHERE name = 'messages' AND pagetype = 'leaf' LIMIT 1 OFFSET 3",
            [],
            |row| row.get(0),
        )
        .unwrap_or(12);
    let mut file = fs::OpenOptions::new().write(true).open(place.db()).unwrap();
    file.seek(SeekFrom::Start(u64::try_from(page - 1).unwrap() * 4096)).unwrap();
    file.write_all(&[0xAB; 8192]).unwrap();
    drop(file);
    let before = fs::read(place.db()).unwrap();

    let report = repaired(&place.db());
    assert_eq!(fs::read(&report.damaged_copy).unwrap(), before, "the damaged file is kept as it was");
    assert!(report.unreadable > 0 && report.messages > 800, "{report:?}");
    assert_eq!(mode_of(&place.db()), 0o600);
    let store = Store::open(&place.db()).unwrap();
    let checked = store.check().wait().unwrap();
    assert!(checked.is_sound(), "{checked:?}");
    assert_eq!(store.stats().wait().unwrap().messages, report.messages);
    let found = super::support::find(
        &store,
        "message",
        hermes_store::SearchScope { limit: 10, ..Default::default() },
    );
    assert_eq!(found.hits.len(), 10, "search works on the rescued file");
    let routing: String =
        place.sql().query_row("SELECT v FROM gateway_routing", [], |row| row.get(0)).unwrap();
    assert_eq!(routing, "b", "tables of other programs are rescued too");
}

#[test]
fn messages_whose_session_is_lost_are_kept_under_a_new_one() {
    let place = filled();
    place.store.close().wait().unwrap();
    let other = Connection::open(place.db()).unwrap();
    other.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM sessions WHERE id = 's7'").unwrap();
    drop(other);
    let report = repaired(&place.db());
    assert_eq!(report.restored_sessions, 1);
    let store = Store::open(&place.db()).unwrap();
    assert_eq!(store.transcript(&"s7".into()).wait().unwrap().len(), 50);
    assert!(store.check().wait().unwrap().is_sound());
}

#[test]
fn repairing_a_sound_file_changes_nothing() {
    let place = filled();
    place.store.close().wait().unwrap();
    let before = fs::read(place.db()).unwrap();
    assert_eq!(repair(&place.db()).unwrap(), RepairOutcome::Sound);
    assert_eq!(fs::read(place.db()).unwrap(), before);
    let names: Vec<_> =
        fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["state.db"]);
}

#[test]
fn a_file_that_was_cut_short_gives_back_what_is_left() {
    for (percent, at_least) in [(95, 400), (90, 300), (75, 200), (50, 100)] {
        let place = filled();
        place.store.close().wait().unwrap();
        let length = fs::metadata(place.db()).unwrap().len();
        let file = fs::OpenOptions::new().write(true).open(place.db()).unwrap();
        file.set_len(length * percent / 100).unwrap();
        let repaired = repaired(&place.db());
        assert!(repaired.messages >= at_least, "{percent} %: {repaired:?}");
        let store = Store::open(&place.db()).unwrap();
        assert!(store.check().wait().unwrap().problems.is_empty());
        assert_eq!(store.stats().wait().unwrap().messages, repaired.messages);
    }
}

#[test]
fn a_file_that_is_taken_away_takes_no_more_writes() {
    type Take = fn(&std::path::Path);
    let takes: [Take; 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::rename(path, path.with_extension("moved")).unwrap(),
        |path| {
            fs::remove_file(path).unwrap();
            fs::write(path, "").unwrap();
        },
    ];
    for take in takes {
        let place = store_fixture();
        let id = place.session("s", 1.0);
        place.store.probe().wait().unwrap();
        take(&place.db());
        let message = NewMessage::new(Message::user("lost"), Timestamp(2.0));
        let error = place.store.append(&id, message).wait().unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        check_words(&error, "restart Hermes");
        place.store.probe().wait().unwrap_err();
    }
}
