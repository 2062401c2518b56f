//! Searching with an intact, a damaged and a partly rebuilt index.

use hermes_store::{SearchCoverage, SearchScope, Store};

use super::support::{snippets, store_fixture};

#[test]
fn hits_carry_their_surroundings() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    for (at, text) in ["before the storm", "the quick brown fox", "after the rain"].iter().enumerate() {
        place.append_user_message(&session, text, f64::from(u32::try_from(at).unwrap()));
    }
    let result = place.find("quick");
    assert_eq!(snippets(&result), ["the >>>quick<<< brown fox"]);
    let around: Vec<_> = result.hits[0].context.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(around, ["before the storm", "after the rain"]);
    assert_eq!((result.hits[0].source.as_str(), result.coverage), ("cli", SearchCoverage::Index));
}

#[test]
fn odd_queries_neither_fail_nor_match_everything() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    for (at, text) in ["use chat-send now", "C++ is a language", "unclosed quote", "plain"].iter().enumerate()
    {
        place.append_user_message(&session, text, f64::from(u32::try_from(at).unwrap()));
    }
    let count = |query: &str| place.find(query).hits.len();
    assert_eq!(count("chat-send"), 1);
    assert_eq!(count("C++"), 1);
    assert_eq!(count("\"unclosed"), 1);
    for query in ["***", "AND", "", "()", "\"\"", "^", "NEAR(", "content:plain OR"] {
        assert!(count(query) <= 1, "{query}");
    }
}

#[test]
fn roles_and_sources_narrow_a_search() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    place.append_user_message(&session, "needle", 1.0);
    let within = |sources: &[&str], exclude: &[&str], roles: &[&str]| SearchScope {
        sources: sources.iter().map(ToString::to_string).collect(),
        exclude_sources: exclude.iter().map(ToString::to_string).collect(),
        roles: roles.iter().map(ToString::to_string).collect(),
        limit: 5,
    };
    let count = |scope| place.find_in("needle", scope).hits.len();
    assert_eq!(count(within(&["cli"], &[], &["user"])), 1);
    assert_eq!(count(within(&["telegram"], &[], &[])), 0);
    assert_eq!(count(within(&[], &["cli"], &[])), 0);
    assert_eq!(count(within(&[], &[], &["tool"])), 0);
}

/// The ways an index gets damaged, as SQL that another program runs while the store is closed.
const DAMAGES: [(&str, &str); 4] = [
    ("missing data table", "DROP TABLE messages_fts_data"),
    ("garbage in the data table", "UPDATE messages_fts_data SET block = x'deadbeef'"),
    ("emptied structure", "DELETE FROM messages_fts_data WHERE id = 10"),
    ("missing config", "DROP TABLE messages_fts_config"),
];

#[test]
fn a_damaged_index_is_replaced_while_everything_works() {
    for (what, sql) in DAMAGES {
        let place = store_fixture();
        let session = place.session("s", 1.0);
        for number in 0..1500 {
            place.append_user_message(&session, &format!("needle number{number}"), f64::from(number));
        }
        place.store.close().wait().unwrap();
        let shadow = place.sql();
        // Shadow tables are protected unless `writable_schema` is on.
        shadow
            .execute_batch(&format!("PRAGMA writable_schema = ON; {sql}"))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(shadow);

        let store = Store::open(&place.db()).unwrap();
        let place = super::support::StoreFixture { folder: place.folder, store };
        // The write comes first: a broken trigger must not make it fail.
        place.append_user_message(&session, "needle fresh", 5000.0);
        let result = place.find("needle");
        assert_eq!(result.hits.len(), 50, "{what}: search goes on");
        assert_eq!(place.find("fresh").hits.len(), 1, "{what}");
        wait_until_sound(&place);
        assert_eq!(place.find("number1499").coverage, SearchCoverage::Index, "{what}");
        assert_eq!(place.find("number0").hits.len(), 1, "{what}: old rows are back in the index");
        assert_eq!(place.store.transcript(&session).wait().unwrap().len(), 1501, "{what}");
    }
}

#[test]
fn removals_during_a_rebuild_do_not_damage_it_again() {
    let place = store_fixture();
    let sessions: Vec<_> =
        (0..30).map(|number| place.session(&format!("s{number}"), f64::from(number))).collect();
    for session in &sessions {
        for number in 0..60 {
            place.append_user_message(session, &format!("word{number}"), f64::from(number));
        }
    }
    place.store.rebuild_index();
    // These run between the steps of the rebuild: some rows are already indexed, some are not.
    for session in sessions.iter().step_by(3) {
        place.store.delete_session(session).wait().unwrap();
    }
    wait_until_sound(&place);
    place
        .sql()
        .execute_batch("INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)")
        .unwrap();
    assert_eq!(place.find("word7").hits.len(), 20);
}

#[test]
fn an_interrupted_rebuild_goes_on_when_the_file_is_opened_again() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    for number in 0..2000 {
        place.append_user_message(&session, &format!("word{number}"), f64::from(number));
    }
    place.store.rebuild_index();
    place.store.close().wait().unwrap();
    let store = Store::open(&place.db()).unwrap();
    let place = super::support::StoreFixture { folder: place.folder, store };
    wait_until_sound(&place);
    assert_eq!(place.find("word3").coverage, SearchCoverage::Index);
}

/// Waits until the index is sound. The limit is a number of checks, each of which does real work.
fn wait_until_sound(place: &super::support::StoreFixture) {
    for _ in 0..10_000 {
        let found = place.store.check().wait().unwrap();
        if found.is_sound() {
            return;
        }
    }
    panic!("the index was never rebuilt: {:?}", place.store.check().wait().unwrap());
}
