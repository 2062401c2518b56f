//! Finds the Z.AI endpoint that a key belongs to: the plans have similar keys but different endpoints.

use std::time::Duration;

use hermes_types::{Cancel, Secret};
use serde_json::json;

use super::ModelDiscovery;
use super::query::DiscoveryQuery;
use crate::client::PresentedCredential;

const TIMEOUT: Duration = Duration::from_secs(8);

/// The endpoint that a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZaiEndpoint {
    pub base_url: String,
    /// A model that answered there.
    pub model: String,
}

impl ModelDiscovery {
    /// Tries a key with the smallest possible request. For interactive setup; every URL is Z.AI's own.
    pub async fn find_zai(&self, key: &Secret, cancel: &Cancel) -> Option<ZaiEndpoint> {
        for (base_url, model) in &self.context.urls.zai {
            let body = json!({
                "model": model, "messages": [{"role": "user", "content": "ping"}], "max_tokens": 1, "stream": false,
            });
            let question = DiscoveryQuery::post(&format!("{base_url}/chat/completions"), body)
                .with_credential(PresentedCredential::Bearer(key.clone()))
                .with_timeout(TIMEOUT);
            if question.send(&self.context, cancel).await.is_ok() {
                return Some(ZaiEndpoint { base_url: base_url.clone(), model: model.clone() });
            }
            if cancel.is_cancelled() {
                return None;
            }
        }
        None
    }
}
