//! Files of every release can be opened and used, and the releases can still use them afterwards.

use std::collections::BTreeSet;

use hermes_store::{NewMessage, NewSession, SearchScope, SessionCriteria, SessionFilter, Store};
use hermes_testkit::{DatabaseFixture, fixture};
use hermes_types::{Message, Provenance, Timestamp};
use rusqlite::Connection;

use super::support::find;

/// Returns everything the file declares that this program did not add.
fn theirs(connection: &Connection) -> BTreeSet<(String, Option<String>)> {
    let mut statement = connection
        .prepare("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'hx!_%' ESCAPE '!'")
        .unwrap();
    let entries = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    entries
        .map(Result::unwrap)
        .filter(|(name, _): &(String, _)| !name.starts_with("sqlite_autoindex_hx"))
        .collect()
}

fn version(connection: &Connection) -> i64 {
    connection.query_row("SELECT version FROM schema_version", [], |row| row.get(0)).unwrap()
}

#[test]
fn every_generation_is_read_and_written() {
    for generation in DatabaseFixture::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        generation.build(&path).unwrap();
        let before: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT COUNT(*) FROM messages", [], |row| row.get(0))
            .unwrap();

        let store = Store::open(&path).unwrap_or_else(|error| panic!("{generation:?}: {error}"));
        assert_eq!(store.notices(), [], "{generation:?}");
        let listed = store.list_sessions(SessionFilter::default(), 50).wait().unwrap();
        assert!(listed.len() >= 4, "{generation:?}: {}", listed.len());
        assert!(
            listed.iter().all(|session| session.id.as_str() != fixture::ARCHIVED)
                || generation.version() < 22
        );
        for session in &listed {
            store
                .transcript(&session.id)
                .wait()
                .unwrap_or_else(|error| panic!("{generation:?} {}: {error}", session.id));
        }
        let id = fixture::FIRST.into();
        store.append(&id, NewMessage::new(Message::user("zebra crossing"), Timestamp(9e9))).wait().unwrap();
        let found = find(&store, "zebra", SearchScope { limit: 5, ..SearchScope::default() });
        assert_eq!(found.hits.len(), 1, "{generation:?}");
        let last = store.transcript(&id).wait().unwrap().pop().unwrap();
        assert_eq!(last.message, Message::user("zebra crossing"), "{generation:?}");
        let new = NewSession::new("fresh".into(), "cli", Timestamp(9e9));
        store.append_creating(new, vec![NewMessage::new(Message::user("x"), Timestamp(9e9))]).wait().unwrap();
        let checked = store.check().wait().unwrap();
        assert!(checked.is_sound(), "{generation:?}: {checked:?}");
        store.close().wait().unwrap();

        let other = Connection::open(&path).unwrap();
        assert_eq!(version(&other), i64::from(generation.version()).max(6), "{generation:?}");
        let after: i64 = other.query_row("SELECT COUNT(*) FROM messages", [], |row| row.get(0)).unwrap();
        assert_eq!(after, before + 2, "{generation:?}: nothing was lost or doubled");
    }
}

#[test]
fn newer_files_keep_their_own_schema() {
    for generation in [
        DatabaseFixture::V6,
        DatabaseFixture::V8,
        DatabaseFixture::V11,
        DatabaseFixture::V15,
        DatabaseFixture::V22,
        DatabaseFixture::V22WithoutDefaults,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        generation.build(&path).unwrap();
        let before = theirs(&Connection::open(&path).unwrap());
        Store::open(&path).unwrap().close().wait().unwrap();
        assert_eq!(theirs(&Connection::open(&path).unwrap()), before, "{generation:?}");
    }
}

/// Shows that a file created or upgraded here declares what the baseline declares, so that other releases can use
/// it.
#[test]
fn a_new_file_is_a_version_6_file() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, baseline) = (folder.path().join("ours.db"), folder.path().join("theirs.db"));
    Store::open(&ours).unwrap().close().wait().unwrap();
    DatabaseFixture::V6.build_empty(&baseline).unwrap();
    let (ours, baseline) = (Connection::open(ours).unwrap(), Connection::open(baseline).unwrap());
    let names = |connection: &Connection| {
        theirs(connection).into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&ours), names(&baseline));
    assert_eq!(version(&ours), 6);
    for table in ["sessions", "messages"] {
        let columns = |connection: &Connection| -> BTreeSet<(String, String, bool)> {
            let mut statement =
                connection.prepare("SELECT name, type, \"notnull\" FROM pragma_table_info(?1)").unwrap();
            let rows =
                statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
            rows.map(Result::unwrap).collect()
        };
        assert_eq!(columns(&ours), columns(&baseline), "{table}");
    }
}

#[test]
fn older_files_gain_what_they_lacked() {
    for generation in [
        DatabaseFixture::V1,
        DatabaseFixture::V2,
        DatabaseFixture::V3,
        DatabaseFixture::V4,
        DatabaseFixture::V5,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        generation.build(&path).unwrap();
        Store::open(&path).unwrap().close().wait().unwrap();
        let names: BTreeSet<_> =
            theirs(&Connection::open(&path).unwrap()).into_iter().map(|(name, _)| name).collect();
        assert!(names.contains("idx_sessions_title_unique"), "{generation:?}: {names:?}");
        // Opening again finds nothing to do and needs no write lock, so it works while another process holds that
        // lock.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        Store::open(&path).unwrap();
    }
}

#[test]
fn stored_reasoning_and_parts_come_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    DatabaseFixture::V22.build(&path).unwrap();
    let store = Store::open(&path).unwrap();
    let mut seen = String::new();
    for session in store.find_sessions(SessionCriteria::default()).wait().unwrap() {
        for stored in store.transcript(&session).wait().unwrap() {
            seen.push_str(&serde_json::to_string(&stored.message).unwrap());
            assert_ne!(stored.provenance, Provenance::System);
        }
    }
    assert!(seen.contains(fixture::REASONING_DETAILS), "{seen}");
    assert!(seen.contains(fixture::CODEX_REASONING_ITEMS));
    assert!(seen.contains("\"image_url\""), "multimodal content is decoded");
}

#[test]
fn rows_that_are_no_longer_live_are_found_but_not_replayed() {
    for generation in [DatabaseFixture::V22, DatabaseFixture::V22WithoutDefaults] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        generation.build(&path).unwrap();
        let store = Store::open(&path).unwrap();
        let other = Connection::open(&path).unwrap();
        let counts: (i64, i64) = other
            .query_row(
                "SELECT SUM(COALESCE(active, 1) = 1), SUM(COALESCE(active, 1) = 0 AND compacted = 1)
                 FROM messages WHERE session_id = ?1",
                [fixture::COMPACTED],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert!(counts.1 > 0, "the fixture has compacted rows");
        let live = store.transcript(&fixture::COMPACTED.into()).wait().unwrap();
        assert_eq!(i64::try_from(live.len()).unwrap(), counts.0, "{generation:?}");
        let old: String = other
            .query_row(
                "SELECT content FROM messages WHERE session_id = ?1 AND compacted = 1",
                [fixture::COMPACTED],
                |r| r.get(0),
            )
            .unwrap();
        let word = old.split_whitespace().max_by_key(|word| word.len()).unwrap();
        let found = find(&store, word, SearchScope { limit: 50, ..SearchScope::default() });
        assert!(
            found.hits.iter().any(|hit| hit.session_id.as_str() == fixture::COMPACTED),
            "{generation:?}: {word}"
        );
    }
}

#[test]
fn side_branches_of_real_files_are_not_continuations() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    DatabaseFixture::V22.build(&path).unwrap();
    let store = Store::open(&path).unwrap();
    let resolved = store.resolve(fixture::FIRST).wait().unwrap().unwrap();
    assert_eq!(resolved.as_str(), fixture::CONTINUATION);
}

#[test]
fn deleting_in_a_newer_file_lets_its_cascades_work() {
    for generation in [DatabaseFixture::V22, DatabaseFixture::V6] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        generation.build(&path).unwrap();
        let store = Store::open(&path).unwrap();
        for session in store.find_sessions(SessionCriteria::default()).wait().unwrap() {
            store
                .delete_session(&session)
                .wait()
                .unwrap_or_else(|error| panic!("{generation:?} {session}: {error}"));
        }
        assert!(store.check().wait().unwrap().is_sound(), "{generation:?}");
        assert_eq!(store.stats().wait().unwrap().messages, 0);
    }
}

/// Shows that columns are used which another program adds while the file is open.
#[test]
fn columns_that_appear_under_us_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let store = Store::open(&path).unwrap();
    store.create_session(NewSession::new("s".into(), "cli", Timestamp(1.0))).wait().unwrap();
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch(
            "ALTER TABLE messages ADD COLUMN active INTEGER; UPDATE schema_version SET version = 22",
        )
        .unwrap();
    store.append(&"s".into(), NewMessage::new(Message::user("x"), Timestamp(1.0))).wait().unwrap();
    let active: Option<i64> = other.query_row("SELECT active FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!(active, Some(1));
    assert_eq!(store.transcript(&"s".into()).wait().unwrap().len(), 1);
}
