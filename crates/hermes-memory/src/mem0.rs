//! Mem0: the hosted platform, or a server of its own with the same memories.

use hermes_net::Method;
use hermes_types::{BoxFuture, MemoryWrite, Secret};
use serde_json::{Map, Value, json};

use crate::client::{EngineAccess, EngineClient, KeyHeader, listed, texts_in};
use crate::engine::{EngineHealth, EngineResult, MemoryEngine, MemoryScope, SpokenMessage, number, required};

const LISTS: [&str; 2] = ["/results", ""];
const RECALLED: u64 = 10;

/// The settings of `mem0.json` and the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mem0Options {
    pub(crate) key: Option<Secret>,
    /// The address of a server of one's own; the hosted platform when absent.
    pub(crate) host: Option<String>,
    pub(crate) user_id: String,
    pub(crate) agent_id: String,
    pub(crate) rerank: bool,
}

/// Mem0 as a memory.
pub(crate) struct Mem0 {
    client: EngineClient,
    options: Mem0Options,
}

impl Mem0 {
    pub(crate) const PLATFORM: &str = "https://api.mem0.ai";

    pub(crate) fn new(options: Mem0Options, access: &EngineAccess) -> Result<Self, String> {
        let base = options.host.as_deref().unwrap_or(Self::PLATFORM);
        let header = if options.host.is_some() { KeyHeader::ApiKey } else { KeyHeader::Token };
        let key = options.key.clone().map(|key| (header, key));
        Ok(Self { client: EngineClient::new(access, "Mem0", "MEM0_API_KEY", base, key)?, options })
    }

    fn is_own_server(&self) -> bool {
        self.options.host.is_some()
    }

    fn user(&self, scope: &MemoryScope) -> String {
        scope.person.key().unwrap_or_else(|| self.options.user_id.clone())
    }

    async fn search(&self, scope: &MemoryScope, query: &str, limit: u64) -> EngineResult<Value> {
        let user = self.user(scope);
        let filters = json!({"user_id": user});
        if self.is_own_server() {
            return self
                .client
                .post(&["search"], &json!({"query": query, "filters": filters, "top_k": limit}))
                .await;
        }
        let mut body = json!({"query": query, "filters": filters, "top_k": limit});
        if self.options.rerank {
            body["rerank"] = json!(true);
        }
        self.client.post(&["v3", "memories", "search", ""], &body).await
    }

    async fn add(&self, scope: &MemoryScope, messages: Value, infer: bool) -> EngineResult<()> {
        let mut body = json!({
            "messages": messages, "user_id": self.user(scope), "agent_id": self.options.agent_id,
        });
        if !infer {
            body["infer"] = json!(false);
        }
        let path: &[&str] = if self.is_own_server() { &["memories"] } else { &["v3", "memories", "add", ""] };
        self.client.post(path, &body).await.map(drop)
    }

    async fn change(&self, method: Method, id: &str, body: Option<&Value>) -> EngineResult<()> {
        let own = ["memories", id];
        let hosted = ["v1", "memories", id, ""];
        let path: &[&str] = if self.is_own_server() { &own } else { &hosted };
        self.client.send(method, path, &[], body).await.map(drop)
    }
}

impl MemoryEngine for Mem0 {
    fn name(&self) -> &'static str {
        "mem0"
    }

    fn label(&self) -> &'static str {
        "Mem0"
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
        Box::pin(async move { self.add(scope, as_chat(turn), true).await })
    }

    fn call<'a>(
        &'a self,
        scope: &'a MemoryScope,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> BoxFuture<'a, EngineResult<String>> {
        Box::pin(async move {
            match tool {
                "mem0_search" => {
                    let limit = number(arguments, "limit", RECALLED, 50);
                    let answer = self.search(scope, required(arguments, "query")?, limit).await?;
                    Ok(listed(&answer, &LISTS))
                }
                "mem0_add" => {
                    let message = json!([{"role": "user", "content": required(arguments, "content")?}]);
                    self.add(scope, message, false).await?;
                    Ok("Stored.".to_owned())
                }
                "mem0_update" => {
                    let body = json!({"text": required(arguments, "text")?});
                    self.change(Method::PUT, required(arguments, "memory_id")?, Some(&body)).await?;
                    Ok("Changed.".to_owned())
                }
                _ => {
                    self.change(Method::DELETE, required(arguments, "memory_id")?, None).await?;
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
            if write.action != "add" || write.target != "user" {
                return Ok(());
            }
            self.add(scope, json!([{"role": "user", "content": write.content}]), false).await
        })
    }

    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>> {
        Box::pin(async move {
            if self.is_own_server() {
                let user = self.options.user_id.as_str();
                self.client.get(&["memories"], &[("user_id", user)]).await?;
            } else {
                self.client.get(&["v1", "ping", ""], &[]).await?;
            }
            Ok(EngineHealth { place: self.client.place() })
        })
    }
}

/// Returns messages in the format of chat APIs.
pub(crate) fn as_chat(messages: &[SpokenMessage]) -> Value {
    let one = |said: &SpokenMessage| json!({"role": if said.is_user { "user" } else { "assistant" }, "content": said.text});
    Value::Array(messages.iter().map(one).collect())
}
