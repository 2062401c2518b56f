//! Sessions: their start and end, titles, descent, lists and removal.

use hermes_store::{
    ArchiveChange, ArchivedSessions, ChatBinding, CoveredStates, EndReason, Error, NewSession, NumberRange,
    RemovalOutcome, SessionBilling, SessionCriteria, SessionFilter, Store, UsageUpdate,
};
use hermes_testkit::{DatabaseFixture, fixture};
use hermes_text::Title;
use hermes_types::{Cost, CostStatus, SessionId, Timestamp, Usage};

use super::support::{StoreFixture, mode_of, store_fixture};

fn title(text: &str) -> Option<Title> {
    Title::sanitise(text).unwrap()
}

fn child(place: &StoreFixture, id: &str, parent: &SessionId, at: f64, config: Option<&str>) -> SessionId {
    let mut session = NewSession::new(id.into(), "cli", Timestamp(at));
    session.parent = Some(parent.clone());
    session.model_config = config.map(str::to_owned);
    place.store.create_session(session).wait().unwrap();
    id.into()
}

#[test]
fn the_file_is_for_its_owner_alone() {
    let place = store_fixture();
    place.session("s", 1.0);
    assert_eq!(mode_of(&place.db()), 0o600);
    assert_eq!(mode_of(&place.folder.path().join("state.db-wal")), 0o600);
}

#[test]
fn the_first_end_reason_stays_until_the_session_is_opened_again() {
    let place = store_fixture();
    let id = place.session("s", 1.0);
    place.store.end_session(&id, EndReason::Compression, Timestamp(5.0)).wait().unwrap();
    place.store.end_session(&id, EndReason::CliClose, Timestamp(9.0)).wait().unwrap();
    let row = place.store.session(&id).wait().unwrap().unwrap();
    assert_eq!((row.end_reason.as_deref(), row.ended_at), (Some("compression"), Some(Timestamp(5.0))));
    place.store.reopen_session(&id).wait().unwrap();
    let row = place.store.session(&id).wait().unwrap().unwrap();
    assert_eq!((row.end_reason, row.ended_at), (None, None));
}

#[test]
fn creating_again_only_fills_gaps() {
    let place = store_fixture();
    let mut session = NewSession::new("s".into(), "cli", Timestamp(1.0));
    place.store.create_session(session.clone()).wait().unwrap();
    session.model = Some("m1".into());
    place.store.create_session(session.clone()).wait().unwrap();
    session.model = Some("m2".into());
    session.source = "telegram".into();
    place.store.create_session(session.clone()).wait().unwrap();
    let row = place.store.session(&session.id).wait().unwrap().unwrap();
    assert_eq!((row.source.as_str(), row.model.as_deref()), ("cli", Some("m1")));
}

#[test]
fn usage_is_added_or_replaced_and_billing_filled_once() {
    let place = store_fixture();
    let id = place.session("s", 1.0);
    let usage = Usage { input: 10, output: 5, cache_read: 3, cache_write: 2, reasoning: 1 };
    let cost = Cost { micro_usd: Some(1_500_000), status: CostStatus::Estimated };
    let billing = |name: &str| SessionBilling { provider: Some(name.into()), ..SessionBilling::default() };
    place.store.record_usage(&id, UsageUpdate::Add, usage, cost, billing("a")).wait().unwrap();
    place.store.record_usage(&id, UsageUpdate::Add, usage, cost, billing("b")).wait().unwrap();
    let row = place.store.session(&id).wait().unwrap().unwrap();
    assert_eq!((row.usage.input, row.usage.reasoning, row.estimated_cost_usd), (20, 2, Some(3.0)));
    place.store.record_usage(&id, UsageUpdate::Replace, usage, Cost::UNKNOWN, billing("c")).wait().unwrap();
    let row = place.store.session(&id).wait().unwrap().unwrap();
    assert_eq!((row.usage, row.estimated_cost_usd), (usage, Some(3.0)));
    let provider: String =
        place.sql().query_row("SELECT billing_provider FROM sessions", [], |r| r.get(0)).unwrap();
    assert_eq!(provider, "a");
}

#[test]
fn titles_are_unique_and_say_who_has_them() {
    let place = store_fixture();
    let (one, two) = (place.session("one", 1.0), place.session("two", 2.0));
    place.store.set_title(&one, title("plan")).wait().unwrap();
    let error = place.store.set_title(&two, title("plan")).wait().unwrap_err();
    assert!(matches!(error, Error::TitleTaken { .. }));
    assert_eq!(error.to_string(), "Title 'plan' is already in use by session one");
    // Any number of sessions may have no title, and a session may get its own title again.
    place.store.set_title(&two, None).wait().unwrap();
    place.store.set_title(&one, title("plan")).wait().unwrap();
}

#[test]
fn a_compressed_ancestor_gives_its_title_up() {
    let place = store_fixture();
    let first = place.session("first", 1.0);
    place.store.set_title(&first, title("plan")).wait().unwrap();
    place.store.end_session(&first, EndReason::Compression, Timestamp(2.0)).wait().unwrap();
    let second = child(&place, "second", &first, 3.0, None);
    place.store.set_title(&second, title("plan")).wait().unwrap();
    assert_eq!(place.store.session(&first).wait().unwrap().unwrap().title, None);
}

#[test]
fn names_resolve_to_the_newest_of_their_series() {
    let place = store_fixture();
    for (id, name, at) in [("a", "my_project", 1.0), ("b", "my_project #2", 5.0), ("c", "myXproject #3", 9.0)]
    {
        let id = place.session(id, at);
        place.store.set_title(&id, title(name)).wait().unwrap();
    }
    let resolve = |name: &str| place.store.resolve(name).wait().unwrap().map(|id| id.as_str().to_owned());
    assert_eq!(resolve("my_project").as_deref(), Some("b"), "wildcards in a title are text");
    assert_eq!(resolve("my_project #2").as_deref(), Some("b"));
    assert_eq!(resolve("a").as_deref(), Some("a"), "an id comes before a title");
    assert_eq!(resolve("nothing"), None);
    assert_eq!(place.store.next_title("my_project #2").wait().unwrap(), "my_project #3");
    assert_eq!(place.store.next_title("100%").wait().unwrap(), "100%");
}

#[test]
fn id_prefixes_resolve_only_when_they_mean_one_session() {
    let place = store_fixture();
    for id in ["20260101_000000_abcdef", "20260101_000000_abc123", "20260102_000000_aaaaaa", "x_y"] {
        place.session(id, 1.0);
    }
    let resolve =
        |text: &str| place.store.resolve_prefix(text).wait().unwrap().map(|id| id.as_str().to_owned());
    assert_eq!(resolve("20260102").as_deref(), Some("20260102_000000_aaaaaa"));
    assert_eq!(resolve("20260101_000000_abc"), None);
    assert_eq!(resolve("20260101_000000_abc123").as_deref(), Some("20260101_000000_abc123"));
    assert_eq!(resolve("x%"), None);
    assert_eq!(resolve(""), None);
}

#[test]
fn a_compressed_conversation_resumes_at_its_newest_part_past_side_branches() {
    let place = store_fixture();
    let first = place.session("first", 1.0);
    place.append_user_message(&first, "begin", 1.0);
    place.store.set_title(&first, title("long talk")).wait().unwrap();
    place.store.end_session(&first, EndReason::Compression, Timestamp(2.0)).wait().unwrap();
    let second = child(&place, "second", &first, 3.0, None);
    place.append_user_message(&second, "goes on", 3.0);
    let delegate = child(&place, "delegate", &first, 4.0, Some(r#"{"_delegate_from":"first"}"#));
    place.append_user_message(&delegate, "aside", 4.0);
    let resolved = place.store.resolve("long talk").wait().unwrap();
    assert_eq!(resolved, Some(second.clone()));
    assert_eq!(place.store.lineage_root(&second).wait().unwrap(), first);
    let lineage = place.store.lineage(&second).wait().unwrap();
    assert_eq!(lineage.len(), 3, "search leaves the whole family out, side branches too: {lineage:?}");
}

#[test]
fn lists_show_previews_newest_first_and_hide_tool_sessions() {
    let place = store_fixture();
    let old = place.session("old", 1.0);
    place.session("new", 2.0);
    place.store.create_session(NewSession::new("hidden".into(), "tool", Timestamp(3.0))).wait().unwrap();
    place.append_user_message(&old, &format!("first\nline {}", "x".repeat(80)), 10.0);
    place.append_user_message(&old, "second", 20.0);
    assert_eq!(place.listed(), ["new", "old"]);
    let listed = place.store.list_sessions(SessionFilter::default(), 20).wait().unwrap();
    assert_eq!(listed[1].preview, format!("first line {}...", "x".repeat(49)));
    assert_eq!((listed[1].last_active, listed[0].last_active), (Timestamp(20.0), Timestamp(2.0)));
    let tools = SessionFilter::of_source("tool");
    assert_eq!(place.store.list_sessions(tools, 20).wait().unwrap().len(), 1);
}

#[test]
fn deleting_a_parent_leaves_its_children() {
    let place = store_fixture();
    let parent = place.session("parent", 1.0);
    place.append_user_message(&parent, "x", 1.0);
    let kid = child(&place, "kid", &parent, 2.0, None);
    assert_eq!(place.store.delete_session(&parent).wait().unwrap(), RemovalOutcome::Yes);
    assert_eq!(place.store.delete_session(&parent).wait().unwrap(), RemovalOutcome::NotFound);
    assert_eq!(place.store.session(&kid).wait().unwrap().unwrap().parent, None);
    assert!(place.store.check().wait().unwrap().is_sound());
    assert!(place.find("x").hits.is_empty());
}

#[test]
fn what_hangs_on_a_message_goes_with_it() {
    let place = store_fixture();
    let id = place.session("s", 1.0);
    let mut page = hermes_store::NewMessage::new(hermes_types::Message::user("from the web"), Timestamp(1.0));
    page.provenance = Some(hermes_types::Provenance::Web);
    place.store.append(&id, page).wait().unwrap();
    let notes = || {
        place
            .sql()
            .query_row("SELECT COUNT(*) FROM hx_message_notes", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(notes(), 1);
    place.store.delete_session(&id).wait().unwrap();
    assert_eq!(notes(), 0);
    assert!(place.find("web").hits.is_empty());
}

/// Shows that messages written here, by another program and here again are all found: each writer updates the
/// index.
#[test]
fn the_index_is_kept_by_whoever_writes() {
    let place = store_fixture();
    let id = place.session("s", 1.0);
    place.append_user_message(&id, "needle ours", 1.0);
    place
        .sql()
        .execute_batch("INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', 'needle theirs', 2)")
        .unwrap();
    place.append_user_message(&id, "needle again", 3.0);
    assert_eq!(place.find("needle").hits.len(), 3);
    place.sql().execute_batch("CREATE TRIGGER mine AFTER INSERT ON messages BEGIN UPDATE sessions SET user_id = new.content; END").unwrap();
    place.append_user_message(&id, "needle seen", 4.0);
    let seen: String = place.sql().query_row("SELECT user_id FROM sessions", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, "needle seen", "a trigger somebody adds runs");
    assert_eq!(place.find("needle").hits.len(), 4);
    place
        .sql()
        .execute_batch("INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)")
        .unwrap();
}

#[test]
fn pruning_spares_what_is_still_open() {
    let place = store_fixture();
    for (id, at) in [("open", 1.0), ("ended", 2.0), ("recent", 50.0)] {
        place.session(id, at);
    }
    for id in ["ended", "recent"] {
        place.store.end_session(&id.into(), EndReason::CliClose, Timestamp(60.0)).wait().unwrap();
    }
    let old = SessionCriteria {
        started_before: Some(Timestamp(10.0)),
        states: CoveredStates::Ended,
        ..SessionCriteria::default()
    };
    let pruned = place.store.prune_sessions(old).wait().unwrap();
    assert_eq!(pruned, [SessionId::from("ended")]);
    assert_eq!(place.listed(), ["recent", "open"]);
}

#[test]
fn criteria_select_sessions() {
    let place = store_fixture();
    let mut session = NewSession::new("a".into(), "cli", Timestamp(10.0));
    session.model = Some("vendor/Big-Model".to_owned());
    session.user_id = Some("u1".to_owned());
    session.cwd = Some("/work/project".to_owned());
    session.git_branch = Some("main".to_owned());
    place.store.create_session(session).wait().unwrap();
    let mut session = NewSession::new("b".into(), "telegram", Timestamp(20.0));
    session.cwd = Some("/work/project-two".to_owned());
    place.store.create_session(session).wait().unwrap();
    let entry = r#"{"origin": {"chat_id": "7", "chat_type": "dm"}}"#.to_owned();
    let binding = ChatBinding { key: "k".into(), session: "b".into(), entry, updated_at: Timestamp(20.0) };
    place.store.bind(binding).wait().unwrap();
    place.store.end_session(&"a".into(), EndReason::CliClose, Timestamp(60.0)).wait().unwrap();
    place.store.set_title(&"a".into(), title("Fix the Login")).wait().unwrap();
    let usage = Usage { input: 100, output: 50, ..Usage::default() };
    let billing = SessionBilling::default();
    place.store.record_usage(&"a".into(), UsageUpdate::Add, usage, Cost::UNKNOWN, billing).wait().unwrap();
    let all = SessionCriteria::default;
    let text = |text: &str| Some(text.to_owned());
    let least = |number| NumberRange { least: Some(number), most: None };
    let most = |number| NumberRange { least: None, most: Some(number) };
    for (criteria, found) in [
        (all(), &["a", "b"][..]),
        (SessionCriteria { source: text("cli"), ..all() }, &["a"]),
        (SessionCriteria { started_before: Some(Timestamp(20.0)), ..all() }, &["a"]),
        (SessionCriteria { started_after: Some(Timestamp(20.0)), ..all() }, &["b"]),
        (SessionCriteria { title: text("LOGIN"), ..all() }, &["a"]),
        (SessionCriteria { end_reason: text("cli_close"), ..all() }, &["a"]),
        (SessionCriteria { folder: text("/work/project"), ..all() }, &["a"]),
        (SessionCriteria { folder: text("/work/"), ..all() }, &["a", "b"]),
        (SessionCriteria { workspace: text("TWO"), ..all() }, &["b"]),
        (SessionCriteria { model: text("big-"), ..all() }, &["a"]),
        (SessionCriteria { user: text("u1"), ..all() }, &["a"]),
        (SessionCriteria { branch: text("main"), ..all() }, &["a"]),
        (SessionCriteria { chat_id: text("7"), ..all() }, &["b"]),
        (SessionCriteria { chat_type: text("dm"), ..all() }, &["b"]),
        (SessionCriteria { tokens: least(150.0), ..all() }, &["a"]),
        (SessionCriteria { tokens: least(151.0), ..all() }, &[]),
        (
            SessionCriteria { messages: most(0.0), cost: most(1.0), tool_calls: most(0.0), ..all() },
            &["a", "b"],
        ),
        (SessionCriteria { states: CoveredStates::Ended, ..all() }, &["a"]),
        (SessionCriteria { provider: text("nobody"), ..all() }, &[]),
    ] {
        let ids = place.store.find_sessions(criteria.clone()).wait().unwrap();
        assert_eq!(ids.iter().map(SessionId::as_str).collect::<Vec<_>>(), found, "{criteria:?}");
    }
}

#[test]
fn archived_sessions_are_hidden_in_every_generation() {
    for generation in [DatabaseFixture::V6, DatabaseFixture::V22] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        generation.build(&path).unwrap();
        let store = Store::open(&path).unwrap();
        let listed = || store.list_sessions(SessionFilter::default(), 50).wait().unwrap();
        let id: SessionId = fixture::UNTITLED.into();
        let is_listed = || listed().iter().any(|session| session.id == id);
        assert!(is_listed(), "{generation:?}");
        store.archive_sessions(vec![id.clone(), "nobody".into()], ArchiveChange::Archive).wait().unwrap();
        assert!(!is_listed(), "{generation:?}");
        let visible = SessionCriteria { archived: ArchivedSessions::Exclude, ..SessionCriteria::default() };
        assert!(!store.find_sessions(visible).wait().unwrap().contains(&id));
        assert!(store.find_sessions(SessionCriteria::default()).wait().unwrap().contains(&id));
        assert!(store.check().wait().unwrap().is_sound(), "{generation:?}");
        store.archive_sessions(vec![id.clone()], ArchiveChange::Restore).wait().unwrap();
        assert!(is_listed(), "{generation:?}");
        store.delete_session(&id).wait().unwrap();
        assert!(store.check().wait().unwrap().is_sound(), "{generation:?}");
    }
}

#[test]
fn an_export_has_every_column_and_parsed_calls() {
    let place = store_fixture();
    let id = place.session("s", 1.0);
    place
        .sql()
        .execute_batch(
            r#"INSERT INTO messages (session_id, role, content, timestamp, tool_calls)
               VALUES ('s', 'assistant', 'héllo', 2.0, '[{"id":"c","function":{"name":"t","arguments":"{}"}}]')"#,
        )
        .unwrap();
    let exported = place.store.export_session(&id).wait().unwrap().unwrap();
    let line = serde_json::to_string(&exported).unwrap();
    assert!(line.contains("héllo"), "text is not escaped");
    assert_eq!(exported["messages"][0]["tool_calls"][0]["function"]["name"], "t");
    for column in ["id", "source", "pricing_version", "title"] {
        assert!(exported.contains_key(column), "{column}");
    }
    assert!(place.store.export_session(&"gone".into()).wait().unwrap().is_none());
}

#[test]
fn what_came_in_and_went_out_goes_with_its_session_or_with_time() {
    let place = store_fixture();
    let id = place.session("s", 1.0);
    let other = place.session("other", 1.0);
    let sql = place.sql();
    for (turn, session) in [("t1", &id), ("t2", &other)] {
        sql.execute(
            "INSERT INTO hx_turns (id, session_id, state, started_at) VALUES (?1, ?2, 'done', 1)",
            [turn, session.as_str()],
        )
        .unwrap();
        sql.execute(
            "INSERT INTO hx_inbox (platform, platform_key, conversation, envelope, state, received_at, closed_at, turn_id)
             VALUES ('p', ?1, 'c-' || ?1, 'secret words', 'done', 1, 100, ?1)",
            [turn],
        )
        .unwrap();
        sql.execute(
            "INSERT INTO hx_outbox (idempotency_key, platform, conversation, reply, state, created_at, not_before, closed_at)
             VALUES ('turn:' || ?1 || ':0', 'p', 'c-' || ?1, 'secret answer', 'sent', 1, 1, 100)",
            [turn],
        )
        .unwrap();
    }
    let count = |table: &str| -> i64 {
        sql.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    place.store.delete_session(&id).wait().unwrap();
    assert_eq!((count("hx_inbox"), count("hx_outbox")), (1, 1));
    assert_eq!(place.store.prune_settled(Timestamp(100.0), 10).wait().unwrap(), 0, "not old enough");
    assert_eq!(place.store.prune_settled(Timestamp(101.0), 1).wait().unwrap(), 1, "in small steps");
    assert_eq!(place.store.prune_settled(Timestamp(101.0), 10).wait().unwrap(), 1);
    assert_eq!((count("hx_inbox"), count("hx_outbox")), (0, 0));
}

#[test]
fn columns_of_newer_releases_are_filled_where_the_file_has_them() {
    let place = store_fixture();
    let begin = |id: &str| {
        let mut session = NewSession::new(id.into(), "cli", Timestamp(1.0));
        session.cwd = Some("/work/place".to_owned());
        place.store.create_session(session).wait().unwrap();
        let billing = SessionBilling { base_url: Some("http://host/v1".into()), ..SessionBilling::default() };
        for _ in 0..2 {
            let cost = Cost { micro_usd: None, status: CostStatus::Unknown };
            let add = UsageUpdate::Add;
            place
                .store
                .record_usage(&id.into(), add, Usage::default(), cost, billing.clone())
                .wait()
                .unwrap();
        }
    };
    begin("before");
    place
        .sql()
        .execute_batch("ALTER TABLE sessions ADD COLUMN cwd TEXT; ALTER TABLE sessions ADD COLUMN api_call_count INTEGER DEFAULT 0")
        .unwrap();
    begin("after");
    let found: (String, i64, String) = place
        .sql()
        .query_row(
            "SELECT cwd, api_call_count, billing_base_url FROM sessions WHERE id = 'after'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(found, ("/work/place".to_owned(), 2, "http://host/v1".to_owned()));
}

#[test]
fn a_compressed_conversation_is_one_row_of_the_list() {
    let place = store_fixture();
    let first = place.session("first", 1.0);
    place.append_user_message(&first, "hello", 1.0);
    let branch = child(&place, "branch", &first, 2.0, Some(r#"{"_delegate_from": "first"}"#));
    place.append_user_message(&branch, "a part of the work", 2.0);
    let listed = || -> Vec<String> {
        let found = place.store.list_conversations(SessionFilter::default(), 20).wait().unwrap();
        found.into_iter().map(|session| session.id.as_str().to_owned()).collect()
    };
    place.store.end_session(&first, EndReason::Compression, Timestamp(3.0)).wait().unwrap();
    assert_eq!(listed(), ["branch", "first"], "a branch continues nothing");
    let second = child(&place, "second", &first, 4.0, None);
    place.append_user_message(&second, "summary", 4.0);
    assert_eq!(listed(), ["second", "branch"]);
}
