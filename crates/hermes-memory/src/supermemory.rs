//! Supermemory: memories and a profile per container.

use hermes_net::Method;
use hermes_types::{BoxFuture, MemoryWrite, Secret, SessionId};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::client::{EngineAccess, EngineClient, KeyHeader, listed, texts_in};
use crate::engine::{
    EngineError, EngineHealth, EngineResult, MemoryEngine, MemoryScope, SpokenMessage, number, optional,
    required,
};
use crate::mem0::as_chat;

const LISTS: [&str; 1] = ["/results"];
/// The shortest message of a person that is worth storing, unless everything is.
const SHORTEST_STORED: usize = 12;
/// The most conversations whose turns are counted.
const MOST_COUNTED: usize = 256;

/// The settings of `supermemory.json` and the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SupermemoryOptions {
    pub(crate) key: Secret,
    pub(crate) url: String,
    pub(crate) container: String,
    pub(crate) auto_recall: bool,
    pub(crate) auto_capture: bool,
    /// Whether short turns are stored, too.
    pub(crate) captures_everything: bool,
    pub(crate) max_results: u64,
    /// After how many turns the profile is recalled again.
    pub(crate) profile_every: u64,
    pub(crate) search_mode: String,
}

/// Supermemory as a memory.
pub(crate) struct Supermemory {
    client: EngineClient,
    options: SupermemoryOptions,
    /// The number of turns of each conversation.
    turns: Mutex<HashMap<SessionId, u64>>,
}

impl Supermemory {
    pub(crate) const CLOUD: &str = "https://api.supermemory.ai";

    pub(crate) fn new(options: SupermemoryOptions, access: &EngineAccess) -> Result<Self, String> {
        let key = Some((KeyHeader::Bearer, options.key.clone()));
        let client = EngineClient::new(access, "Supermemory", "SUPERMEMORY_API_KEY", &options.url, key)?;
        Ok(Self { client, options, turns: Mutex::default() })
    }

    fn container(&self, scope: &MemoryScope) -> String {
        match scope.person.key() {
            Some(person) => format!("{}_{person}", self.options.container),
            None => self.options.container.clone(),
        }
    }

    async fn search(&self, scope: &MemoryScope, query: &str, limit: u64) -> EngineResult<Value> {
        let body = json!({
            "q": query, "containerTag": self.container(scope), "limit": limit,
            "searchMode": self.options.search_mode,
        });
        self.client.post(&["v4", "search"], &body).await
    }

    async fn profile(&self, scope: &MemoryScope) -> EngineResult<Vec<String>> {
        let body = json!({"containerTag": self.container(scope)});
        let answer = self.client.post(&["v4", "profile"], &body).await?;
        let mut facts = texts_in(&answer, &["/profile/static"]);
        facts.extend(texts_in(&answer, &["/profile/dynamic"]));
        Ok(facts)
    }

    async fn store(&self, scope: &MemoryScope, content: &str, kind: &str) -> EngineResult<()> {
        let body = json!({
            "content": content, "containerTag": self.container(scope), "metadata": {"kind": kind},
        });
        self.client.post(&["v3", "documents"], &body).await.map(drop)
    }

    /// Counts a turn. Returns whether the profile goes along with it.
    fn is_profile_turn(&self, session: &SessionId) -> bool {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= MOST_COUNTED && !turns.contains_key(session) {
            turns.clear();
        }
        let count = turns.entry(session.clone()).or_default();
        *count += 1;
        *count == 1 || (self.options.profile_every > 0 && (*count).is_multiple_of(self.options.profile_every))
    }
}

impl MemoryEngine for Supermemory {
    fn name(&self) -> &'static str {
        "supermemory"
    }

    fn label(&self) -> &'static str {
        "Supermemory"
    }

    fn recalls(&self) -> bool {
        self.options.auto_recall
    }

    fn stores(&self) -> bool {
        self.options.auto_capture
    }

    fn recall<'a>(
        &'a self,
        scope: &'a MemoryScope,
        query: &'a str,
    ) -> BoxFuture<'a, EngineResult<Vec<String>>> {
        Box::pin(async move {
            let mut found =
                if self.is_profile_turn(&scope.session) { self.profile(scope).await? } else { Vec::new() };
            let answer = self.search(scope, query, self.options.max_results).await?;
            for text in texts_in(&answer, &LISTS) {
                if !found.contains(&text) {
                    found.push(text);
                }
            }
            Ok(found)
        })
    }

    fn store_turn<'a>(
        &'a self,
        scope: &'a MemoryScope,
        turn: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let said = turn.iter().find(|message| message.is_user);
            let is_short = said.is_none_or(|said| said.text.chars().count() < SHORTEST_STORED);
            if is_short && !self.options.captures_everything {
                return Ok(());
            }
            let line = |message: &SpokenMessage| {
                format!("{}: {}", if message.is_user { "user" } else { "assistant" }, message.text)
            };
            let text = turn.iter().map(line).collect::<Vec<_>>().join("\n");
            self.store(scope, &text, "turn").await
        })
    }

    fn call<'a>(
        &'a self,
        scope: &'a MemoryScope,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> BoxFuture<'a, EngineResult<String>> {
        Box::pin(async move {
            match tool {
                "supermemory_store" => {
                    self.store(scope, required(arguments, "content")?, "explicit").await?;
                    Ok("Stored.".to_owned())
                }
                "supermemory_search" => {
                    let limit = number(arguments, "limit", self.options.max_results, 50);
                    Ok(listed(&self.search(scope, required(arguments, "query")?, limit).await?, &LISTS))
                }
                "supermemory_forget" => {
                    let mut body = json!({"containerTag": self.container(scope)});
                    match (optional(arguments, "id"), optional(arguments, "content")) {
                        (Some(id), _) => body["id"] = json!(id),
                        (None, Some(content)) => body["content"] = json!(content),
                        (None, None) => {
                            return Err(EngineError::Invalid("`id` or `content` is required".to_owned()));
                        }
                    }
                    self.client.send(Method::DELETE, &["v4", "memories"], &[], Some(&body)).await?;
                    Ok("Forgotten.".to_owned())
                }
                _ => {
                    let facts = self.profile(scope).await?;
                    Ok(if facts.is_empty() {
                        "The profile is empty.".to_owned()
                    } else {
                        facts.iter().map(|fact| format!("- {fact}")).collect::<Vec<_>>().join("\n")
                    })
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
            self.store(scope, &write.content, if write.target == "user" { "profile" } else { "note" }).await
        })
    }

    fn end_session<'a>(
        &'a self,
        scope: &'a MemoryScope,
        messages: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let body = json!({
                "conversationId": scope.session.as_str(), "messages": as_chat(messages),
                "containerTags": [self.container(scope)],
            });
            self.client.post(&["v4", "conversations"], &body).await.map(drop)
        })
    }

    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>> {
        Box::pin(async move {
            let body = json!({"containerTag": self.options.container});
            self.client.post(&["v4", "profile"], &body).await?;
            Ok(EngineHealth { place: self.client.place() })
        })
    }
}
