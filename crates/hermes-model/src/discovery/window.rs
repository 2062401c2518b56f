//! A model's context window, from the sources that know it.
//!
//! The order is fixed: what the endpoint itself says before what others say about it, and for an unknown host only
//! what it says itself.

use hermes_types::Cancel;

use super::query::DiscoveryQuery;
use super::{DAY, LIST_TTL, ModelDiscovery};
use crate::client::{Endpoint, PresentedCredential};
use crate::context_window::{WindowOrigin, from_catalogue, from_models, from_models_dev};
use crate::credential::run_on_thread;
use crate::provider::ModelFactsFile;
use crate::provider::registry::{self, Provider, ProviderKind};
use crate::wire::{ApiMode, EndpointVendor};

impl ModelDiscovery {
    /// Tells whether an endpoint's window should be queried: it was only guessed, or queried long ago. A local
    /// server may have been restarted with another size.
    pub fn should_ask_window(&self, endpoint: &Endpoint) -> bool {
        let good_for = if endpoint.wire.base.is_local() { LIST_TTL } else { DAY };
        if endpoint.stats.is_window_confirmed() {
            return false;
        }
        match endpoint.window_origin {
            WindowOrigin::Configured | WindowOrigin::Refusal => false,
            WindowOrigin::Asked(at) => self.now().since(at) >= good_for,
            WindowOrigin::Guessed => true,
        }
    }

    /// Queries the window, uses it from now on, and stores it.
    pub async fn learn_window(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let window = self.discover_window(endpoint, cancel).await?;
        endpoint.stats.set_window(window);
        let (home, now) = (self.home.clone(), self.now());
        let (model, base) = (endpoint.model.clone(), endpoint.wire.base.as_str().to_owned());
        let written = run_on_thread(move || {
            let kept =
                ModelFactsFile::update(&home, &model, &base, |known| known.window = Some((window, now)));
            if let Err(error) = kept {
                tracing::debug!(%error, "a window is not remembered");
            }
        });
        if let Some(written) = written {
            written.wait().await;
        }
        Some(window)
    }

    /// Queries the window. Returns `None` when no source knows it: the guess stays.
    pub async fn discover_window(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let model = endpoint.model.as_str();
        let Some(provider) = provider_of(endpoint) else {
            return self.ask_host(endpoint, cancel).await;
        };
        if provider.kind == ProviderKind::Aws {
            return None;
        }
        if provider.kind == ProviderKind::Anthropic
            && let Some(size) = self.ask_anthropic(endpoint, cancel).await
        {
            return Some(size);
        }
        if endpoint.wire.vendor == EndpointVendor::Nous
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

    /// Queries Anthropic's list, for which only API keys are accepted.
    async fn ask_anthropic(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let presented = endpoint.credentials.current(cancel).await.ok()?;
        if !matches!(presented, PresentedCredential::ApiKeyHeader(_)) {
            return None;
        }
        let base = endpoint.wire.base.as_str().trim_end_matches("/v1");
        let question = DiscoveryQuery::get(&format!("{base}/v1/models?limit=1000"))
            .header("anthropic-version", "2023-06-01")
            .with_credential(presented);
        from_catalogue(&question.send(&self.context, cancel).await.ok()?, &endpoint.model)
    }

    /// Queries an unknown host: its own list, then the requests that only local servers answer.
    async fn ask_host(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<u64> {
        let presented = endpoint.credentials.current(cancel).await.ok()?;
        let (base, model) = (endpoint.wire.base.as_str(), endpoint.model.as_str());
        let listed = DiscoveryQuery::get(&format!("{base}/models")).with_credential(presented.clone());
        if endpoint.wire.mode != ApiMode::Converse
            && let Ok(body) = listed.send(&self.context, cancel).await
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

/// Returns the provider whose models an endpoint serves, or `None` for a host of the user's own.
fn provider_of(endpoint: &Endpoint) -> Option<&'static Provider> {
    let named =
        registry::find(&endpoint.wire.provider).filter(|provider| provider.kind != ProviderKind::Custom);
    named.or_else(|| registry::find_by_host(endpoint.wire.base.host()))
}

/// Returns the provider's id at models.dev.
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
