//! Detects the program that serves models on the user's own machine, and the window it was given.

use std::time::Duration;

use hermes_types::Cancel;
use serde_json::{Value, json};

use super::ModelDiscovery;
use super::query::DiscoveryQuery;
use crate::client::{Endpoint, PresentedCredential};
use crate::context_window::{from_lm_studio, from_ollama, from_props, ollama_num_ctx};

const TIMEOUT: Duration = Duration::from_secs(2);

/// Ollama's metadata of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OllamaModel {
    /// The window that its Modelfile sets.
    pub num_ctx: Option<u64>,
    /// The window that it was trained with.
    pub trained_context: Option<u64>,
    pub uses_tools: bool,
}

impl OllamaModel {
    fn read(body: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(body).ok()?;
        answer.get("model_info").or_else(|| answer.get("details"))?;
        // Older servers do not return the list of capabilities.
        let abilities = answer.get("capabilities").and_then(Value::as_array);
        let uses_tools = abilities.is_none_or(|list| list.iter().any(|ability| ability == "tools"));
        Some(Self { num_ctx: ollama_num_ctx(body), trained_context: from_ollama(body), uses_tools })
    }
}

impl ModelDiscovery {
    /// Queries a local server about a model by Ollama's API; returns `None` if it is another kind of server.
    pub(crate) async fn ollama_model(
        &self,
        endpoint: &Endpoint,
        model: &str,
        cancel: &Cancel,
    ) -> Option<OllamaModel> {
        let presented = endpoint.credentials.current(cancel).await.ok()?;
        let root = endpoint.wire.base.as_str().trim_end_matches("/v1");
        let question =
            DiscoveryQuery::post(&format!("{root}/api/show"), json!({"model": model, "name": model}));
        OllamaModel::read(
            &question
                .with_credential(presented)
                .with_timeout(TIMEOUT)
                .send(&self.context, cancel)
                .await
                .ok()?,
        )
    }

    /// Queries a local server for the models it serves.
    pub(crate) async fn served_models(&self, endpoint: &Endpoint, cancel: &Cancel) -> Vec<String> {
        let Ok(presented) = endpoint.credentials.current(cancel).await else { return Vec::new() };
        let url = format!("{}/models", endpoint.wire.base.as_str());
        let question = DiscoveryQuery::get(&url).with_credential(presented).with_timeout(TIMEOUT);
        let Ok(body) = question.send(&self.context, cancel).await else { return Vec::new() };
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let served = answer.get("data").or_else(|| answer.get("models")).and_then(Value::as_array);
        let ids = served.into_iter().flatten().filter_map(|model| model.get("id")?.as_str());
        ids.filter(|id| !id.trim().is_empty()).map(str::to_owned).collect()
    }

    /// Queries the common local servers in turn, each by a request that only it answers.
    pub(super) async fn local_window(
        &self,
        root: &str,
        model: &str,
        presented: &PresentedCredential,
        cancel: &Cancel,
    ) -> Option<u64> {
        let ask = async |question: DiscoveryQuery| {
            question
                .with_credential(presented.clone())
                .with_timeout(TIMEOUT)
                .send(&self.context, cancel)
                .await
                .ok()
        };
        if let Some(body) = ask(DiscoveryQuery::get(&format!("{root}/api/v1/models"))).await
            && let Some(size) = from_lm_studio(&body, model)
        {
            return Some(size);
        }
        if let Some(body) = ask(DiscoveryQuery::get(&format!("{root}/api/tags"))).await
            && serde_json::from_slice::<Value>(&body).is_ok_and(|tags| tags.get("models").is_some())
        {
            let name = json!({"model": model, "name": model});
            return from_ollama(&ask(DiscoveryQuery::post(&format!("{root}/api/show"), name)).await?);
        }
        None
    }

    /// Queries llama.cpp, at either of its paths.
    pub(super) async fn props_window(
        &self,
        root: &str,
        presented: &PresentedCredential,
        cancel: &Cancel,
    ) -> Option<u64> {
        for path in ["v1/props", "props"] {
            let question = DiscoveryQuery::get(&format!("{root}/{path}"))
                .with_credential(presented.clone())
                .with_timeout(TIMEOUT);
            if let Ok(body) = question.send(&self.context, cancel).await
                && let Some(size) = from_props(&body)
            {
                return Some(size);
            }
        }
        None
    }
}
