//! `session_search`: earlier conversations, found by their words, or the newest, or one of them read.
//!
//! Holds the shapes of its answers. Finding is the store's; summaries are a side model's, and without one the words
//! themselves are shown. Invariant: the running conversation, its ancestors and its children are never found.

mod reading;
mod summary;
mod transcript;

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use hermes_store::{ModelCharge, SearchHit, SearchScope, SessionFilter, Store};
use hermes_text::SearchQuery;
use hermes_types::{
    BoxFuture, CallKind, CallPolicy, CivilTime, Clock, Completion, Concurrency, SessionId, SideModel,
    Timestamp, Tool, ToolContext, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{number, spec, text};

const DEFAULT_LIMIT: usize = 3;
const MOST_LIMIT: usize = 5;
/// Messages looked at to find that many conversations.
const HITS: usize = 50;
/// Conversations looked at to find the newest that are not this one's.
const RECENT: usize = 50;

/// So many times more is looked at where most of it may be other people's.
const SHARED: usize = 10;

/// What one search looks at.
struct SearchView<'a> {
    store: &'a Store,
    lineage: HashSet<SessionId>,
    reader: SearchReader,
}

/// Who asks. Where several people talk to one gateway, each finds only their own conversations.
enum SearchReader {
    /// Nobody else is there to be protected.
    Anybody,
    Person {
        source: String,
        user: String,
    },
}

impl SearchReader {
    async fn of(store: &Store, session: &SessionId) -> Result<Self, SearchFailure> {
        let row = store.session(session).await?;
        let Some((source, user)) = row.and_then(|row| Some((row.source, row.user_id?))) else {
            return Ok(Self::Anybody);
        };
        Ok(if store.has_multiple_users().await? { Self::Person { source, user } } else { Self::Anybody })
    }

    fn is_anybody(&self) -> bool {
        matches!(self, Self::Anybody)
    }

    async fn may_read(&self, store: &Store, session: &SessionId) -> Result<bool, SearchFailure> {
        let Self::Person { source, user } = self else { return Ok(true) };
        let row = store.session(session).await?;
        Ok(row.is_some_and(|row| row.source == *source && row.user_id.as_ref() == Some(user)))
    }
}

/// Turns a time into the user's time of day.
pub type LocalTime = fn(Timestamp) -> CivilTime;

/// The tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SessionSearchTool {
    spec: ToolSpec,
    store: Option<Store>,
    clock: Arc<dyn Clock>,
    local: LocalTime,
    side: Option<SideModel>,
}

impl SessionSearchTool {
    /// Without a store the tool only says that there is none.
    pub fn new(store: Option<Store>, clock: Arc<dyn Clock>, local: LocalTime) -> Self {
        let spec = spec(
            "session_search",
            include_str!("../texts/session_search.md"),
            include_str!("../texts/session_search.json"),
        );
        Self { spec, store, clock, local, side: None }
    }

    /// Lets a model write the summaries.
    #[must_use]
    pub fn with_summaries(self, side: SideModel) -> Self {
        Self { side: Some(side), ..self }
    }

    async fn answer(&self, call: &ToolInvocation, context: &ToolContext<'_>) -> Result<Value, SearchFailure> {
        let store =
            self.store.as_ref().ok_or_else(|| SearchFailure("Session database not available.".to_owned()))?;
        let arguments = &call.arguments;
        let reader = SearchReader::of(store, &call.session).await?;
        if let Some(id) = text(arguments, "session_id") {
            if !reader.may_read(store, &SessionId::from(id.trim())).await? {
                return Err(SearchFailure(format!("Session not found: {id}")));
            }
            return reading::read(store, id, arguments, self.local).await;
        }
        let limit = number(arguments, "limit", DEFAULT_LIMIT, 1..=MOST_LIMIT);
        let lineage = store.lineage(&call.session).await?;
        let view = SearchView { store, lineage, reader };
        match text(arguments, "query") {
            None => self.recent(&view, limit).await,
            Some(query) => self.find(&view, query, arguments, limit, context).await,
        }
    }

    async fn recent(&self, view: &SearchView<'_>, limit: usize) -> Result<Value, SearchFailure> {
        let SearchView { store, lineage, reader } = view;
        let most = if reader.is_anybody() { RECENT } else { RECENT * SHARED };
        let sessions = store.list_sessions(SessionFilter::default(), most + lineage.len()).await?;
        let mut others = Vec::new();
        for found in
            sessions.into_iter().filter(|found| found.parent.is_none() && !lineage.contains(&found.id))
        {
            if others.len() == limit {
                break;
            }
            if reader.may_read(store, &found.id).await? {
                others.push(found);
            }
        }
        let results: Vec<Value> = others
            .into_iter()
            .map(|found| {
                json!({
                    "session_id": found.id.as_str(),
                    "title": found.title,
                    "source": found.source,
                    "started_at": (self.local)(found.started_at).to_string(),
                    "last_active": (self.local)(found.last_active).to_string(),
                    "message_count": found.message_count,
                    "preview": found.preview,
                })
            })
            .collect();
        let count = results.len();
        let message =
            format!("The {count} newest conversations. Search with a query, or read one by its session_id.");
        Ok(json!({"success": true, "mode": "recent", "results": results, "count": count, "message": message}))
    }

    async fn find(
        &self,
        view: &SearchView<'_>,
        query: &str,
        arguments: &Map<String, Value>,
        limit: usize,
        context: &ToolContext<'_>,
    ) -> Result<Value, SearchFailure> {
        let SearchView { store, lineage, reader } = view;
        let roles = text(arguments, "role_filter").unwrap_or_default();
        let roles = roles.split(',').map(|role| role.trim().to_lowercase()).filter(|role| !role.is_empty());
        let within = SearchScope {
            exclude_sources: vec!["tool".to_owned()],
            roles: roles.collect(),
            limit: if reader.is_anybody() { HITS } else { HITS * SHARED },
            ..SearchScope::default()
        };
        let Some(words) = SearchQuery::sanitise(query) else { return Ok(nothing(query)) };
        let hits = store.search(words.clone(), within).await?.hits;
        let mut chosen: Vec<(SessionId, SearchHit)> = Vec::new();
        for hit in hits {
            if chosen.len() == limit {
                break;
            }
            let root = store.lineage_root(&hit.session_id).await?;
            let seen = chosen.iter().any(|(known, _)| *known == root);
            let own = lineage.contains(&root) || lineage.contains(&hit.session_id);
            if !seen && !own && reader.may_read(store, &hit.session_id).await? {
                chosen.push((root, hit));
            }
        }
        if chosen.is_empty() {
            return Ok(nothing(query));
        }
        let found = chosen.iter().map(|(root, hit)| self.describe(store, root, hit, query, &words, context));
        let results: Vec<Value> = join_all(found).await;
        let count = results.len();
        Ok(
            json!({"success": true, "query": query, "results": results, "count": count, "sessions_searched": count}),
        )
    }

    /// Writes into the ledger what a summary cost; limits of a day count it.
    fn charge(&self, store: &Store, session: &SessionId, completion: &Completion) {
        drop(store.record_charge(ModelCharge {
            at: self.clock.now(),
            session: session.clone(),
            turn: None,
            root_turn: None,
            job: None,
            provider: completion.provider.clone(),
            model: completion.model.clone(),
            usage: completion.usage.unwrap_or_default(),
            cost: completion.cost,
        }));
    }

    /// One conversation that was found. It is never left out, whatever else fails.
    async fn describe(
        &self,
        store: &Store,
        root: &SessionId,
        hit: &SearchHit,
        query: &str,
        words: &SearchQuery,
        context: &ToolContext<'_>,
    ) -> Value {
        let session = store.session(root).await.ok().flatten();
        let messages = store.transcript(&hit.session_id).await.unwrap_or_default();
        let text = transcript::render(&messages);
        let text = transcript::around(&text, words.words(), transcript::MOST_CHARS);
        let mut result = json!({
            "session_id": root.as_str(),
            "when": long_date((self.local)(session.as_ref().map_or(hit.session_started, |row| row.started_at))),
            "source": session.as_ref().map_or(&hit.source, |row| &row.source),
            "model": session.as_ref().map_or(&hit.model, |row| &row.model),
        });
        let Some(object) = result.as_object_mut() else { return result };
        let summary = match &self.side {
            Some(side) => {
                let spent = |completion: &Completion| self.charge(store, root, completion);
                summary::summarise(side, self.clock.as_ref(), query, &text, context, spent).await
            }
            None => None,
        };
        if summary.is_none() {
            object.insert("snippet".to_owned(), json!(transcript::masked(&hit.snippet)));
            object.insert("match_message_id".to_owned(), json!(hit.id.0));
            if hit.session_id != *root {
                object.insert("match_session_id".to_owned(), json!(hit.session_id.as_str()));
            }
        }
        object.insert("summary".to_owned(), json!(summary.unwrap_or_else(|| transcript::raw_preview(&text))));
        result
    }
}

impl Tool for SessionSearchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            match self.answer(call, &context).await {
                Ok(value) => answer::success_json(&value),
                Err(SearchFailure(error)) => answer::failure_json(&json!({"success": false, "error": error})),
            }
        })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy {
            concurrency: Concurrency::Parallel,
            kind: CallKind::Housekeeping,
            ..CallPolicy::default()
        }
    }
}

/// Why there is no answer.
struct SearchFailure(String);

impl From<hermes_store::Error> for SearchFailure {
    fn from(error: hermes_store::Error) -> Self {
        Self(error.to_string())
    }
}

fn nothing(query: &str) -> Value {
    json!({
        "success": true, "query": query, "results": [], "count": 0, "sessions_searched": 0,
        "message": "No matching sessions found.",
    })
}

/// `March 05, 2026 at 07:28 AM`.
fn long_date(at: CivilTime) -> String {
    let half = if at.hour < 12 { "AM" } else { "PM" };
    let hour = match at.hour % 12 {
        0 => 12,
        hour => hour,
    };
    format!("{} {:02}, {} at {hour:02}:{:02} {half}", at.month_name(), at.day, at.year, at.minute)
}
