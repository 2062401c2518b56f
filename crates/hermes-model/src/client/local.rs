//! What a server on the user's own machine has to be asked before its first request.
//!
//! Ollama cuts a conversation to a small window without saying so, unless it is told how large it may be; and a server
//! that serves one model need not be told which. One or two questions over a local connection, once in a process.

use hermes_types::Cancel;

use super::endpoint::Endpoint;
use super::learning::Learning;
use super::learnt::Subject;
use crate::discovery::OllamaModel;
use crate::provider::ModelChoice;

/// Why a local server cannot be asked as things are, and what to do.
pub(super) type Problem = String;

impl Learning {
    /// Asks a local server what has to be known first. Other hosts, and servers asked before, cost nothing.
    pub(super) async fn prepare_local(
        &self,
        endpoint: &mut Endpoint,
        cancel: &Cancel,
    ) -> Result<Option<String>, Problem> {
        let mut note = None;
        if endpoint.wire.base.is_local() && endpoint.learnt.may_ask(Subject::Local, self.now()) {
            if endpoint.model_choice == ModelChoice::Assumed {
                let served = self.lookup.served_models(endpoint, cancel).await;
                match served.as_slice() {
                    [] => {}
                    [only] => endpoint.learnt.set_served(only.clone()),
                    several => return Err(choose_one(endpoint, several)),
                }
            }
            let model = endpoint.learnt.served().unwrap_or_else(|| endpoint.model.clone());
            if let Some(found) = self.lookup.ollama_model(endpoint, &model, cancel).await {
                note = note_window(endpoint, &model, &found);
            }
        }
        if let Some(served) = endpoint.learnt.served() {
            endpoint.model = served;
        }
        if endpoint.wire.ollama_num_ctx.is_none() {
            endpoint.wire.ollama_num_ctx = endpoint.learnt.ollama_window();
        }
        Ok(note)
    }
}

/// The window that the user set, else the Modelfile's, else the model's own; never more than the user's cap.
fn note_window(endpoint: &Endpoint, model: &str, found: &OllamaModel) -> Option<String> {
    let cap = endpoint.wire.context_length.unwrap_or(u64::MAX);
    let window =
        endpoint.wire.ollama_num_ctx.or(found.num_ctx).or(found.trained).map(|window| window.min(cap));
    if let Some(window) = window {
        endpoint.learnt.set_ollama_window(window);
        if endpoint.wire.context_length.is_none() && !endpoint.learnt.is_settled() {
            endpoint.learnt.set_window(window);
        }
    }
    (!found.uses_tools)
        .then(|| format!("{model} cannot use tools; it can only talk. Choose another with: hermes model"))
}

fn choose_one(endpoint: &Endpoint, served: &[String]) -> Problem {
    const MOST: usize = 8;
    let names: Vec<&str> = served.iter().take(MOST).map(String::as_str).collect();
    let more = if served.len() > MOST { " …" } else { "" };
    let example = names.first().copied().unwrap_or_default();
    format!(
        "{} serves {}{more}. Choose one: hermes model custom:{example}",
        endpoint.wire.base.as_str(),
        names.join(", "),
    )
}
