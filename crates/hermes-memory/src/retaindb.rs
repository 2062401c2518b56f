//! RetainDB: typed memories in projects, hosted or on a server of one's own.

use hermes_net::Method;
use hermes_types::{BoxFuture, MemoryWrite, Secret};
use serde_json::{Map, Value, json};

use crate::client::{EngineAccess, EngineClient, KeyHeader, listed, texts_in};
use crate::engine::{
    EngineHealth, EngineResult, MemoryEngine, MemoryScope, SpokenMessage, number, optional, required,
};
use crate::mem0::as_chat;

const LISTS: [&str; 3] = ["/results", "/memories", ""];
const RECALLED: u64 = 10;

/// The settings of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetainDbOptions {
    pub(crate) key: Option<Secret>,
    pub(crate) url: String,
    pub(crate) project: String,
}

/// RetainDB as a memory.
pub(crate) struct RetainDb {
    client: EngineClient,
    project: String,
}

impl RetainDb {
    pub(crate) const CLOUD: &str = "https://api.retaindb.com";
    /// The user id of the owner.
    const OWNER: &str = "hermes-user";

    pub(crate) fn new(options: RetainDbOptions, access: &EngineAccess) -> Result<Self, String> {
        let key = options.key.map(|key| (KeyHeader::Bearer, key));
        let client = EngineClient::new(access, "RetainDB", "RETAINDB_API_KEY", &options.url, key)?;
        Ok(Self { client, project: options.project })
    }

    fn user(scope: &MemoryScope) -> String {
        scope.person.key().unwrap_or_else(|| Self::OWNER.to_owned())
    }

    async fn search(&self, scope: &MemoryScope, query: &str, limit: u64) -> EngineResult<Value> {
        let body = json!({
            "project": self.project, "query": query, "user_id": Self::user(scope), "top_k": limit,
        });
        self.client.post(&["v1", "memory", "search"], &body).await
    }

    async fn remember(&self, scope: &MemoryScope, content: &str, kind: &str) -> EngineResult<()> {
        let body = json!({
            "project": self.project, "content": content, "memory_type": kind, "user_id": Self::user(scope),
            "session_id": scope.session.as_str(),
        });
        self.client.post(&["v1", "memory"], &body).await.map(drop)
    }
}

impl MemoryEngine for RetainDb {
    fn name(&self) -> &'static str {
        "retaindb"
    }

    fn label(&self) -> &'static str {
        "RetainDB"
    }

    fn recall<'a>(
        &'a self,
        scope: &'a MemoryScope,
        query: &'a str,
    ) -> BoxFuture<'a, EngineResult<Vec<String>>> {
        Box::pin(async move { Ok(texts_in(&self.search(scope, query, RECALLED).await?, &LISTS)) })
    }

    fn store_turn<'a>(
        &'a self,
        scope: &'a MemoryScope,
        turn: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let body = json!({
                "project": self.project, "session_id": scope.session.as_str(),
                "user_id": Self::user(scope), "messages": as_chat(turn),
            });
            self.client.post(&["v1", "memory", "ingest", "session"], &body).await.map(drop)
        })
    }

    fn call<'a>(
        &'a self,
        scope: &'a MemoryScope,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> BoxFuture<'a, EngineResult<String>> {
        Box::pin(async move {
            let project = [("project", self.project.as_str())];
            match tool {
                "retaindb_profile" => {
                    let user = Self::user(scope);
                    let answer = self.client.get(&["v1", "memory", "profile", &user], &project).await?;
                    Ok(listed(&answer, &LISTS))
                }
                "retaindb_search" => {
                    let limit = number(arguments, "limit", RECALLED, 50);
                    Ok(listed(&self.search(scope, required(arguments, "query")?, limit).await?, &LISTS))
                }
                "retaindb_context" => {
                    let body = json!({
                        "project": self.project, "query": required(arguments, "query")?,
                        "user_id": Self::user(scope), "include_memories": true,
                    });
                    let answer = self.client.post(&["v1", "context", "query"], &body).await?;
                    Ok(answer
                        .get("context")
                        .and_then(Value::as_str)
                        .unwrap_or("Nothing is known.")
                        .to_owned())
                }
                "retaindb_remember" => {
                    let kind = optional(arguments, "memory_type").unwrap_or("factual");
                    self.remember(scope, required(arguments, "content")?, kind).await?;
                    Ok("Stored.".to_owned())
                }
                _ => {
                    let id = required(arguments, "memory_id")?;
                    self.client.send(Method::DELETE, &["v1", "memory", id], &[], None).await?;
                    Ok("Deleted.".to_owned())
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
            let kind = if write.target == "user" { "preference" } else { "factual" };
            self.remember(scope, &write.content, kind).await
        })
    }

    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>> {
        Box::pin(async move {
            self.client.get(&["v1", "projects"], &[]).await?;
            Ok(EngineHealth { place: self.client.place() })
        })
    }
}
