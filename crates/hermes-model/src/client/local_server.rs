//! Queries to a local server before its first request.
//!
//! Ollama silently truncates a conversation to a small window unless the request sets the size, and a server with
//! one model can be used without naming it. Sends one or two queries over a local connection, once per process.

use hermes_types::Cancel;

use super::background_discovery::BackgroundDiscovery;
use super::endpoint::Endpoint;
use super::endpoint_stats::DiscoveryTopic;
use crate::discovery::OllamaModel;
use crate::provider::ModelChoice;

/// The reason why a local server cannot be used as configured, and what to do.
pub(super) type LocalServerProblem = String;

impl BackgroundDiscovery {
    /// Asks a local server for the facts needed before the first request. Returns at once for other hosts and for
    /// servers that were asked before.
    pub(super) async fn prepare_local(
        &self,
        endpoint: &mut Endpoint,
        cancel: &Cancel,
    ) -> Result<Option<String>, LocalServerProblem> {
        let mut note = None;
        if endpoint.wire.base.is_local() && endpoint.stats.claim_query(DiscoveryTopic::Local, self.now()) {
            if endpoint.model_choice == ModelChoice::Default {
                let served = self.lookup.served_models(endpoint, cancel).await;
                match served.as_slice() {
                    [] => {}
                    [only] => endpoint.stats.set_served_model(only.clone()),
                    several => return Err(ambiguous_model_problem(endpoint, several)),
                }
            }
            let model = endpoint.stats.served_model().unwrap_or_else(|| endpoint.model.clone());
            if let Some(found) = self.lookup.ollama_model(endpoint, &model, cancel).await {
                note = apply_ollama_window(endpoint, &model, &found);
            }
        }
        if let Some(served) = endpoint.stats.served_model() {
            endpoint.model = served;
        }
        if endpoint.wire.ollama_num_ctx.is_none() {
            endpoint.wire.ollama_num_ctx = endpoint.stats.ollama_window();
        }
        Ok(note)
    }
}

/// Sets the window that the user configured, else the Modelfile's, else the model's own; never more than the user's
/// cap.
fn apply_ollama_window(endpoint: &Endpoint, model: &str, found: &OllamaModel) -> Option<String> {
    let cap = endpoint.wire.context_length.unwrap_or(u64::MAX);
    let window = endpoint
        .wire
        .ollama_num_ctx
        .or(found.num_ctx)
        .or(found.trained_context)
        .map(|window| window.min(cap));
    if let Some(window) = window {
        endpoint.stats.set_ollama_window(window);
        if endpoint.wire.context_length.is_none() && !endpoint.stats.is_window_confirmed() {
            endpoint.stats.set_window(window);
        }
    }
    (!found.uses_tools)
        .then(|| format!("{model} cannot use tools; it can only talk. Choose another with: hermes model"))
}

fn ambiguous_model_problem(endpoint: &Endpoint, served: &[String]) -> LocalServerProblem {
    const MAX_NAMES: usize = 8;
    let names: Vec<&str> = served.iter().take(MAX_NAMES).map(String::as_str).collect();
    let more = if served.len() > MAX_NAMES { " …" } else { "" };
    let example = names.first().copied().unwrap_or_default();
    format!(
        "{} serves {}{more}. Choose one: hermes model custom:{example}",
        endpoint.wire.base.as_str(),
        names.join(", "),
    )
}
