//! Memory services, emulated: Honcho, Mem0 (hosted and on one's own server), Hindsight, Supermemory, RetainDB and OpenViking;
//! and an endpoint for embeddings.
//!
//! Written from their public documentation and the requests of their own clients, apart from the code it tests. Each has
//! a base address of its own and refuses other keys, unknown routes and fields that its client would not send. What is
//! stored is found again by shared words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_types::BoxFuture;
use serde_json::{Value, json};

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest};
use crate::platform::{
    EmulatedPlatform, EmulatedReply, PlatformCall, PlatformFault, PlatformServer, PlatformServerState,
    query_fields,
};

/// The key that every service accepts.
pub const MEMORY_KEY: &str = "mem-key-0123456789abcdef";

/// The fields of what Hindsight stores, and of its questions.
const HINDSIGHT_ITEM: [&str; 11] = [
    "content",
    "timestamp",
    "context",
    "metadata",
    "document_id",
    "entities",
    "resolve_entities",
    "tags",
    "observation_scopes",
    "strategy",
    "update_mode",
];
const HINDSIGHT_RECALL: [&str; 13] = [
    "temporal_window",
    "query",
    "types",
    "prefer_observations",
    "budget",
    "max_tokens",
    "trace",
    "query_timestamp",
    "include",
    "tags",
    "tags_match",
    "tag_groups",
    "min_scores",
];
const HINDSIGHT_REFLECT: [&str; 15] = [
    "reflect_search_observations_max_tokens",
    "reflect_search_observations_include_entities",
    "tag_groups",
    "exclude_mental_model_ids",
    "query",
    "budget",
    "context",
    "max_tokens",
    "include",
    "response_schema",
    "tags",
    "tags_match",
    "apply_all_directives",
    "fact_types",
    "exclude_mental_models",
];
/// When everything happens.
const TIME: &str = "2026-01-01T00:00:00Z";

/// The services, until they are dropped.
#[derive(Debug)]
pub struct MemoryServers(PlatformServer<MemoryWorld>);

#[derive(Debug, Default)]
struct MemoryWorld {
    /// What is stored, by service and whose it is.
    stored: BTreeMap<(String, String), Vec<String>>,
    /// What exists in Honcho: peers and sessions.
    known: BTreeSet<String>,
    /// Whether no request is answered.
    is_silent: bool,
    /// Groups of words that mean the same.
    synonyms: Vec<Vec<String>>,
}

impl MemoryServers {
    pub fn start() -> Result<Self, Error> {
        Ok(Self(PlatformServer::start("memory services", 0, MemoryWorld::default())?))
    }

    /// Returns the base address of a service, such as `mem0`; `embeddings` is the endpoint for vectors.
    pub fn base(&self, service: &str) -> String {
        format!("{}/{service}", self.0.base_url())
    }

    /// Stores a text, as if it was stored earlier.
    pub fn remember(&self, service: &str, owner: &str, text: &str) {
        self.0.update(|world| world.store(service, owner, text));
    }

    /// Returns what a service stores, for whom.
    pub fn stored(&self, service: &str, owner: &str) -> Vec<String> {
        let key = (service.to_owned(), owner.to_owned());
        self.0.read(|world| world.stored.get(&key).cloned().unwrap_or_default())
    }

    /// Returns whose memories a service has.
    pub fn owners(&self, service: &str) -> Vec<String> {
        let of = |(known, owner): &(String, String)| (known == service).then(|| owner.clone());
        self.0.read(|world| world.stored.keys().filter_map(of).collect())
    }

    /// Waits until a service stores a text that contains this.
    #[track_caller]
    pub fn until_stored_blocking(&self, service: &str, part: &str) -> (String, String) {
        self.0.until_blocking(part, |world| {
            let of_service = world.stored.iter().filter(|((known, _), _)| known == service);
            let mut texts =
                of_service.flat_map(|((_, owner), texts)| texts.iter().map(move |text| (owner, text)));
            texts.find(|(_, text)| text.contains(part)).map(|(owner, text)| (owner.clone(), text.clone()))
        })
    }

    /// Lets every request wait without an answer, or answers again.
    pub fn be_silent(&self, is_silent: bool) {
        self.0.update(|world| world.is_silent = is_silent);
    }

    /// Sets the groups of words that mean the same to the endpoint for embeddings.
    pub fn set_synonyms(&self, groups: &[&[&str]]) {
        let groups = groups.iter().map(|group| group.iter().map(|word| (*word).to_owned()).collect());
        self.0.update(|world| world.synonyms = groups.collect());
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
    }

    pub fn calls(&self, part: &str) -> Vec<PlatformCall> {
        self.0.calls(part)
    }

    pub fn stop(&mut self) {
        self.0.stop();
    }
}

impl MemoryWorld {
    fn store(&mut self, service: &str, owner: &str, text: &str) {
        self.stored.entry((service.to_owned(), owner.to_owned())).or_default().push(text.to_owned());
    }

    /// Returns the texts that share a word of some length with the query.
    fn find(&self, service: &str, owner: &str, query: &str) -> Vec<(usize, String)> {
        let words = long_words(query);
        let texts = self.stored.get(&(service.to_owned(), owner.to_owned()));
        let shares = |text: &String| long_words(text).intersection(&words).next().is_some();
        let numbered = texts.into_iter().flatten().enumerate();
        numbered.filter(|(_, text)| shares(text)).map(|(at, text)| (at, text.clone())).collect()
    }

    fn honcho(
        &mut self,
        method: &str,
        path: &[&str],
        query: &[(String, String)],
        body: &Value,
    ) -> EmulatedReply {
        let field = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let asked =
            |name: &str| query.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        match (method, path) {
            ("POST", ["v3", "workspaces"]) if only(body, &["id", "metadata", "configuration"]) => {
                ok(&json!({"id": field("id"), "metadata": {}, "created_at": TIME}))
            }
            ("POST", ["v3", "workspaces", _, "peers"])
                if only(body, &["id", "metadata", "configuration"]) =>
            {
                self.known.insert(format!("peer {}", field("id")));
                ok(&json!({"id": field("id"), "workspace_id": "hermes", "metadata": {}, "created_at": TIME}))
            }
            ("POST", ["v3", "workspaces", _, "sessions"])
                if only(body, &["id", "metadata", "peers", "configuration"]) =>
            {
                self.known.insert(format!("session {}", field("id")));
                ok(
                    &json!({"id": field("id"), "workspace_id": "hermes", "is_active": true, "created_at": TIME}),
                )
            }
            ("POST", ["v3", "workspaces", _, "sessions", session, "messages"])
                if only(body, &["messages"]) =>
            {
                if !self.known.contains(&format!("session {session}")) {
                    return refusal(404, "Session not found");
                }
                let messages = body["messages"].as_array().cloned().unwrap_or_default();
                let is_valid = |message: &Value| {
                    only(message, &["content", "peer_id", "metadata", "created_at", "configuration"])
                        && message["content"].as_str().is_some_and(|text| text.len() <= 25_000)
                };
                if messages.is_empty() || messages.len() > 100 || !messages.iter().all(is_valid) {
                    return refusal(422, "messages are not valid");
                }
                for message in &messages {
                    let (peer, text) = (message["peer_id"].as_str(), message["content"].as_str());
                    self.store("honcho", peer.unwrap_or_default(), text.unwrap_or_default());
                    self.store("honcho-session", session, text.unwrap_or_default());
                }
                ok(&json!([]))
            }
            ("GET", ["v3", "workspaces", _, "peers", _, "context"]) => {
                let target = asked("target").unwrap_or_default();
                let found = self.find("honcho", &target, &asked("search_query").unwrap_or_default());
                let text: Vec<String> = found.into_iter().map(|(_, text)| text).collect();
                let card = self.stored.get(&("honcho-card".to_owned(), target.clone()));
                ok(&json!({
                    "peer_id": "hermes", "target_id": target, "representation": text.join("\n"),
                    "peer_card": card,
                }))
            }
            ("GET", ["v3", "workspaces", _, "peers", _, "card"]) => {
                let target = asked("target").unwrap_or_default();
                ok(&json!({"peer_card": self.stored.get(&("honcho-card".to_owned(), target))}))
            }
            ("POST", ["v3", "workspaces", _, "peers", _, "representation"])
                if only(
                    body,
                    &["session_id", "target", "search_query", "search_top_k", "max_conclusions"],
                ) =>
            {
                let found = self.find("honcho", &field("target"), &field("search_query"));
                let text: Vec<String> = found.into_iter().map(|(_, text)| text).collect();
                ok(&json!({"representation": text.join("\n")}))
            }
            ("POST", ["v3", "workspaces", _, "peers", peer, "chat"])
                if only(body, &["session_id", "target", "query", "stream", "reasoning_level"]) =>
            {
                let about = body["target"].as_str().unwrap_or(peer);
                ok(&json!({"content": format!("Honcho says about {about} ({}).", field("reasoning_level"))}))
            }
            ("POST", ["v3", "workspaces", _, "conclusions"]) if only(body, &["conclusions"]) => {
                let conclusions = body["conclusions"].as_array().cloned().unwrap_or_default();
                for conclusion in &conclusions {
                    if !only(conclusion, &["content", "observer_id", "observed_id", "session_id"]) {
                        return refusal(422, "a conclusion is not valid");
                    }
                    let observed = conclusion["observed_id"].as_str().unwrap_or_default();
                    self.store(
                        "honcho-conclusion",
                        observed,
                        conclusion["content"].as_str().unwrap_or_default(),
                    );
                }
                let stored = conclusions.into_iter().enumerate().map(|(at, mut conclusion)| {
                    conclusion["id"] = json!(format!("c{at}"));
                    conclusion["created_at"] = json!(TIME);
                    conclusion
                });
                ok(&stored.collect())
            }
            _ => refusal(404, "no such route, or a field that is not known"),
        }
    }

    fn mem0(&mut self, method: &str, path: &[&str], body: &Value) -> EmulatedReply {
        let owner = |value: &Value| value["user_id"].as_str().unwrap_or_default().to_owned();
        match (method, path) {
            ("GET", ["v1", "ping", ""]) => {
                ok(&json!({"status": "ok", "user_email": "a@b.org", "org_id": "o1", "project_id": "p1"}))
            }
            ("GET", ["memories"]) => ok(&json!({"results": []})),
            ("POST", ["v3", "memories", "search", ""] | ["search"])
                if only(body, &["query", "filters", "top_k", "rerank", "threshold"]) =>
            {
                let query = body["query"].as_str().unwrap_or_default();
                ok(&json!({"results": rows(&self.find("mem0", &owner(&body["filters"]), query), "memory")}))
            }
            ("POST", ["v3", "memories", "add", ""] | ["memories"])
                if only(body, &["messages", "user_id", "agent_id", "metadata", "infer"]) =>
            {
                let owner = owner(body);
                for message in body["messages"].as_array().into_iter().flatten() {
                    self.store("mem0", &owner, message["content"].as_str().unwrap_or_default());
                }
                ok(&json!({"results": []}))
            }
            ("PUT", ["v1", "memories", _, ""] | ["memories", _]) if only(body, &["text", "metadata"]) => {
                ok(&json!({"message": "ok"}))
            }
            ("DELETE", ["v1", "memories", _, ""] | ["memories", _]) => ok(&json!({"message": "ok"})),
            _ => refusal(404, "no such route, or a field that is not known"),
        }
    }

    fn hindsight(&mut self, method: &str, path: &[&str], body: &Value) -> EmulatedReply {
        match (method, path) {
            ("GET", ["v1", "default", "banks"]) => ok(&json!({"banks": []})),
            ("POST", ["v1", "default", "banks", bank, "memories"])
                if only(body, &["items", "async", "document_tags", "operation_id"]) =>
            {
                for item in body["items"].as_array().into_iter().flatten() {
                    if !only(item, &HINDSIGHT_ITEM) {
                        return refusal(422, "an item is not valid");
                    }
                    self.store("hindsight", bank, item["content"].as_str().unwrap_or_default());
                }
                ok(&json!({"success": true, "bank_id": bank, "items_count": 1, "async": true}))
            }
            ("POST", ["v1", "default", "banks", bank, "memories", "recall"])
                if only(body, &HINDSIGHT_RECALL)
                    && ["low", "mid", "high"].contains(&body["budget"].as_str().unwrap_or_default()) =>
            {
                let query = body["query"].as_str().unwrap_or_default();
                ok(&json!({"results": rows(&self.find("hindsight", bank, query), "text")}))
            }
            ("POST", ["v1", "default", "banks", bank, "reflect"]) if only(body, &HINDSIGHT_REFLECT) => {
                ok(&json!({"text": format!("Reflected over {bank}.")}))
            }
            _ => refusal(404, "no such route, or a field that is not known"),
        }
    }

    fn supermemory(&mut self, method: &str, path: &[&str], body: &Value) -> EmulatedReply {
        let container = body["containerTag"].as_str().unwrap_or_default().to_owned();
        match (method, path) {
            ("POST", ["v3", "documents"])
                if only(body, &["content", "containerTag", "customId", "metadata"]) =>
            {
                self.store("supermemory", &container, body["content"].as_str().unwrap_or_default());
                ok(&json!({"id": "doc1", "status": "queued"}))
            }
            ("POST", ["v4", "search"])
                if only(body, &["q", "containerTag", "limit", "searchMode", "threshold", "rerank"]) =>
            {
                let found = self.find("supermemory", &container, body["q"].as_str().unwrap_or_default());
                ok(&json!({"results": rows(&found, "memory"), "timing": 1, "total": found.len()}))
            }
            ("POST", ["v4", "profile"]) if only(body, &["containerTag", "q", "threshold"]) => {
                let facts = self.stored.get(&("supermemory-profile".to_owned(), container));
                ok(&json!({"profile": {"static": facts.cloned().unwrap_or_default(), "dynamic": []}}))
            }
            ("POST", ["v4", "conversations"])
                if only(body, &["conversationId", "messages", "containerTags"]) =>
            {
                self.store(
                    "supermemory-conversation",
                    body["conversationId"].as_str().unwrap_or_default(),
                    "",
                );
                ok(&json!({"id": "doc2", "status": "queued"}))
            }
            ("DELETE", ["v4", "memories"]) if only(body, &["containerTag", "id", "content", "reason"]) => {
                ok(&json!({"id": "mem_0", "forgotten": true}))
            }
            _ => refusal(404, "no such route, or a field that is not known"),
        }
    }

    fn retaindb(&mut self, method: &str, path: &[&str], body: &Value) -> EmulatedReply {
        let owner = body["user_id"].as_str().unwrap_or_default().to_owned();
        match (method, path) {
            ("GET", ["v1", "projects"]) => ok(&json!({"projects": []})),
            ("POST", ["v1", "memory"]) => {
                self.store("retaindb", &owner, body["content"].as_str().unwrap_or_default());
                ok(&json!({"id": "m1"}))
            }
            ("POST", ["v1", "memory", "search"]) => {
                let found = self.find("retaindb", &owner, body["query"].as_str().unwrap_or_default());
                let rows = rows(&found, "content");
                let nested: Vec<Value> =
                    rows.into_iter().map(|row| json!({"memory": row, "score": 0.9})).collect();
                ok(&json!({"results": nested}))
            }
            ("POST", ["v1", "memory", "ingest", "session"]) => {
                for message in body["messages"].as_array().into_iter().flatten() {
                    self.store("retaindb", &owner, message["content"].as_str().unwrap_or_default());
                }
                ok(&json!({"success": true}))
            }
            ("GET", ["v1", "memory", "profile", user]) => {
                let all = self.stored.get(&("retaindb".to_owned(), (*user).to_owned()));
                let numbered: Vec<(usize, String)> = all.into_iter().flatten().cloned().enumerate().collect();
                ok(&json!({"memories": rows(&numbered, "content")}))
            }
            ("POST", ["v1", "context", "query"]) => ok(&json!({"context": "Packed context."})),
            ("DELETE", ["v1", "memory", _]) => ok(&json!({"success": true})),
            _ => refusal(404, "Not found"),
        }
    }

    fn openviking(
        &mut self,
        method: &str,
        path: &[&str],
        peer: &str,
        query: &[(String, String)],
        body: &Value,
    ) -> EmulatedReply {
        let result = |value: Value| ok(&json!({"status": "ok", "result": value}));
        match (method, path) {
            ("GET", ["health"]) => ok(&json!({"status": "ok"})),
            ("POST", ["api", "v1", "sessions"]) if only(body, &["session_id"]) => {
                result(json!({"session_id": body["session_id"]}))
            }
            ("POST", ["api", "v1", "sessions", _, "messages"])
                if only(body, &["role", "content", "parts"]) =>
            {
                self.store("openviking", peer, body["content"].as_str().unwrap_or_default());
                result(json!({}))
            }
            ("POST", ["api", "v1", "sessions", session, "commit"]) => {
                self.store("openviking-commit", session, "");
                result(json!({"status": "accepted"}))
            }
            ("POST", ["api", "v1", "search", "find"])
                if only(body, &["query", "limit", "target_uri", "score_threshold"]) =>
            {
                let found = self.find("openviking", peer, body["query"].as_str().unwrap_or_default());
                let row = |(at, text): &(usize, String)| json!({"uri": format!("viking://user/memories/{at}.md"), "abstract": text, "level": 2, "score": 0.8});
                let memories: Vec<Value> = found.iter().map(row).collect();
                result(json!({"memories": memories, "resources": [], "skills": [], "total": found.len()}))
            }
            ("GET", ["api", "v1", "content", level @ ("read" | "abstract" | "overview")]) => {
                let uri = query.iter().find(|(name, _)| name == "uri").map(|(_, uri)| uri.clone());
                result(json!(format!("{level} of {}", uri.unwrap_or_default())))
            }
            ("GET", ["api", "v1", "fs", "ls"]) => result(json!([{"uri": "viking://user/memories"}])),
            _ => refusal(404, "no such route, or a field that is not known"),
        }
    }

    fn embeddings(&self, body: &Value) -> EmulatedReply {
        if !only(body, &["model", "input", "encoding_format", "dimensions"]) {
            return refusal(400, "unknown parameter");
        }
        let inputs = body["input"].as_array().into_iter().flatten();
        let rows: Vec<Value> = inputs
            .enumerate()
            .map(|(at, text)| {
                let vector = self.vector(text.as_str().unwrap_or_default());
                json!({"object": "embedding", "index": at, "embedding": vector})
            })
            .collect();
        ok(&json!({"object": "list", "data": rows, "model": body["model"], "usage": {"total_tokens": 1}}))
    }

    /// Returns a vector in which each group of synonyms is a direction, and the other words add little.
    fn vector(&self, text: &str) -> Vec<f64> {
        const OTHERS: usize = 32;
        let mut vector = vec![0.0; self.synonyms.len() + OTHERS];
        for word in words(text) {
            let group = self.synonyms.iter().position(|group| group.contains(&word));
            let other =
                word.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
            let (at, weight) = match group {
                Some(group) => (group, 1.0),
                None => (self.synonyms.len() + other % OTHERS, 0.1),
            };
            vector[at] += weight;
        }
        vector
    }
}

impl EmulatedPlatform for MemoryWorld {
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_else(|_| json!({}));
        let path = request.target.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let Some((service, path)) = parts.split_first() else { return refusal(404, "Not found") };
        let authorization = request.header("authorization").unwrap_or_default();
        let own_key = request.header("x-api-key").unwrap_or_default();
        let is_known = match *service {
            "mem0" => authorization == format!("Token {MEMORY_KEY}"),
            "own-mem0" | "openviking" => own_key == MEMORY_KEY,
            _ => authorization == format!("Bearer {MEMORY_KEY}"),
        };
        if !is_known {
            return refusal(401, &format!("the key {authorization}{own_key} is not valid"));
        }
        let query = query_fields(&request.target);
        let peer = request.header("x-openviking-actor-peer").unwrap_or("owner").to_owned();
        match *service {
            "honcho" => self.honcho(&request.method, path, &query, &body),
            "mem0" | "own-mem0" => self.mem0(&request.method, path, &body),
            "hindsight" => self.hindsight(&request.method, path, &body),
            "supermemory" => self.supermemory(&request.method, path, &body),
            "retaindb" => self.retaindb(&request.method, path, &body),
            "openviking" => self.openviking(&request.method, path, &peer, &query, &body),
            "embeddings" if path == ["embeddings"] => self.embeddings(&body),
            _ => refusal(404, "Not found"),
        }
    }

    fn is_stream(&self, _: &ReceivedRequest) -> bool {
        self.is_silent
    }

    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        mut connection: HttpConnection,
        _: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            drop(shared);
            connection.until_gone().await;
        })
    }
}

/// Tells whether an object has no other fields than these.
fn only(body: &Value, fields: &[&str]) -> bool {
    body.as_object().is_some_and(|body| body.keys().all(|name| fields.contains(&name.as_str())))
}

fn rows(found: &[(usize, String)], field: &str) -> Vec<Value> {
    let row = |(at, text): &(usize, String)| json!({"id": format!("id-{at}"), field: text, "score": 0.9});
    found.iter().map(row).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn long_words(text: &str) -> BTreeSet<String> {
    words(text).filter(|word| word.chars().count() >= 5).collect()
}

fn ok(body: &Value) -> EmulatedReply {
    EmulatedReply::json(200, body)
}

fn refusal(status: u16, why: &str) -> EmulatedReply {
    EmulatedReply::json(status, &json!({"error": why}))
}
