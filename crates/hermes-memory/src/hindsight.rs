//! Hindsight: facts with entities and relations, in banks.

use hermes_types::{BoxFuture, MemoryWrite, Secret};
use serde_json::{Map, Value, json};

use crate::client::{EngineAccess, EngineClient, KeyHeader, listed, texts_in};
use crate::engine::{
    EngineHealth, EngineResult, MemoryEngine, MemoryScope, SpokenMessage, optional, required,
};

const LISTS: [&str; 1] = ["/results"];

/// Which parts of a service a conversation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryUse {
    /// Memories are recalled before turns, and the model has tools.
    Hybrid,
    /// Memories are recalled before turns.
    Context,
    /// The model has tools.
    Tools,
}

impl MemoryUse {
    /// Reads a setting; anything else is the usual mode.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text.map(str::trim) {
            Some("context") => Self::Context,
            Some("tools") => Self::Tools,
            _ => Self::Hybrid,
        }
    }

    pub(crate) fn recalls(self) -> bool {
        self != Self::Tools
    }

    pub(crate) fn offers_tools(self) -> bool {
        self != Self::Context
    }
}

/// The settings of `hindsight/config.json` and the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HindsightOptions {
    pub(crate) key: Option<Secret>,
    pub(crate) url: String,
    pub(crate) bank: String,
    pub(crate) budget: String,
    pub(crate) memory_use: MemoryUse,
    pub(crate) auto_retain: bool,
    pub(crate) auto_recall: bool,
    pub(crate) retain_async: bool,
    pub(crate) retain_context: String,
    pub(crate) retain_tags: Vec<String>,
    pub(crate) recall_tags: Vec<String>,
    pub(crate) retain_source: Option<String>,
    pub(crate) user_prefix: String,
    pub(crate) assistant_prefix: String,
}

/// Hindsight as a memory.
pub(crate) struct Hindsight {
    client: EngineClient,
    options: HindsightOptions,
}

impl Hindsight {
    pub(crate) const CLOUD: &str = "https://api.hindsight.vectorize.io";
    pub(crate) const LOCAL: &str = "http://localhost:8888";

    pub(crate) fn new(options: HindsightOptions, access: &EngineAccess) -> Result<Self, String> {
        let key = options.key.clone().map(|key| (KeyHeader::Bearer, key));
        let client = EngineClient::new(access, "Hindsight", "HINDSIGHT_API_KEY", &options.url, key)?;
        Ok(Self { client, options })
    }

    /// Returns the bank of a person: others never share that of the owner.
    fn bank(&self, scope: &MemoryScope) -> String {
        match scope.person.key() {
            Some(person) => format!("{}-{person}", self.options.bank),
            None => self.options.bank.clone(),
        }
    }

    async fn post(&self, scope: &MemoryScope, path: &[&str], body: &Value) -> EngineResult<Value> {
        let bank = self.bank(scope);
        let path: Vec<&str> =
            ["v1", "default", "banks", &bank].into_iter().chain(path.iter().copied()).collect();
        self.client.post(&path, body).await
    }

    async fn retain(
        &self,
        scope: &MemoryScope,
        content: &str,
        context: &str,
        tags: &[String],
        document: Option<&str>,
    ) -> EngineResult<()> {
        let mut item = json!({"content": content, "context": context});
        let tags: Vec<&String> = self.options.retain_tags.iter().chain(tags).collect();
        if !tags.is_empty() {
            item["tags"] = json!(tags);
        }
        if let Some(source) = &self.options.retain_source {
            item["metadata"] = json!({"source": source});
        }
        if let Some(document) = document {
            item["document_id"] = json!(document);
            item["update_mode"] = json!("append");
        }
        let body = json!({"items": [item], "async": self.options.retain_async});
        self.post(scope, &["memories"], &body).await.map(drop)
    }

    async fn search(&self, scope: &MemoryScope, query: &str) -> EngineResult<Value> {
        let mut body = json!({"query": query, "budget": self.options.budget, "max_tokens": 2_048});
        if !self.options.recall_tags.is_empty() {
            body["tags"] = json!(self.options.recall_tags);
        }
        self.post(scope, &["memories", "recall"], &body).await
    }

    /// Writes a conversation as one text.
    fn transcript(&self, said: &[SpokenMessage]) -> String {
        let line = |message: &SpokenMessage| {
            let who =
                if message.is_user { &self.options.user_prefix } else { &self.options.assistant_prefix };
            format!("{who}: {}", message.text)
        };
        said.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl MemoryEngine for Hindsight {
    fn name(&self) -> &'static str {
        "hindsight"
    }

    fn label(&self) -> &'static str {
        "Hindsight"
    }

    fn recalls(&self) -> bool {
        self.options.memory_use.recalls() && self.options.auto_recall
    }

    fn stores(&self) -> bool {
        self.options.auto_retain
    }

    fn offers_tools(&self) -> bool {
        self.options.memory_use.offers_tools()
    }

    fn recall<'a>(
        &'a self,
        scope: &'a MemoryScope,
        query: &'a str,
    ) -> BoxFuture<'a, EngineResult<Vec<String>>> {
        Box::pin(async move { Ok(texts_in(&self.search(scope, query).await?, &LISTS)) })
    }

    fn store_turn<'a>(
        &'a self,
        scope: &'a MemoryScope,
        turn: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        let text = self.transcript(turn);
        Box::pin(async move {
            let context = &self.options.retain_context;
            self.retain(scope, &text, context, &[], Some(scope.session.as_str())).await
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
                "hindsight_retain" => {
                    let given = arguments.get("tags").and_then(Value::as_array);
                    let tags: Vec<String> = given
                        .map(|tags| tags.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                        .unwrap_or_default();
                    let context = optional(arguments, "context").unwrap_or(&self.options.retain_context);
                    self.retain(scope, required(arguments, "content")?, context, &tags, None).await?;
                    Ok("Stored.".to_owned())
                }
                "hindsight_recall" => {
                    Ok(listed(&self.search(scope, required(arguments, "query")?).await?, &LISTS))
                }
                _ => {
                    let body = json!({"query": required(arguments, "query")?, "budget": self.options.budget});
                    let answer = self.post(scope, &["reflect"], &body).await?;
                    Ok(answer.get("text").and_then(Value::as_str).unwrap_or("No answer.").to_owned())
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
            let context = if write.target == "user" { "profile of the user" } else { "note of the agent" };
            self.retain(scope, &write.content, context, &[], None).await
        })
    }

    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>> {
        Box::pin(async move {
            self.client.get(&["v1", "default", "banks"], &[]).await?;
            Ok(EngineHealth { place: self.client.place() })
        })
    }
}
