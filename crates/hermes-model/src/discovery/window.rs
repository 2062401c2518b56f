//! A model's window, from whoever knows it.
//!
//! The order is a contract: what the endpoint itself says before what others say about it, and for a host nobody knows
//! nothing but what it says itself.

use hermes_types::Cancel;

use super::ask::Question;
use super::{DAY, FRESH, Lookup};
use crate::client::{Endpoint, Presented};
use crate::context_window::{Origin, from_catalogue, from_models, from_models_dev};
use crate::credential::aside;
use crate::provider::KnownModels;
use crate::provider::registry::{self, Kind, Provider};
use crate::wire::{Mode, Vendor};

impl Lookup {
    /// Whether what is known of an endpoint's window is worth a question: it was only guessed, or asked for long ago.
    /// A server of the user's own may have been started anew with another size.
    pub fn should_ask_window(&self, endpoint: &Endpoint) -> bool {
        let good_for = if endpoint.wire.base.is_local() { FRESH } else { DAY };
        if endpoint.learnt.is_settled() {
            return false;
        }
        match endpoint.window_origin {
            Origin::Configured | Origin::Refusal => false,
            Origin::Asked(at) => self.now().since(at) >= good_for,
            Origin::Guessed => true,
        }
    }

    /// Asks for the window, uses it from now on, and remembers it.
    pub async fn learn_window(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let window = self.discover_window(endpoint, cancel).await?;
        endpoint.learnt.set_window(window);
        let (home, now) = (self.home.clone(), self.now());
        let (model, base) = (endpoint.model.clone(), endpoint.wire.base.as_str().to_owned());
        let written = aside(move || {
            let kept =
                KnownModels::remember(&home, &model, &base, |known| known.window = Some((window, now)));
            if let Err(error) = kept {
                tracing::debug!(%error, "a window is not remembered");
            }
        });
        if let Some(written) = written {
            written.wait().await;
        }
        Some(window)
    }

    /// Asks for the window. `None` when nobody knows: the guess stays.
    pub async fn discover_window(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let model = endpoint.model.as_str();
        let Some(provider) = home_of(endpoint) else {
            return self.ask_host(endpoint, cancel).await;
        };
        if provider.kind == Kind::Aws {
            return None;
        }
        if provider.kind == Kind::Anthropic
            && let Some(size) = self.ask_anthropic(endpoint, cancel).await
        {
            return Some(size);
        }
        if endpoint.wire.vendor == Vendor::Nous
            && let Some(size) = self.catalogue_window(model, cancel).await
        {
            return Some(size);
        }
        if let Some(id) = id_at_models_dev(provider.id)
            && let Some(registry) = self.models_dev(cancel).await
            && let Some(size) = from_models_dev(&registry, id, model)
        {
            return Some(size);
        }
        if let Some(size) = self.catalogue_window(model, cancel).await {
            return Some(size);
        }
        if endpoint.wire.base.is_local() { self.ask_host(endpoint, cancel).await } else { None }
    }

    async fn catalogue_window(&self, model: &str, cancel: &Cancel) -> Option<u64> {
        from_catalogue(&self.openrouter(cancel).await?, model)
    }

    /// Only keys of the API may ask for the list.
    async fn ask_anthropic(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let presented = endpoint.credentials.current(cancel).await.ok()?;
        if !matches!(presented, Presented::ApiKeyHeader(_)) {
            return None;
        }
        let base = endpoint.wire.base.as_str().trim_end_matches("/v1");
        let question = Question::get(&format!("{base}/v1/models?limit=1000"))
            .header("anthropic-version", "2023-06-01")
            .showing(presented);
        from_catalogue(&question.ask(&self.means, cancel).await.ok()?, &endpoint.model)
    }

    /// A host nobody knows: its own list, then what only local servers answer.
    async fn ask_host(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let presented = endpoint.credentials.current(cancel).await.ok()?;
        let (base, model) = (endpoint.wire.base.as_str(), endpoint.model.as_str());
        let listed = Question::get(&format!("{base}/models")).showing(presented.clone());
        if endpoint.wire.mode != Mode::Converse
            && let Ok(body) = listed.ask(&self.means, cancel).await
            && let Some(size) = from_models(&body, model)
        {
            return Some(size);
        }
        let root = base.trim_end_matches("/v1");
        if let Some(size) = self.props_window(root, &presented, cancel).await {
            return Some(size);
        }
        if !endpoint.wire.base.is_local() {
            return None;
        }
        self.local_window(root, model, &presented, cancel).await
    }
}

/// The provider whose models an endpoint serves; `None` for a host of the user's own.
fn home_of(endpoint: &Endpoint) -> Option<&'static Provider> {
    let named = registry::find(&endpoint.wire.provider).filter(|provider| provider.kind != Kind::Custom);
    named.or_else(|| registry::at_host(endpoint.wire.base.host()))
}

/// What models.dev calls a provider.
fn id_at_models_dev(provider: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 20] = [
        ("ai-gateway", "vercel"),
        ("alibaba", "alibaba"),
        ("alibaba-coding-plan", "alibaba"),
        ("anthropic", "anthropic"),
        ("copilot", "github-copilot"),
        ("deepseek", "deepseek"),
        ("gemini", "google"),
        ("huggingface", "huggingface"),
        ("kilocode", "kilo"),
        ("kimi-coding", "moonshotai"),
        ("kimi-coding-cn", "moonshotai-cn"),
        ("minimax", "minimax"),
        ("minimax-cn", "minimax-cn"),
        ("nvidia", "nvidia"),
        ("openai", "openai"),
        ("openai-codex", "openai"),
        ("opencode-go", "opencode-go"),
        ("opencode-zen", "opencode"),
        ("xai", "xai"),
        ("zai", "zai"),
    ];
    NAMES.iter().find(|(id, _)| *id == provider).map(|(_, name)| *name)
}
