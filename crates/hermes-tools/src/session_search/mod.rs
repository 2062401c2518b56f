//! `session_search`: finds earlier conversations by their words, lists the newest, or reads one of them.
//!
//! This module holds the form of its results. The store searches; a side model writes summaries, and without
//! one the matching text is shown. Invariant: the running conversation, its ancestors and its children are
//! never found.

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
    Timestamp, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{number, spec, text};

const DEFAULT_LIMIT: usize = 3;
const MOST_LIMIT: usize = 5;
/// The number of messages examined to find the requested conversations.
const HITS: usize = 50;
/// The number of conversations examined to find the newest ones outside the current lineage.
const RECENT: usize = 50;

/// The factor by which more is examined if most results may belong to other users.
const SHARED: usize = 10;

/// The scope of one search.
struct SearchView<'a> {
    store: &'a Store,
    lineage: HashSet<SessionId>,
    reader: SearchReader,
}

/// The user on whose behalf a search runs. If several people use one gateway, each finds only their own
/// conversations.
enum SearchReader {
    /// A single user, who may read everything.
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

/// Converts a timestamp to the user's local time.
pub type LocalTime = fn(Timestamp) -> CivilTime;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "session_search",
    toolset: "session_search",
    summary: "Searches past conversations",
    icon: "🔍",
    verb: "recall",
    preview_arguments: &["query"],
    guidance: Some(include_str!("../texts/session_search_guidance.md")),
    ..ToolDescriptor::unknown("")
};

/// The `session_search` tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SessionSearchTool {
    spec: ToolSpec,
    store: Option<Store>,
    clock: Arc<dyn Clock>,
    local: LocalTime,
    side: Option<SideModel>,
}

impl SessionSearchTool {
    /// Creates the tool. Without a store it only returns an error.
    pub fn new(store: Option<Store>, clock: Arc<dyn Clock>, local: LocalTime) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("../texts/session_search.md"),
            include_str!("../texts/session_search.json"),
        );
        Self { spec, store, clock, local, side: None }
    }

    /// Sets the model that writes summaries.
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

    /// Records the cost of a summary in the ledger, so that daily limits include it.
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

    /// Describes one conversation that was found. It is included even if the summary or a read fails.
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

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
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

/// The reason why a search failed.
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

/// Formats a time like `March 05, 2026 at 07:28 AM`.
fn long_date(at: CivilTime) -> String {
    let half = if at.hour < 12 { "AM" } else { "PM" };
    let hour = match at.hour % 12 {
        0 => 12,
        hour => hour,
    };
    format!("{} {:02}, {} at {hour:02}:{:02} {half}", at.month_name(), at.day, at.year, at.minute)
}
