//! The model's opinion on a piece of work.

use std::sync::Arc;

use hermes_types::Cancel;
use serde_json::{Map, Value, json};

use super::servers::{ModelServers, RequestPurpose};

/// Asks the environment's model servers for opinions.
#[derive(Debug, Clone)]
pub struct ModelJudge {
    servers: Option<Arc<ModelServers>>,
}

impl ModelJudge {
    /// Creates a judge. Servers that take only tokens cannot be asked.
    pub(crate) fn new(servers: &Arc<ModelServers>) -> Self {
        let can_chat = !servers.first().server_type.is_exact();
        Self { servers: can_chat.then(|| servers.clone()) }
    }

    /// Asks one question. `None` where nobody can be asked, or the answer does not come.
    pub async fn ask(&self, question: &str, cancel: &Cancel) -> Option<String> {
        let servers = self.servers.as_ref()?;
        let body: Map<String, Value> = Map::from_iter([
            ("messages".to_owned(), json!([{"role": "user", "content": question}])),
            ("temperature".to_owned(), json!(0.0)),
            ("max_tokens".to_owned(), json!(500)),
        ]);
        let answer = servers.chat(RequestPurpose::Evaluation, &body, cancel).await;
        let answer = answer.inspect_err(|reason| tracing::warn!(reason, "the judge did not answer")).ok()?;
        answer.get("content")?.as_str().map(str::to_owned)
    }
}
