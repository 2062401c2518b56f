//! Helpers shared by the tests of this crate.

use std::path::{Path, PathBuf};

use hermes_store::{NewMessage, NewSession, SearchResult, SearchScope, SessionFilter, Store};
use hermes_text::SearchQuery;
use hermes_types::{Message, SessionId, Timestamp};
use rusqlite::Connection;
use tempfile::TempDir;

/// A store in its own temporary folder.
pub(crate) struct StoreFixture {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

pub(crate) fn store_fixture() -> StoreFixture {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("state.db")).unwrap();
    StoreFixture { folder, store }
}

impl StoreFixture {
    pub(crate) fn db(&self) -> PathBuf {
        self.folder.path().join("state.db")
    }

    /// Opens a second, plain connection to the file, as another program would.
    pub(crate) fn sql(&self) -> Connection {
        let connection = Connection::open(self.db()).unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000").unwrap();
        connection
    }

    pub(crate) fn session(&self, id: &str, at: f64) -> SessionId {
        let id = SessionId::from(id);
        self.store.create_session(NewSession::new(id.clone(), "cli", Timestamp(at))).wait().unwrap();
        id
    }

    pub(crate) fn append_user_message(&self, session: &SessionId, text: &str, at: f64) {
        self.store.append(session, NewMessage::new(Message::user(text), Timestamp(at))).wait().unwrap();
    }

    pub(crate) fn find(&self, text: &str) -> SearchResult {
        self.find_in(text, SearchScope { limit: 50, ..SearchScope::default() })
    }

    pub(crate) fn find_in(&self, text: &str, within: SearchScope) -> SearchResult {
        find(&self.store, text, within)
    }

    pub(crate) fn listed(&self) -> Vec<String> {
        let sessions = self.store.list_sessions(SessionFilter::default(), 20).wait().unwrap();
        sessions.into_iter().map(|session| session.id.as_str().to_owned()).collect()
    }
}

pub(crate) fn find(store: &Store, text: &str, within: SearchScope) -> SearchResult {
    let Some(query) = SearchQuery::sanitise(text) else {
        return SearchResult { hits: Vec::new(), coverage: hermes_store::SearchCoverage::Index };
    };
    store.search(query, within).wait().unwrap()
}

pub(crate) fn snippets(result: &SearchResult) -> Vec<&str> {
    result.hits.iter().map(|hit| hit.snippet.as_str()).collect()
}

pub(crate) fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
