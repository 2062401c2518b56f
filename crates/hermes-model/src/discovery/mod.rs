//! Questions to providers beside the conversation: what they serve, how much fits, what it costs.
//!
//! Asks and remembers; decides nothing about a turn. Invariants: nothing is asked unless a caller asks for it, and no
//! caller does before a first reply has come, apart from a person at a prompt; an endpoint's key is shown to that
//! endpoint and to nobody else; a server that does not answer costs a bounded wait and is then left alone for a while.

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

/// How long an answer is good for.
const LIST_TTL: Duration = Duration::from_hours(1);
/// How long a model's facts are good for before they are asked for again.
const DAY: Duration = Duration::from_hours(24);

/// What asking takes. Clones share what they remember.
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

    /// The registry of models.dev, from disk while it is fresh.
    async fn models_dev(&self, cancel: &Cancel) -> Option<Vec<u8>> {
        let question =
            query::DiscoveryQuery::get(&self.context.urls.models_dev).with_timeout(Duration::from_secs(15));
        self.cache.fetch(&self.context, &self.home.models_dev_cache(), question, cancel).await
    }

    /// OpenRouter's catalogue, from disk while it is fresh. Public: no key is shown.
    async fn openrouter(&self, cancel: &Cancel) -> Option<Vec<u8>> {
        let url = format!("{}/models", self.context.urls.openrouter.trim_end_matches('/'));
        let path = cache::list_path(&self.home, &url)?;
        self.cache.fetch(&self.context, &path, query::DiscoveryQuery::get(&url), cancel).await
    }
}
