//! Which program serves models on a machine of the user's own, and what size it was given.

use std::time::Duration;

use hermes_types::Cancel;
use serde_json::{Value, json};

use super::Lookup;
use super::ask::Question;
use crate::client::Presented;
use crate::context_window::{from_lm_studio, from_ollama, from_props};

const PATIENCE: Duration = Duration::from_secs(2);

impl Lookup {
    /// Asks the servers people run, one after the other, each by the question that only it answers.
    pub(super) async fn local_window(
        &self,
        root: &str,
        model: &str,
        presented: &Presented,
        cancel: &Cancel,
    ) -> Option<u64> {
        let ask = async |question: Question| {
            question.showing(presented.clone()).within(PATIENCE).ask(&self.means, cancel).await.ok()
        };
        if let Some(body) = ask(Question::get(&format!("{root}/api/v1/models"))).await
            && let Some(size) = from_lm_studio(&body, model)
        {
            return Some(size);
        }
        if let Some(body) = ask(Question::get(&format!("{root}/api/tags"))).await
            && serde_json::from_slice::<Value>(&body).is_ok_and(|tags| tags.get("models").is_some())
        {
            let name = json!({"model": model, "name": model});
            return from_ollama(&ask(Question::post(&format!("{root}/api/show"), name)).await?);
        }
        None
    }

    /// llama.cpp, under either of its addresses.
    pub(super) async fn props_window(
        &self,
        root: &str,
        presented: &Presented,
        cancel: &Cancel,
    ) -> Option<u64> {
        for path in ["v1/props", "props"] {
            let question =
                Question::get(&format!("{root}/{path}")).showing(presented.clone()).within(PATIENCE);
            if let Ok(body) = question.ask(&self.means, cancel).await
                && let Some(size) = from_props(&body)
            {
                return Some(size);
            }
        }
        None
    }
}
