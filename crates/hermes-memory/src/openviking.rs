//! OpenViking: a context database with a tree of addresses, on a server of one's own.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use hermes_types::{BoxFuture, MemoryWrite, Secret};
use serde_json::{Map, Value, json};

use crate::client::{EngineAccess, EngineClient, KeyHeader, text_of};
use crate::engine::{
    EngineError, EngineHealth, EngineResult, MemoryEngine, MemoryScope, SpokenMessage, number, optional,
    required, safe_name,
};

const RECALLED: u64 = 8;
/// The kinds of what a search finds.
const KINDS: [&str; 3] = ["memories", "resources", "skills"];

/// The settings of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenVikingOptions {
    pub(crate) key: Option<Secret>,
    pub(crate) url: String,
    pub(crate) account: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) peer: Option<String>,
}

/// OpenViking as a memory.
pub(crate) struct OpenViking {
    client: EngineClient,
    peer: Option<String>,
    /// The sessions that exist there.
    sessions: Mutex<HashSet<String>>,
}

impl OpenViking {
    pub(crate) const LOCAL: &str = "http://localhost:1933";

    pub(crate) fn new(options: OpenVikingOptions, access: &EngineAccess) -> Result<Self, String> {
        let key = options.key.map(|key| (KeyHeader::ApiKey, key));
        let mut client = EngineClient::new(access, "OpenViking", "OPENVIKING_API_KEY", &options.url, key)?;
        if let Some(account) = &options.account {
            client = client.with_header("x-openviking-account", account);
        }
        if let Some(user) = &options.user {
            client = client.with_header("x-openviking-user", user);
        }
        Ok(Self { client, peer: options.peer, sessions: Mutex::default() })
    }

    /// Returns a client that sees the memories of this person only.
    fn client(&self, scope: &MemoryScope) -> EngineClient {
        match scope.person.key().or_else(|| self.peer.clone()) {
            Some(peer) => self.client.clone().with_header("x-openviking-actor-peer", &peer),
            None => self.client.clone(),
        }
    }

    /// Returns the session there, one for each person in a conversation.
    async fn session(&self, scope: &MemoryScope) -> EngineResult<String> {
        let name = match scope.person.key() {
            Some(person) => safe_name(&format!("{}_{person}", scope.session.as_str())),
            None => safe_name(scope.session.as_str()),
        };
        if !self.known().contains(&name) {
            let created =
                self.client(scope).post(&["api", "v1", "sessions"], &json!({"session_id": name})).await;
            match created {
                Ok(_) => {}
                // One that exists already is what was wanted.
                Err(EngineError::Failed(reason)) if reason.contains("409") || reason.contains("exists") => {}
                Err(error) => return Err(error),
            }
            self.known().insert(name.clone());
        }
        Ok(name)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(&self, scope: &MemoryScope, query: &str, limit: u64) -> EngineResult<Vec<Value>> {
        let body = json!({"query": query, "limit": limit});
        let answer = self.client(scope).post(&["api", "v1", "search", "find"], &body).await?;
        let of_kind = |kind: &&str| answer.pointer(&format!("/result/{kind}"))?.as_array().cloned();
        Ok(KINDS.iter().filter_map(of_kind).flatten().collect())
    }

    async fn tell(&self, scope: &MemoryScope, said: &[SpokenMessage]) -> EngineResult<String> {
        let (client, session) = (self.client(scope), self.session(scope).await?);
        for message in said {
            let role = if message.is_user { "user" } else { "assistant" };
            let body = json!({"role": role, "content": message.text});
            client.post(&["api", "v1", "sessions", &session, "messages"], &body).await?;
        }
        Ok(session)
    }

    async fn commit(&self, scope: &MemoryScope, session: &str) -> EngineResult<()> {
        let path = ["api", "v1", "sessions", session, "commit"];
        self.client(scope).post(&path, &json!({})).await.map(drop)
    }
}

/// Returns an address of the database; nothing else is read.
fn address(text: &str) -> EngineResult<&str> {
    if text.starts_with("viking://") {
        Ok(text)
    } else {
        Err(EngineError::Invalid("`uri` must begin with viking://".to_owned()))
    }
}

impl MemoryEngine for OpenViking {
    fn name(&self) -> &'static str {
        "openviking"
    }

    fn label(&self) -> &'static str {
        "OpenViking"
    }

    fn recall<'a>(
        &'a self,
        scope: &'a MemoryScope,
        query: &'a str,
    ) -> BoxFuture<'a, EngineResult<Vec<String>>> {
        Box::pin(async move {
            let found = self.find(scope, query, RECALLED).await?;
            Ok(found.iter().filter_map(text_of).collect())
        })
    }

    fn store_turn<'a>(
        &'a self,
        scope: &'a MemoryScope,
        turn: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move { self.tell(scope, turn).await.map(drop) })
    }

    fn call<'a>(
        &'a self,
        scope: &'a MemoryScope,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> BoxFuture<'a, EngineResult<String>> {
        Box::pin(async move {
            let client = self.client(scope);
            match tool {
                "viking_search" => {
                    let limit = number(arguments, "limit", RECALLED, 50);
                    let found = self.find(scope, required(arguments, "query")?, limit).await?;
                    let line = |item: &Value| {
                        let uri = item.get("uri").and_then(Value::as_str).unwrap_or_default();
                        format!("- {uri}: {}", text_of(item).unwrap_or_default())
                    };
                    Ok(match found.as_slice() {
                        [] => "Nothing was found.".to_owned(),
                        found => found.iter().map(line).collect::<Vec<_>>().join("\n"),
                    })
                }
                "viking_read" => {
                    let uri = address(required(arguments, "uri")?)?;
                    let level = match optional(arguments, "level") {
                        Some("abstract") => "abstract",
                        Some("overview") => "overview",
                        _ => "read",
                    };
                    let answer = client.get(&["api", "v1", "content", level], &[("uri", uri)]).await?;
                    Ok(match answer.get("result") {
                        Some(Value::String(text)) => text.clone(),
                        Some(other) => text_of(other).unwrap_or_else(|| other.to_string()),
                        None => "The entry is empty.".to_owned(),
                    })
                }
                "viking_browse" => {
                    let uri = address(optional(arguments, "uri").unwrap_or("viking://"))?;
                    let answer = client.get(&["api", "v1", "fs", "ls"], &[("uri", uri)]).await?;
                    let line = |entry: &Value| match entry {
                        Value::String(name) => format!("- {name}"),
                        entry => {
                            let name =
                                ["uri", "name", "path"].iter().find_map(|name| entry.get(*name)?.as_str());
                            format!("- {}", name.unwrap_or_default())
                        }
                    };
                    let entries = answer.get("result").and_then(Value::as_array);
                    let lines: Vec<String> =
                        entries.map(|entries| entries.iter().map(line).collect()).unwrap_or_default();
                    Ok(if lines.is_empty() { "The folder is empty.".to_owned() } else { lines.join("\n") })
                }
                _ => {
                    let fact = required(arguments, "content")?.to_owned();
                    let session = self.tell(scope, &[SpokenMessage { is_user: true, text: fact }]).await?;
                    self.commit(scope, &session).await?;
                    Ok("Stored.".to_owned())
                }
            }
        })
    }

    fn mirror<'a>(
        &'a self,
        scope: &'a MemoryScope,
        write: &'a MemoryWrite,
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            if write.action != "add" {
                return Ok(());
            }
            let fact = SpokenMessage { is_user: true, text: write.content.clone() };
            self.tell(scope, &[fact]).await.map(drop)
        })
    }

    fn end_session<'a>(
        &'a self,
        scope: &'a MemoryScope,
        _: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let session = self.session(scope).await?;
            self.commit(scope, &session).await
        })
    }

    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>> {
        Box::pin(async move {
            self.client.get(&["health"], &[]).await?;
            Ok(EngineHealth { place: self.client.place() })
        })
    }
}
