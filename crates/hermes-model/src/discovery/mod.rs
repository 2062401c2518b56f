//! Queries to providers outside the conversation: their models, windows and prices.
//!
//! Queries and caches; decides nothing about a turn. Invariants: nothing is queried unless a caller requests it,
//! and apart from interactive setup no caller does so before the first reply; an endpoint's key is sent to that
//! endpoint only; a server that does not answer costs a bounded wait and is then not queried again for a while.

mod cache;
mod local_server;
mod models;
mod price;
mod query;
mod window;
mod zai;

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Home;
use hermes_types::{Cancel, Timestamp};

use crate::credential::CredentialContext;
use cache::ModelListCache;

pub use local_server::OllamaModel;
pub use models::{ListFreshness, ListedModel, ModelListError};
pub use zai::ZaiEndpoint;

/// The time for which a list is fresh.
const LIST_TTL: Duration = Duration::from_hours(1);
/// The time for which a model's facts are used before they are queried again.
const DAY: Duration = Duration::from_hours(24);

/// The services that queries need. Clones share what is cached.
#[derive(Debug, Clone)]
pub struct ModelDiscovery {
    context: CredentialContext,
    home: Home,
    cache: Arc<ModelListCache>,
}

impl ModelDiscovery {
    pub fn new(context: CredentialContext, home: Home) -> Self {
        Self { context, home, cache: Arc::default() }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn credential_context(&self) -> &CredentialContext {
        &self.context
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    /// Returns the registry of models.dev, from disk while it is fresh.
    async fn models_dev(&self, cancel: &Cancel) -> Option<Vec<u8>> {
        let question =
            query::DiscoveryQuery::get(&self.context.urls.models_dev).with_timeout(Duration::from_secs(15));
        self.cache.fetch(&self.context, &self.home.models_dev_cache(), question, cancel).await
    }

    /// Returns OpenRouter's catalogue, from disk while it is fresh. It is public: no key is sent.
    async fn openrouter(&self, cancel: &Cancel) -> Option<Vec<u8>> {
        let url = format!("{}/models", self.context.urls.openrouter.trim_end_matches('/'));
        let path = cache::list_path(&self.home, &url)?;
        self.cache.fetch(&self.context, &path, query::DiscoveryQuery::get(&url), cancel).await
    }
}
