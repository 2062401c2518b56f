//! Which of Z.AI's addresses a key belongs to: the plans look alike and live apart.

use std::time::Duration;

use hermes_types::{Cancel, Secret};
use serde_json::json;

use super::Lookup;
use super::ask::Question;
use crate::client::Presented;

const PATIENCE: Duration = Duration::from_secs(8);

/// Where a key is at home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZaiSite {
    pub base_url: String,
    /// A model that answered there.
    pub model: String,
}

impl Lookup {
    /// Tries a key with the smallest question there is. For setup, when a person waits; every address is Z.AI's own.
    pub async fn find_zai(&self, key: &Secret, cancel: &Cancel) -> Option<ZaiSite> {
        for (base_url, model) in &self.means.sites.zai {
            let body = json!({
                "model": model, "messages": [{"role": "user", "content": "ping"}], "max_tokens": 1, "stream": false,
            });
            let question = Question::post(&format!("{base_url}/chat/completions"), body)
                .showing(Presented::Bearer(key.clone()))
                .within(PATIENCE);
            if question.ask(&self.means, cancel).await.is_ok() {
                return Some(ZaiSite { base_url: base_url.clone(), model: model.clone() });
            }
            if cancel.is_cancelled() {
                return None;
            }
        }
        None
    }
}
