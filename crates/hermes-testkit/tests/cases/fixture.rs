//! Checks the fixture databases through SQLite alone.
#![expect(
    clippy::disallowed_methods,
    reason = "the fixtures are checked without hermes-store, which they test"
)]

use hermes_testkit::fixture::{
    ARCHIVED, COMPACTED, CONTINUATION, DELEGATE, DatabaseFixture, FIRST, MULTIMODAL, REASONING_DETAILS,
    TELEGRAM, UNICODE_TITLE,
};
use rusqlite::Connection;

fn open(fixture: DatabaseFixture) -> (tempfile::TempDir, Connection) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    fixture.build(&path).unwrap();
    assert!(!directory.path().join("state.db-wal").exists(), "one file");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
    (directory, connection)
}

fn columns(connection: &Connection, table: &str) -> Vec<String> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?) ORDER BY cid").unwrap();
    let rows = statement.query_map([table], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn one<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> T {
    connection.query_row(sql, [], |row| row.get(0)).expect(sql)
}

#[test]
fn every_fixture_is_sound_and_searchable() {
    for fixture in DatabaseFixture::ALL {
        let (_directory, connection) = open(fixture);
        assert_eq!(one::<String>(&connection, "PRAGMA integrity_check"), "ok", "{fixture:?}");
        assert_eq!(one::<String>(&connection, "PRAGMA journal_mode"), "wal");
        assert_eq!(one::<u32>(&connection, "SELECT version FROM schema_version"), fixture.version());
        let violations = one::<i64>(&connection, "SELECT count(*) FROM pragma_foreign_key_check");
        assert_eq!(violations, 0, "{fixture:?}");
        let hits = one::<i64>(
            &connection,
            "SELECT count(*) FROM messages_fts JOIN messages ON messages.id = messages_fts.rowid
             WHERE messages_fts MATCH 'import'",
        );
        assert!(hits >= 2, "{fixture:?}: {hits}");
        // The index follows a deletion.
        connection.execute("DELETE FROM messages WHERE content LIKE '%import%'", []).unwrap();
        let left =
            one::<i64>(&connection, "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'import'");
        assert_eq!(left, 0, "{fixture:?}");
    }
}

#[test]
fn columns_come_with_their_versions() {
    let cases = [
        (DatabaseFixture::V1, "messages", "finish_reason", false),
        (DatabaseFixture::V2, "messages", "finish_reason", true),
        (DatabaseFixture::V2, "sessions", "title", false),
        (DatabaseFixture::V3, "sessions", "title", true),
        (DatabaseFixture::V4, "sessions", "billing_mode", false),
        (DatabaseFixture::V5, "sessions", "billing_mode", true),
        (DatabaseFixture::V5, "messages", "reasoning_details", false),
        (DatabaseFixture::V6, "messages", "reasoning_details", true),
        (DatabaseFixture::V6, "messages", "active", false),
        (DatabaseFixture::V15, "messages", "active", true),
        (DatabaseFixture::V15, "messages", "compacted", false),
        (DatabaseFixture::V22, "messages", "api_content", true),
        (DatabaseFixture::V22, "sessions", "profile_name", true),
    ];
    for (fixture, table, column, expected) in cases {
        let (_directory, connection) = open(fixture);
        assert_eq!(
            columns(&connection, table).iter().any(|name| name == column),
            expected,
            "{fixture:?} {column}"
        );
    }
    let unique = "SELECT count(*) FROM sqlite_master WHERE name = 'idx_sessions_title_unique'";
    assert_eq!(one::<i64>(&open(DatabaseFixture::V3).1, unique), 0);
    assert_eq!(one::<i64>(&open(DatabaseFixture::V4).1, unique), 1);
}

#[test]
fn the_baseline_has_exactly_its_columns() {
    let (_directory, connection) = open(DatabaseFixture::V6);
    let sessions = "id source user_id model model_config system_prompt parent_session_id started_at ended_at end_reason \
        message_count tool_call_count input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens \
        billing_provider billing_base_url billing_mode estimated_cost_usd actual_cost_usd cost_status cost_source \
        pricing_version title";
    let messages = "id session_id role content tool_call_id tool_calls tool_name timestamp token_count finish_reason \
        reasoning reasoning_details codex_reasoning_items";
    assert_eq!(columns(&connection, "sessions").join(" "), sessions);
    assert_eq!(columns(&connection, "messages").join(" "), messages);
    let triggers = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name)";
    assert_eq!(
        one::<String>(&connection, triggers),
        "messages_fts_delete,messages_fts_insert,messages_fts_update"
    );
}

#[test]
fn stored_text_is_byte_for_byte() {
    let (_directory, connection) = open(DatabaseFixture::V22);
    let details = "SELECT reasoning_details FROM messages WHERE reasoning_details IS NOT NULL";
    assert_eq!(one::<String>(&connection, details), REASONING_DETAILS);
    let content = format!("SELECT content FROM messages WHERE session_id = '{ARCHIVED}' ORDER BY id LIMIT 1");
    assert_eq!(one::<String>(&connection, &content), MULTIMODAL);
    let title = format!("SELECT title FROM sessions WHERE id = '{TELEGRAM}'");
    assert_eq!(one::<String>(&connection, &title), UNICODE_TITLE);
    let counted = format!("SELECT message_count * 100 + tool_call_count FROM sessions WHERE id = '{FIRST}'");
    assert_eq!(one::<i64>(&connection, &counted), 703);
}

#[test]
fn newer_files_hold_retired_rows_children_and_cascades() {
    let (_directory, connection) = open(DatabaseFixture::V22);
    let live = format!("SELECT count(*) FROM messages WHERE session_id = '{COMPACTED}' AND active = 1");
    assert_eq!(one::<i64>(&connection, &live), 3);
    let compacted =
        format!("SELECT count(*) FROM messages WHERE session_id = '{COMPACTED}' AND compacted = 1");
    assert_eq!(one::<i64>(&connection, &compacted), 2);
    assert_eq!(one::<i64>(&connection, "SELECT count(*) FROM sessions WHERE archived = 1"), 1);
    let config = format!(
        "SELECT json_extract(model_config, '$._delegate_from') FROM sessions WHERE id = '{DELEGATE}'"
    );
    assert_eq!(one::<String>(&connection, &config), CONTINUATION);
    let tools = "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'search_files'";
    assert!(one::<i64>(&connection, tools) >= 2, "tool names and calls are indexed");
    let inside = "SELECT count(*) FROM messages_fts_trigram WHERE messages_fts_trigram MATCH 'ttic'";
    assert_eq!(one::<i64>(&connection, inside), 2, "three letters inside a word are found");
    connection.execute("DELETE FROM messages WHERE session_id = ?", [COMPACTED]).unwrap();
    connection.execute("DELETE FROM sessions WHERE id = ?", [COMPACTED]).unwrap();
    assert_eq!(one::<i64>(&connection, "SELECT count(*) FROM compression_locks"), 0);
}

#[test]
fn files_without_defaults_hold_nulls() {
    let (_directory, connection) = open(DatabaseFixture::V22WithoutDefaults);
    let nulls = format!("SELECT count(*) FROM messages WHERE session_id = '{FIRST}' AND active IS NULL");
    assert_eq!(one::<i64>(&connection, &nulls), 7);
}

#[test]
fn a_fixture_is_never_written_over_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    DatabaseFixture::V6.build_empty(&path).unwrap();
    let error = DatabaseFixture::V6.build(&path).unwrap_err().to_string();
    assert!(error.contains("state.db"), "{error}");
}
